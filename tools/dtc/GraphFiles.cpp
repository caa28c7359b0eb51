#include "GraphFiles.h"

#include "Program.h"

namespace dtc {

Result<ImportedProgram> graphProblems(const GraphFormat& format, const std::string& path,
                                      const ReadOptions& options) {
  Diagnostics diags;
  return importGraph(format, path, options, true, diags);
}

Result<Module> loadGraph(Environment& env, const GraphFormat& format, const std::string& path,
                         const ReadOptions& options) {
  Diagnostics diags;
  DTC_TRY(auto imported, importGraph(format, path, options, false, diags));
  env.currentSource = imported.module.source;
  const bool good = imported.complete && verifyText(imported.module, diags);
  const bool errors = env.report(diags, imported.module.source) != kExitDone;
  if (!good || errors) return inputError("");
  if (options.meshes.empty() && options.shardings.empty()) return std::move(imported.module);
  ReadOptions bound; // when .dt text is parsed
  bound.meshes = options.meshes;
  bound.shardings = options.shardings;
  bound.entry = options.entry;
  return loadText(env, {path + " (imported)", printModule(imported.module)}, bound);
}

} // namespace dtc
