#include "aten/Table.h"

#include "dtc/Support/Diagnostics.h"

#include <algorithm>
#include <unordered_map>

namespace dtc {
namespace {

using RowMap = std::unordered_map<std::string_view, const ImportRow*>;

const RowMap& rowMap() {
  static const RowMap map = [] {
    RowMap out;
    for (ImportRows rows :
         {torchPointwiseRows(), torchSpecialRows(),   torchCreateRows(),   torchShapeRows(),
          torchSliceRows(),     torchReduceRows(),    torchSortRows(),     torchIndexRows(),
          torchContractRows(),  torchNormRows(),      torchWindowRows(),   torchLossRows(),
          torchGradientRows(),  torchControlRows(),   torchLinalgRows(),   torchLuRows(),
          torchEigenRows(),     torchPairRows(),      torchBagRows(),      torchFourierRows(),
          torchMiscRows(),      torchRecurrentRows(), torchBackwardRows(), torchDistributedRows(),
          torchBesselRows(),    torchSegmentRows(),   torchSignalRows(),   torchAttentionRows(),
          torchQuantizeRows()})
      for (const ImportRow& row : rows) out.emplace(row.target, &row);
    return out;
  }();
  return map;
}

std::string_view withoutOverload(std::string_view target) {
  const size_t last = target.rfind('.');
  return last == target.npos || last == target.find('.') ? target : target.substr(0, last);
}

const ImportRow* rowOf(const ImportNode& node) { return atenRow(node.target); }

// Ops whose results have sizes that depend on data, and what to write instead.
constexpr std::pair<std::string_view, const char*> kDataDependent[] = {
    {"aten.argwhere", "; torch.nonzero_static has a fixed size"},
    {"aten.bincount", "; torch.zeros(n).scatter_add(0, x, weights) has a fixed size"},
    {"aten.masked_select", "; write it with torch.where"},
    {"aten.nonzero", "; torch.nonzero_static has a fixed size"},
    {"aten.nonzero_numpy", "; torch.nonzero_static has a fixed size"},
    {"aten._unique", ""},
    {"aten._unique2", ""},
    {"aten.unique_consecutive", ""},
    {"aten.unique_dim", ""},
    {"aten.unique_dim_consecutive", ""},
};

// "" for other ops.
std::string remarkOnSize(const ImportNode& node) {
  for (const auto& [op, instead] : kDataDependent)
    if (op == withoutOverload(node.target))
      return std::string(": the size of its result depends on data, and dtc has static sizes") + instead;
  return "";
}

// Whose factors are those of one algorithm, which dtc does not have.
std::string remarkOnFactors(const ImportNode& node) {
  if (!node.target.starts_with("aten.linalg_ldl_")) return "";
  return ": dtc does not have the pivots of Bunch and Kaufman, which its factors depend on; "
         "torch.linalg.lu_factor, solve and eigh import";
}

std::string remarkOn(const ImportNode& node) {
  if (std::string remark = remarkOnFactors(node); !remark.empty()) return remark;
  if (std::string remark = remarkOnSize(node); !remark.empty()) return remark;
  if (node.target.starts_with("torch._functorch."))
    return ": it is part of torch.vmap, which program.run_decompositions({}) writes with aten ops";
  if (node.target == "higher_order.associative_scan")
    return ": combine_mode=\"generic\" and program.run_decompositions({}) write it with aten ops";
  if (!node.target.starts_with("aten.") && !node.target.starts_with("prims."))
    return ": it is not one of PyTorch's own; write it with aten ops";
  return ": it has no counterpart yet; program.run_decompositions() may express it in others";
}

// A captured program has no other form, but what calls the op can be left to PyTorch.
std::string remarkOnCaptured(const ImportNode& node) {
  std::string remark = remarkOnFactors(node);
  if (remark.empty()) remark = remarkOnSize(node);
  return (remark.empty() ? ": dtc cannot compile it" : remark) +
         "; torch.compiler.disable leaves the function that calls it to PyTorch";
}

std::string remarkOnPlanned(const ImportNode& node) {
  if (std::string remark = remarkOnSize(node); !remark.empty()) return remark;
  if (std::string remark = remarkOnFactors(node); !remark.empty()) return remark;
  return ": it has no counterpart yet; the model may express it in other ops";
}

} // namespace

const ImportRow* atenRow(std::string_view target) {
  for (const std::string_view t : {target, withoutOverload(target)})
    if (const auto found = rowMap().find(t); found != rowMap().end()) return found->second;
  // torch.special has other names of older ops.
  constexpr std::string_view kSpecial = "aten.special_";
  if (!target.starts_with(kSpecial)) return nullptr;
  const std::string_view name = withoutOverload(target).substr(kSpecial.size());
  if (name == "psi") return atenRow("aten.digamma");
  if (name == "gammaln") return atenRow("aten.lgamma");
  if (name == "modified_bessel_i0") return atenRow("aten.i0");
  if (name == "modified_bessel_i1") return atenRow("aten.special_i1");
  return atenRow("aten." + std::string(target.substr(kSpecial.size())));
}

const ImportTable& atenTable(TorchOrigin origin) {
  static const ImportTable tables[] = {
      {rowOf, remarkOn}, {rowOf, remarkOnCaptured}, {rowOf, remarkOnPlanned}};
  return tables[static_cast<size_t>(origin)];
}

} // namespace dtc
