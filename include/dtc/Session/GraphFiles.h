#pragma once
// Program files of other frameworks: binary files whose graphs are imported (lib/Import).
#include "dtc/Import/program/Format.h"
#include "dtc/Session/Annotate.h"

namespace dtc {

// All formats.
[[nodiscard]] std::span<const GraphFormat* const> graphFormats();
// The format of a file, judged by its name and its first bytes; nullptr if it is none of them, or unreadable.
[[nodiscard]] const GraphFormat* graphFormatOf(const std::string& path);
// The format of a program in memory, judged by its first bytes.
[[nodiscard]] const GraphFormat* graphFormatOfBytes(std::string_view bytes);
// Imports a file. `report`: list its problems instead of reporting them to `diags`.
[[nodiscard]] Result<ImportedProgram> importGraph(const GraphFormat&, InputFile, const ReadOptions&,
                                                  bool report, Diagnostics& diags);
// A file as the .dt text of what it imports, with its verified types. Diagnostics refer to `listing`, the listing of
// the file's graph; the error then has no message.
[[nodiscard]] Result<SourceText> graphText(const GraphFormat&, InputFile, const ReadOptions&, Diagnostics&,
                                           SourceText& listing);

} // namespace dtc
