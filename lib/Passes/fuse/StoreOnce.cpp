#include "fuse/StoreOnce.h"
#include "dtc/IR/build/Builder.h"
#include "dtc/Ops/OpFunctions.h"
#include "fuse/FusionGroups.h"
#include <algorithm>
#include <unordered_set>

namespace dtc {
namespace {

class Storer {
public:
  Storer(Module& m, BlockId block, FusionForms& forms) : m_(m), block_(block), forms_(forms) {}

  void run() {
    for (uint32_t i = 0; i < m_[block_].ops.size(); ++i) {
      const OpId o = m_[block_].ops[i];
      position_[o.index] = i;
      for (ValueId v : ValuesRead(m_, o)) readers_[v.index].push_back(o);
      for (uint32_t r = 0; r < m_[o].numRegions && m_.record(o).regions != RegionKind::Fused; ++r)
        storeOnce(m_, m_.region(o, r), forms_);
    }
    for (ValueId v : m_[block_].yields) readers_[v.index].push_back(OpId());
    std::vector<std::vector<OpId>> after(m_[block_].ops.size()); // ops to insert, by position
    for (OpId o : std::vector<OpId>(m_[block_].ops))
      if (forms_.of(o).library)
        for (size_t i = 0; i < m_[o].numOperands; ++i) tryOperand(m_.operand(o, i), after);
    std::vector<OpId> ops;
    for (uint32_t i = 0; i < after.size(); ++i) {
      if (!moved_.contains(m_[block_].ops[i].index)) ops.push_back(m_[block_].ops[i]);
      ops.insert(ops.end(), after[i].begin(), after[i].end());
    }
    m_[block_].ops = std::move(ops);
  }

private:
  // `stored`: an operand of a library call.
  void tryOperand(ValueId stored, std::vector<std::vector<OpId>>& after) {
    std::vector<OpId> path; // from `stored` back to its origin
    ValueId v = stored;
    while (const OpId o = maker(v)) {
      if (!forms_.of(o).compound) break;
      if (v != stored && readers_[v.index].size() != 1) return;
      path.push_back(o);
      v = m_.operand(o, 0);
    }
    const OpId origin = maker(v);
    if (path.empty() || !origin || readers_[v.index].size() < 2 || !writesLayouts(origin)) return;
    StridedView view(m_, m_.typeOf(v));
    for (size_t i = path.size(); i-- > 0;)
      if (!view.apply(forms_.of(path[i]).rule)) return;
    const Type type = m_.typeOf(v);
    if (view.strided() || !view.storesRows() || !view.keepsLines(type.dtype)) return;
    std::vector<OpId> others = readers_[v.index];
    std::erase(others, path.back());
    for (OpId o : others) // other views of it may be better off as they are
      if (!o || forms_.of(o).compound || m_[o].numRegions != 0) return;
    // The ops of the path move next to the origin, since some reader may be before them.
    std::vector<OpId>& to = after[position_.at(origin.index)];
    for (size_t i = path.size(); i-- > 0;) to.push_back(path[i]), moved_.insert(path[i].index);
    Diagnostics quiet;
    Builder b(m_, block_, to, quiet);
    ValueId back = stored;
    for (OpId o : path) back = undone(o, back, b);
    for (OpId o : others)
      for (ValueId& operand : m_.operands(o))
        if (operand == v) operand = back;
    readers_[v.index] = {path.back()};
  }

  [[nodiscard]] OpId maker(ValueId v) const {
    if (m_[v].kind != ValueKind::OpResult) return {};
    const OpId o(m_[v].owner);
    return position_.contains(o.index) ? o : OpId();
  }
  [[nodiscard]] bool writesLayouts(OpId o) {
    const FusionForm& form = forms_.of(o);
    return form.attention || form.writesRows;
  }

  // Undoes a transpose, or another op that keeps the order of elements, on `v`.
  ValueId undone(OpId o, ValueId v, Builder& b) {
    const ValueId to = m_.operand(o, 0);
    b.loc = m_[o].loc;
    if (!m_.attr(o, "perm").valid()) return ops::reshape(Expr(b, v), m_.typeOf(to).dims);
    const std::vector<int64_t> forward = queryOf(m_, o, b.diags).intsAttr("perm");
    std::vector<int64_t> back(forward.size());
    for (size_t i = 0; i < forward.size(); ++i)
      back[static_cast<size_t>(forward[i])] = static_cast<int64_t>(i);
    return ops::transpose(Expr(b, v), back);
  }

  Module& m_;
  BlockId block_;
  FusionForms& forms_;
  std::unordered_map<uint32_t, uint32_t> position_;
  std::unordered_map<uint32_t, std::vector<OpId>> readers_; // by value; an invalid op: a yield
  std::unordered_set<uint32_t> moved_;
};

} // namespace

void storeOnce(Module& m, BlockId block, FusionForms& forms) { Storer(m, block, forms).run(); }

} // namespace dtc
