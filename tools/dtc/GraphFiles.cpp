#include "GraphFiles.h"

#include "Program.h"
#include "Verbs.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Torch/import/Pt2Import.h"

#include <algorithm>

namespace dtc {

std::span<const GraphFormat* const> graphFormats() {
  static const GraphFormat* const formats[] = {&pt2Format()};
  return formats;
}

const GraphFormat* graphFormatOf(const std::string& path) {
  constexpr int64_t kHead = 1 << 16;
  if (path.empty() || path == "-") return nullptr;
  const auto file = InputFile::open(path);
  if (!file) return nullptr;
  const auto head = (*file).text(0, std::min((*file).size(), kHead));
  if (!head) return nullptr;
  const auto formats = graphFormats();
  const auto found =
      std::ranges::find_if(formats, [&](const GraphFormat* f) { return f->detects(path, *head); });
  return found == formats.end() ? nullptr : *found;
}

Result<ImportedProgram> graphProblems(const GraphFormat& format, const std::string& path,
                                      const ParseOptions& options) {
  DTC_TRY(auto file, InputFile::open(path));
  Diagnostics diags;
  return format.import(std::move(file), standardOps(), {options.sizes, true}, diags);
}

static Status knowsSizes(const ImportedProgram& p, const ParseOptions& options) {
  for (const auto& [name, size] : options.sizes)
    if (std::ranges::find(p.symbols, name) == p.symbols.end())
      return usageError("--dim: " + unknownWord("symbolic size", name, {p.symbols.begin(), p.symbols.end()}));
  return Ok{};
}

Result<Module> loadGraph(Environment& env, const GraphFormat& format, const std::string& path,
                         const ReadOptions& options) {
  DTC_TRY(auto file, InputFile::open(path));
  Diagnostics diags;
  DTC_TRY(auto imported, format.import(std::move(file), standardOps(), {options.sizes, false}, diags));
  if (Status s = knowsSizes(imported, options); !s) return s.error();
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
