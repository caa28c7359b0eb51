#include "dtc/StableHlo/import/Signature.h"

#include "import/HloSmall.h"
#include "mlir/MlirLexer.h"
#include "mlir/MlirTree.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace dtc {

constexpr DiagKind kNoMain{"import-function", "this does not import: {0}"};

static HloTensor tensorOf(const MlirType* type) {
  HloTensor t;
  if (!type) return t;
  t.element = type->element;
  t.dims = type->dims;
  t.token = type->kind == MlirType::Token;
  return t;
}

static std::string_view nameOf(const MlirOp& op) {
  const MlirAttr* name = findAttr(op.attrs, "sym_name");
  return name ? name->text : std::string_view();
}

bool hloSignature(std::string_view text, HloSignature& out, Diagnostics& diags) {
  MlirTree tree;
  if (!parseMlir(text, tree, diags)) return false;
  const MlirOp* found = nullptr;
  for (const MlirOp& op : tree.ops)
    if (op.name == "func.func" && !op.regions.empty() && (!found || nameOf(op) == "main")) found = &op;
  if (!found) return diags.fail(kNoMain, SourceRange{0, 0}, "there is no function in this file");
  const auto readLayout = [](HloTensor& t, const auto& attrs) {
    if (const MlirAttr* layout = findAttr(attrs, "mhlo.layout_mode")) t.layout = unescapeMlir(layout->text);
  };
  for (const MlirArg& arg : found->regions[0].args)
    readLayout(out.arguments.emplace_back(tensorOf(arg.type)), arg.attrs);
  for (size_t i = 0; i < found->resultTypes.size(); ++i) {
    HloTensor& result = out.results.emplace_back(tensorOf(found->resultTypes[i]));
    if (i >= found->resultAttrs.size()) continue;
    readLayout(result, found->resultAttrs[i]);
    if (const MlirAttr* kind = findAttr(found->resultAttrs[i], "mhlo.memory_kind"))
      result.memoryKind = unescapeMlir(kind->text);
  }
  return true;
}

std::span<const float> heldValues(std::string_view element) {
  const HloSmall* small = findHloSmall(element);
  if (!small || small->isInteger()) return {};
  static std::mutex mutex;
  static std::map<std::string, std::vector<float>, std::less<>> tables;
  const std::lock_guard lock(mutex);
  std::vector<float>& table = tables[std::string(element)];
  if (table.empty())
    for (int pattern = 0; pattern < 1 << small->bits; ++pattern)
      table.push_back(static_cast<float>(small->decode(static_cast<uint8_t>(pattern))));
  return table;
}

} // namespace dtc
