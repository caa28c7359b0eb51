#pragma once
// Program files of other frameworks: binary files whose graphs are imported (lib/Import).
#include "Environment.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Import/program/Format.h"
#include "dtc/Session/Annotate.h"

namespace dtc {

// All formats.
[[nodiscard]] std::span<const GraphFormat* const> graphFormats();
// The format of a file, judged by its name and its first bytes; nullptr if it is none of them, or unreadable.
[[nodiscard]] const GraphFormat* graphFormatOf(const std::string& path);
// Imports and verifies a file, with symbolic sizes and meshes bound. Diagnostics are reported; the error then
// has no message.
[[nodiscard]] Result<Module> loadGraph(Environment&, const GraphFormat&, const std::string& path,
                                       const ReadOptions&);
// Imports a file for its list of problems.
[[nodiscard]] Result<ImportedProgram> graphProblems(const GraphFormat&, const std::string& path,
                                                    const ParseOptions&);

} // namespace dtc
