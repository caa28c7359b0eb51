#include "dtc/Session/GraphFiles.h"

#include "dtc/Files/TensorFiles.h"
#include "dtc/Onnx/Onnx.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Session/ProgramText.h"
#include "dtc/Support/Suggest.h"
#include "dtc/Torch/import/Pt2Import.h"

#include <algorithm>

namespace dtc {

std::span<const GraphFormat* const> graphFormats() {
  static const GraphFormat* const formats[] = {&pt2Format(), &onnxFormat()};
  return formats;
}

constexpr int64_t kHead = 1 << 16; // bytes by which formats are told apart

static const GraphFormat* formatOf(std::string_view path, std::string_view head) {
  const auto formats = graphFormats();
  const auto found =
      std::ranges::find_if(formats, [&](const GraphFormat* f) { return f->detects(path, head); });
  return found == formats.end() ? nullptr : *found;
}

const GraphFormat* graphFormatOf(const std::string& path) {
  if (path.empty() || path == "-") return nullptr;
  const auto file = InputFile::open(path);
  if (!file) return nullptr;
  const auto head = (*file).text(0, std::min((*file).size(), kHead));
  return head ? formatOf(path, *head) : nullptr;
}

const GraphFormat* graphFormatOfBytes(std::string_view bytes) {
  return formatOf("", bytes.substr(0, static_cast<size_t>(kHead)));
}

static Status knowsSizes(const ImportedProgram& p, const std::string& path, const ReadOptions& options) {
  const std::vector<std::string_view> known(p.symbols.begin(), p.symbols.end());
  for (const auto& [name, size] : options.sizes)
    if (std::ranges::find(known, name) == known.end())
      return usageError(quotedPath(path) + ": --dim: unknown symbolic size '" + name + "'" +
                        suggestion(Vocabulary::Choice, name, known));
  return Ok{};
}

static std::vector<std::string> unboundSizes(const ImportedProgram& p, const ReadOptions& options) {
  std::vector<std::string> unbound;
  for (const std::string& symbol : p.symbols)
    if (std::ranges::find(options.sizes, symbol, &std::pair<std::string, int64_t>::first) ==
        options.sizes.end())
      unbound.push_back(symbol);
  return unbound;
}

bool mayNeedSizes(const ImportedProgram& p, const ReadOptions& options, const Diagnostics& diags) {
  if ((p.complete && !diags.hasErrors()) || p.module.order.empty()) return false;
  const auto isUnknownOp = [](const Diagnostic& d) {
    return std::string_view(d.kind->id) == kImportUnknownOp.id;
  };
  return std::ranges::none_of(diags.all(), isUnknownOp) && !unboundSizes(p, options).empty();
}

// Says how to bind sizes that a file may need.
static void reportSizes(const ImportedProgram& p, const ReadOptions& options, Diagnostics& diags) {
  if (!mayNeedSizes(p, options, diags)) return;
  constexpr size_t kShown = 8;
  const std::vector<std::string> sizes = unboundSizes(p, options);
  std::string flags;
  for (size_t i = 0; i < std::min(sizes.size(), kShown); ++i)
    flags += (i ? " --dim " : "--dim ") + sizes[i] + "=NUMBER";
  if (sizes.size() > kShown) flags += " …";
  diags.error(kUnboundSizes, {}, flags);
}

Result<ImportedProgram> importGraph(const GraphFormat& format, InputFile file, const ReadOptions& options,
                                    bool report, Diagnostics& diags) {
  ImportOptions wanted{.sizes = options.sizes, .report = report, .keepWeights = options.keepWeights};
  for (const auto& [name, bound] : options.bindings) {
    DTC_TRY(auto value, readNpy(bound));
    wanted.bindings.emplace_back(name, std::move(value));
  }
  const std::string path = file.path();
  DTC_TRY(auto imported, format.import(std::move(file), standardOps(), wanted, diags));
  if (report) return imported;
  if (Status s = knowsSizes(imported, path, options); !s) {
    diags = Diagnostics(); // problems of unbound sizes follow from it
    return s.error();
  }
  reportSizes(imported, options, diags);
  return imported;
}

Result<SourceText> graphText(const GraphFormat& format, InputFile file, const ReadOptions& options,
                             Diagnostics& diags, std::optional<ImportedProgram>& imported) {
  const std::string path = file.path();
  DTC_TRY(imported, importGraph(format, std::move(file), options, false, diags));
  if (!imported->complete || !verifyText(imported->module, diags) || diags.hasErrors()) return inputError("");
  return SourceText{path + " (imported)", printModule(imported->module)};
}

} // namespace dtc
