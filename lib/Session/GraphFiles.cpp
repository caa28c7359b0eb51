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

Result<ImportedProgram> importGraph(const GraphFormat& format, InputFile file, const ReadOptions& options,
                                    bool report, Diagnostics& diags) {
  ImportOptions wanted{options.sizes, report};
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
  return imported;
}

Result<SourceText> graphText(const GraphFormat& format, InputFile file, const ReadOptions& options,
                             Diagnostics& diags, SourceText& listing) {
  const std::string path = file.path();
  DTC_TRY(auto imported, importGraph(format, std::move(file), options, false, diags));
  listing = imported.module.source;
  if (!imported.complete || !verifyText(imported.module, diags) || diags.hasErrors()) return inputError("");
  return SourceText{path + " (imported)", printModule(imported.module)};
}

} // namespace dtc
