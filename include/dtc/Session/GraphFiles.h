#pragma once
// Program files of other frameworks: binary files whose graphs are imported (lib/Import).
#include "dtc/Import/program/Format.h"
#include "dtc/Session/Annotate.h"

namespace dtc {

// A file does not import, and may do so with --dim or with shapes of its inputs: mayNeedSizes.
inline constexpr DiagKind kUnboundSizes{
    "unbound-sizes",
    "the file has symbolic sizes, which some of its ops need as numbers: bind them with {0}"};

// All formats.
[[nodiscard]] std::span<const GraphFormat* const> graphFormats();
// The format of a file, judged by its name and its first bytes; nullptr if it is none of them, or unreadable.
[[nodiscard]] const GraphFormat* graphFormatOf(const std::string& path);
// The format of a program in memory, judged by its first bytes.
[[nodiscard]] const GraphFormat* graphFormatOfBytes(std::string_view bytes);
// Imports a file. `report`: list its problems instead of reporting them to `diags`.
[[nodiscard]] Result<ImportedProgram> importGraph(const GraphFormat&, InputFile, const ReadOptions&,
                                                  bool report, Diagnostics& diags);
// Whether a file that does not import may do so if its symbolic sizes are numbers: some are unbound, and its inputs and
// all its ops are supported. Its @main then has all arguments.
[[nodiscard]] bool mayNeedSizes(const ImportedProgram&, const ReadOptions&, const Diagnostics&);
// A file as the .dt text of what it imports, with its verified types. Diagnostics refer to the source of `imported`, the
// listing of the file's graph; the error then has no message. `imported` is empty if the file is malformed.
[[nodiscard]] Result<SourceText> graphText(const GraphFormat&, InputFile, const ReadOptions&, Diagnostics&,
                                           std::optional<ImportedProgram>& imported);

} // namespace dtc
