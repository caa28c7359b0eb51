// specialize-devices: one function per set of devices that take the same branches, where predicates depend on
// the device only.
#include "dtc/Eval/Eval.h"
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/analysis/Clone.h"

#include <map>
#include <unordered_set>

namespace dtc {
namespace {

class DeviceSpecializer {
public:
  DeviceSpecializer(Module& m, FuncId f) : m_(m), func_(f), mesh_(meshValueOf(m, f)) {}

  void run() {
    const std::vector<OpId> conds = condsOf(func_);
    std::map<std::string, std::vector<int64_t>> devicesOf; // by the branches that they take
    std::vector<std::string> order;                        // by the first device
    for (int64_t p = 0; p < mesh_.numDevices(); ++p) {
      const std::string branches = branchesAt(conds, p);
      if (!devicesOf.contains(branches)) order.push_back(branches);
      devicesOf[branches].push_back(mesh_.devices.empty() ? p : mesh_.devices[static_cast<size_t>(p)]);
    }
    if (order.size() < 2) return;
    std::vector<FuncId> functions = {func_};
    while (functions.size() < order.size()) functions.push_back(cloneFunction(m_, func_, freeName()));
    const AttrId program = m_.attrs.symbol(m_[func_].name);
    for (size_t i = 0; i < order.size(); ++i) {
      takeBranches(condsOf(functions[i]), order[i]);
      AttrList& attrs = m_[functions[i]].attrs;
      if (i > 0) attrs.push_back({m_.strings.intern("program"), program});
      attrs.push_back({m_.strings.intern("devices"), m_.attrs.integers(devicesOf[order[i]])});
    }
  }

private:
  std::vector<OpId> condsOf(FuncId f) const {
    std::vector<OpId> conds;
    forEachOp(m_, m_[f].body, [&](OpId o) {
      if (m_.record(o).regions == RegionKind::Cond) conds.push_back(o);
    });
    return conds;
  }

  // For each `cond`: 1 or 0 for its first or second block, ? if that is known only at run time.
  std::string branchesAt(std::span<const OpId> conds, int64_t coordinate) {
    known_.clear();
    std::string branches;
    for (OpId o : conds) {
      const std::optional<Tensor> predicate = valueAt(m_.operand(o, 0), coordinate);
      branches += !predicate ? '?' : predicate->getInt(0) != 0 ? '1' : '0';
    }
    return branches;
  }

  void takeBranches(std::span<const OpId> conds, const std::string& branches) {
    for (size_t i = 0; i < conds.size(); ++i) {
      if (branches[i] == '?') continue;
      const AttrId taken = m_.attrs.boolean(branches[i] == '1');
      const ValueId literal = m_.makeLiteral(taken, DType::Bool, m_[conds[i]].loc);
      m_.setOperands(conds[i], std::span(&literal, 1));
    }
  }

  // A scalar that is computed from literals and the device's coordinate.
  std::optional<Tensor> valueAt(ValueId v, int64_t coordinate) {
    if (const auto known = known_.find(v); known != known_.end()) return known->second;
    return known_[v] = computed(v, coordinate);
  }
  std::optional<Tensor> computed(ValueId v, int64_t coordinate) {
    if (m_.typeOf(v).rank() != 0) return std::nullopt;
    if (m_[v].kind == ValueKind::Literal) return literalTensor(m_, v);
    const OpId o = m_.definingOp(v);
    if (!o.valid()) return std::nullopt;
    const OpRecord& record = m_.record(o);
    if (m_[o].numRegions != 0 || record.isCall || record.sideEffect || record.lowering == Lowering::Host ||
        (record.isCollective() && m_[o].numOperands != 0))
      return std::nullopt;
    std::vector<Tensor> operands;
    for (ValueId operand : m_.operands(o)) {
      const std::optional<Tensor> t = valueAt(operand, coordinate);
      if (!t) return std::nullopt;
      operands.push_back(*t);
    }
    auto results = evaluateOpAt(m_, o, mesh_, coordinate, operands, {});
    if (!results) return std::nullopt;
    return (*results)[m_[v].position];
  }

  StrId freeName() const {
    const std::string name(m_.strings[m_[func_].name]);
    int number = 1;
    while (m_.findFunction(name + "_" + std::to_string(number)).valid()) ++number;
    return m_.strings.intern(name + "_" + std::to_string(number));
  }

  Module& m_;
  FuncId func_;
  Mesh mesh_;
  std::unordered_map<ValueId, std::optional<Tensor>> known_; // of one device
};

} // namespace

bool specializeDevicesPass(Module& m, const PassOptions&, Diagnostics&) {
  std::unordered_set<StrId> called;
  for (FuncId f : m.order) forEachOp(m, m[f].body, [&](OpId o) { called.insert(m[o].callee); });
  for (FuncId f : std::vector<FuncId>(m.order))
    if (m[f].spmd && !called.contains(m[f].name) && devicesOf(m, f).empty()) DeviceSpecializer(m, f).run();
  return true;
}

} // namespace dtc
