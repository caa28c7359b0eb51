#include "dtc/Files/OnnxWeights.h"
#include "dtc/Import/graph/Listing.h"
#include "dtc/Import/program/GraphImport.h"
#include "dtc/Onnx/Onnx.h"
#include "import/Shardings.h"

#include <algorithm>

namespace dtc {

namespace {

using namespace onnx;

std::string folderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : slash == 0 ? "/" : path.substr(0, slash);
}

// The name decides where the content does not: a damaged file, or one whose version follows a large graph.
bool isOnnx(std::string_view path, std::string_view head) {
  return looksLikeOnnx(head) || path.ends_with(".onnx");
}

// Removes ops whose results are not used: shapes that were computed for operands which are attributes in dtc.
void removeDead(Module& m, FuncId f) {
  std::vector<uint32_t> uses(m.values.size());
  const auto count = [&](std::span<const ValueId> values, int by) {
    for (ValueId v : values) uses[v.index] += static_cast<uint32_t>(by);
  };
  std::vector<BlockId> blocks{m[f].body};
  forEachOp(m, m[f].body, [&](OpId o) {
    count(m.operands(o), 1);
    for (uint32_t r = 0; r < m[o].numRegions; ++r) blocks.push_back(m.region(o, r));
  });
  for (BlockId b : blocks) count(m[b].yields, 1);
  const auto isDead = [&](OpId o) {
    if (m[o].numRegions > 0 || m[o].numResults == 0) return false;
    for (uint32_t r = 0; r < m[o].numResults; ++r)
      if (uses[m.result(o, r).index]) return false;
    return true;
  };
  for (BlockId b : blocks) {
    std::vector<OpId> kept;
    for (size_t i = m[b].ops.size(); i-- > 0;) {
      const OpId o = m[b].ops[i];
      if (isDead(o))
        count(m.operands(o), -1);
      else
        kept.push_back(o);
    }
    std::ranges::reverse(kept);
    m[b].ops = std::move(kept);
  }
}

// Weights that only shapes were computed from are not arguments.
void removeUnusedWeights(Module& m, FuncId f, const ImportFile& file) {
  const UseCounts uses(m);
  std::vector<FuncArg>& args = m[f].args;
  if (args.size() != file.graphs[0].inputs.size()) return;
  std::vector<FuncArg> kept;
  std::vector<ValueId> values;
  for (size_t i = 0; i < args.size(); ++i) {
    if (file.graphs[0].inputs[i].weight && uses[args[i].value] == 0) continue;
    m[args[i].value].position = static_cast<uint32_t>(values.size());
    values.push_back(args[i].value);
    kept.push_back(args[i]);
  }
  args = std::move(kept);
  m[m[f].body].args = std::move(values);
}

Result<ImportedProgram> importOnnx(InputFile file, const OpRegistry& registry, const ImportOptions& options,
                                   Diagnostics& diags) {
  const std::string path = file.path();
  DTC_TRY(const std::string text, file.text(0, file.size()));
  const ModelPlace place{std::make_shared<const InputFile>(std::move(file)), folderOf(path)};
  auto model = readModel(text);
  if (!model) return inputError(quotedPath(path) + ": " + model.error().message);
  ImportedProgram out(registry);
  Program program;
  if (Status built = buildProgram(*model, place, options, out.module, program, out.symbols); !built) {
    Error e = built.error();
    if (e.kind == Error::Input) e.message = quotedPath(path) + ": " + e.message;
    return e;
  }
  out.module.source = {path, writeListing(out.module, program.file)};
  OnnxState state(out.module, program);
  Shardings shardings(out.module, program);
  if (Status declared = shardings.declareMesh(); !declared)
    return inputError(quotedPath(path) + ": " + declared.error().message);
  ImportTable table;
  table.convert = [&](ImportContext& c) -> std::optional<ImportResults> {
    OnnxContext own(c, state);
    auto results = converted(own);
    if (results) shardings.annotate(own, *results);
    return results;
  };
  table.remark = [](const ImportNode& n) { return remarkOn(n.target); };
  out.complete =
      importGraph(out.module, program.file, table, diags, options.report ? &out.problems : nullptr);
  if (out.complete && !out.module.order.empty()) {
    removeDead(out.module, out.module.order[0]);
    if (!options.keepWeights) removeUnusedWeights(out.module, out.module.order[0], program.file);
  }
  return out;
}

} // namespace

const GraphFormat& onnxFormat() {
  static const GraphFormat format{"onnx", "an ONNX model", isOnnx, importOnnx};
  return format;
}

} // namespace dtc
