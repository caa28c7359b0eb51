#pragma once
// Appends the texts that a program imports.
#include "dtc/Support/Diagnostics.h"
#include "dtc/Support/EmbeddedFile.h"
#include <span>

namespace dtc {

// The modules of dtc's library (library/*.dt), by file name.
[[nodiscard]] std::span<const EmbeddedFile> libraryModules();

// Appends each imported text once, also those that imported texts import. A file is looked up below the folder of
// the file that imports it, and must stay below the program's folder; the program on the standard input has the
// working directory, a program without a file has none. Errors, in the diagnostics: an unknown module, a file that
// cannot be read, too many.
[[nodiscard]] bool appendImports(SourceText&, Diagnostics&);

} // namespace dtc
