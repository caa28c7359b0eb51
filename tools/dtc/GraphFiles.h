#pragma once
// Program files of other frameworks, with their diagnostics reported.
#include "Environment.h"
#include "dtc/Session/GraphFiles.h"

namespace dtc {

// The format of a file, or of standard input for "-"; nullptr if it is none of graphFormats().
[[nodiscard]] const GraphFormat* graphFormatOf(Environment&, const std::string& path);
// Imports and verifies a file, with symbolic sizes, meshes and shardings bound. Diagnostics are reported; the
// error then has no message.
[[nodiscard]] Result<Module> loadGraph(Environment&, const GraphFormat&, const std::string& path,
                                       const ReadOptions&);
// Imports a file for its list of problems.
[[nodiscard]] Result<ImportedProgram> graphProblems(Environment&, const GraphFormat&, const std::string& path,
                                                    const ReadOptions&);

} // namespace dtc
