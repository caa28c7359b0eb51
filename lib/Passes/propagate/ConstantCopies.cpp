#include "propagate/ConstantCopies.h"
#include "dtc/IR/OpRecord.h"
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace dtc {

namespace {

bool isConstant(const Module& m, OpId o) {
  const OpRecord& r = m.record(o);
  if (r.lowering != Lowering::Loops || r.sideEffect || m[o].numRegions > 0 || m[o].numResults != 1)
    return false;
  const ValueId result = m.result(o);
  if (m.typeOf(result).rank() == 0 || m[result].sharding.valid()) return false;
  return std::ranges::all_of(m.operands(o), [&](ValueId v) { return m.typeOf(v).rank() == 0; });
}

class Splitter {
public:
  explicit Splitter(Module& m) : m_(m), uses_(m) {}

  ConstantCopies run() {
    for (FuncId f : m_.order)
      if (!m_[f].spmd) forEachOp(m_, m_[f].body, [&](OpId o) { noteGroup(o); });
    for (FuncId f : m_.order)
      if (!m_[f].spmd) block(m_[f].body);
    return std::move(copies_);
  }

private:
  struct Copies {
    size_t group = 0;
    bool used = false; // by its first user, which keeps the original
    OpId op;
  };

  // Values within one group stay one value, whatever its uses.
  void noteGroup(OpId o) {
    if (m_.record(o).constraint == Constraint::Shard && m_.attr(o, "group").valid())
      grouped_.insert(m_.operand(o, 0).index);
  }

  void block(BlockId b) {
    const std::vector<OpId> ops = m_[b].ops;
    std::vector<OpId> own; // the constants of this block, each followed by its copies
    for (OpId o : ops) {
      for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
        const ValueId mine = use(m_.operand(o, i));
        m_.operands(o)[i] = mine;
      }
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) block(m_.region(o, r));
      if (m_[o].numResults != 1 || uses_[m_.result(o)] < 2 || !isConstant(m_, o)) continue;
      if (grouped_.contains(m_.result(o).index)) continue;
      of_[m_.result(o).index] = {copies_.groups.size(), false, o};
      copies_.groups.push_back({m_.result(o)});
      own.push_back(o);
    }
    for (size_t i = 0; i < m_[b].yields.size(); ++i) {
      const ValueId mine = use(m_[b].yields[i]);
      m_[b].yields[i] = mine;
    }
    if (own.empty()) return;
    std::vector<OpId> out;
    for (OpId o : ops) {
      out.push_back(o);
      if (m_[o].numResults != 1) continue;
      if (auto found = of_.find(m_.result(o).index); found != of_.end())
        for (ValueId copy : copies_.groups[found->second.group])
          if (copy != m_.result(o)) out.push_back(m_.definingOp(copy));
    }
    m_[b].ops = std::move(out);
  }

  ValueId use(ValueId v) {
    auto found = of_.find(v.index);
    if (found == of_.end()) return v;
    if (!std::exchange(found->second.used, true)) return v;
    const OpId original = found->second.op;
    const std::vector<ValueId> operands(m_.operands(original).begin(), m_.operands(original).end());
    const OpId copy = m_.makeOp(m_[original].kind, operands, 1, m_[original].attrs, 0, m_[original].loc);
    m_[copy].parent = m_[original].parent;
    const ValueId result = m_.result(copy);
    m_[result].type = m_[v].type;
    m_[result].loc = m_[v].loc;
    copies_.groups[found->second.group].push_back(result);
    return result;
  }

  Module& m_;
  UseCounts uses_;
  std::unordered_map<uint32_t, Copies> of_; // by value
  std::unordered_set<uint32_t> grouped_;
  ConstantCopies copies_;
};

void dropOps(Module& m, BlockId b, const std::unordered_map<uint32_t, ValueId>& instead) {
  auto renamed = [&](ValueId v) {
    auto found = instead.find(v.index);
    return found == instead.end() ? v : found->second;
  };
  std::erase_if(m[b].ops,
                [&](OpId o) { return m[o].numResults == 1 && instead.contains(m.result(o).index); });
  for (size_t i = 0; i < m[b].ops.size(); ++i) {
    const OpId o = m[b].ops[i];
    for (ValueId& v : m.operands(o)) v = renamed(v);
    for (uint32_t r = 0; r < m[o].numRegions; ++r) dropOps(m, m.region(o, r), instead);
  }
  for (ValueId& v : m[b].yields) v = renamed(v);
}

} // namespace

ConstantCopies splitConstants(Module& m) { return Splitter(m).run(); }

void mergeConstants(Module& m, const ConstantCopies& copies) {
  std::unordered_map<uint32_t, ValueId> instead;
  for (const std::vector<ValueId>& group : copies.groups) {
    std::vector<ValueId> kept;
    for (ValueId v : group) {
      auto same = std::ranges::find_if(kept, [&](ValueId k) { return m[k].sharding == m[v].sharding; });
      if (same == kept.end())
        kept.push_back(v);
      else
        instead.emplace(v.index, *same);
    }
  }
  if (instead.empty()) return;
  for (FuncId f : m.order)
    if (!m[f].spmd) dropOps(m, m[f].body, instead);
}

} // namespace dtc
