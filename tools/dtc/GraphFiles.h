#pragma once
// Program files of other frameworks, with their diagnostics reported.
#include "Environment.h"
#include "dtc/Session/GraphFiles.h"

namespace dtc {

// Imports and verifies a file, with symbolic sizes, meshes and shardings bound. Diagnostics are reported; the
// error then has no message.
[[nodiscard]] Result<Module> loadGraph(Environment&, const GraphFormat&, const std::string& path,
                                       const ReadOptions&);
// Imports a file for its list of problems.
[[nodiscard]] Result<ImportedProgram> graphProblems(const GraphFormat&, const std::string& path,
                                                    const ReadOptions&);

} // namespace dtc
