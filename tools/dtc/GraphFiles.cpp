#include "GraphFiles.h"

#include "Program.h"

namespace dtc {

const GraphFormat* graphFormatOf(Environment& env, const std::string& path) {
  if (path != "-") return graphFormatOf(path);
  const auto source = env.read(path, kMaxProgramBytes);
  return source ? graphFormatOfBytes((*source).text) : nullptr;
}

static Result<InputFile> opened(Environment& env, const std::string& path) {
  if (path != "-") return InputFile::open(path);
  DTC_TRY(auto source, env.read(path, kMaxProgramBytes));
  if (source.text.size() > kMaxProgramBytes)
    return inputError(source.name + " is too large: give the program as a file");
  return InputFile::holding(source.name, std::move(source.text));
}

Result<ImportedProgram> graphProblems(Environment& env, const GraphFormat& format, const std::string& path,
                                      const ReadOptions& options) {
  DTC_TRY(auto file, opened(env, path));
  Diagnostics diags;
  return importGraph(format, std::move(file), options, true, diags);
}

Result<Module> loadGraph(Environment& env, const GraphFormat& format, const std::string& path,
                         const ReadOptions& options) {
  DTC_TRY(auto file, opened(env, path));
  const std::string name = file.path();
  Diagnostics diags;
  DTC_TRY(auto imported, importGraph(format, std::move(file), options, false, diags));
  env.currentSource = imported.module.source;
  const bool good = imported.complete && verifyText(imported.module, diags);
  const bool errors = env.report(diags, imported.module.source) != kExitDone;
  if (!good || errors) return inputError("");
  // Meshes are bound, and annotations have places that reports can name, when .dt text is parsed.
  const bool annotated = imported.module.shardings.numMeshes() > 0;
  if (options.meshes.empty() && options.shardings.empty() && !annotated) return std::move(imported.module);
  ReadOptions bound;
  bound.meshes = options.meshes;
  bound.shardings = options.shardings;
  bound.entry = options.entry;
  return loadText(env, {name + " (imported)", printModule(imported.module)}, bound);
}

} // namespace dtc
