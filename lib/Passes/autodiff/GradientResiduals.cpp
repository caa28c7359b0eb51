#include "autodiff/GradientResiduals.h"
#include "analysis/Within.h"
#include <algorithm>

namespace dtc {

bool Residuals::owned(ValueId v) const {
  const Value& value = m_[v];
  if (value.kind == ValueKind::Literal || value.kind == ValueKind::Symbol) return false;
  return (value.kind == ValueKind::BlockArg ? BlockId(value.owner) : m_[OpId(value.owner)].parent) ==
         forward_;
}

// An op of one result that is a data-movement op, or scalar arithmetic.
bool Residuals::isDataMovement(OpId o) const {
  const OpRecord& r = m_.record(o);
  if (m_[o].numRegions != 0 || m_[o].numResults != 1 || r.sideEffect || r.isCall) return false;
  if (r.isCollective() && m_[o].numOperands == 0) return true; // a device index
  if (r.lowering != Lowering::Loops && r.lowering != Lowering::Annotation) return false;
  if (r.flopsPerPoint == 0) return true;
  auto operands = m_.operands(o);
  return m_.typeOf(m_.result(o)).rank() == 0 &&
         std::ranges::all_of(operands, [&](ValueId v) { return m_.typeOf(v).rank() == 0; });
}

void Residuals::findFree(ValueId known) {
  if (known.valid()) free_[known] = true;
  for (OpId o : m_[forward_].ops) {
    positions_.emplace(o, positions_.size());
    if (!isDataMovement(o)) continue;
    auto operands = m_.operands(o);
    if (std::ranges::all_of(operands, [&](ValueId v) { return !owned(v) || free_.contains(v); }))
      free_[m_.result(o)] = true;
  }
}

// True if the result is larger than its operands.
bool Residuals::grows(OpId o) const {
  auto size = [&](ValueId v) {
    const Type& t = m_.typeOf(v);
    return t.isStatic() ? t.numElements().value_or(0) : 0;
  };
  int64_t operands = 0;
  for (ValueId v : m_.operands(o)) operands += owned(v) ? size(v) : 0;
  return size(m_.result(o)) > operands;
}

void Residuals::need(ValueId v) {
  std::vector<ValueId> next = {v};
  while (!next.empty()) {
    v = next.back();
    next.pop_back();
    if (!owned(v) || seen_.contains(v)) continue;
    const OpId o = m_.definingOp(v);
    const bool again = free_.contains(v) || (o.valid() && isDataMovement(o) && grows(o));
    seen_[v] = again;
    (again ? again_ : kept_).push_back(v);
    if (again && o.valid()) next.insert(next.end(), m_.operands(o).begin(), m_.operands(o).end());
  }
}

// A view of a kept value is not kept separately.
void Residuals::remakeViews() {
  std::erase_if(kept_, [&](ValueId v) {
    const OpId o = m_.definingOp(v);
    if (!o.valid() || !isDataMovement(o)) return false;
    for (ValueId x : m_.operands(o))
      if (owned(x) && !seen_.contains(x)) return false;
    again_.push_back(v);
    return true;
  });
}

void Residuals::collect(std::span<const OpId> ops, std::span<ValueId> yields, ValueId known,
                        const ValueMap& replaced) {
  const auto replace = [&](ValueId& v) { v = replaced(v); };
  for (OpId o : ops) forEachRead(m_, o, replace);
  for (OpId o : m_[forward_].ops) forEachRead(m_, o, replace);
  std::ranges::for_each(yields, replace);
  std::ranges::for_each(m_[forward_].yields, replace);
  findFree(known);
  for (OpId o : ops) forEachRead(m_, o, [&](ValueId v) { need(v); });
  for (ValueId v : yields) need(v);
  remakeViews();
}

void Residuals::substitute(Builder& b, std::vector<OpId>& ops, std::vector<ValueId>& yields) {
  std::erase_if(again_, [&](ValueId v) { return !m_.definingOp(v).valid(); }); // the known argument
  std::ranges::sort(again_, [&](ValueId x, ValueId y) {
    return positions_.at(m_.definingOp(x)) < positions_.at(m_.definingOp(y));
  });
  for (ValueId v : again_) {
    const OpId from = m_.definingOp(v);
    const Op source = m_[from];
    std::vector<ValueId> operands;
    for (ValueId x : m_.operands(from)) operands.push_back(there_(x));
    const OpId copy = m_.makeOp(source.kind, operands, 1, source.attrs, 0, source.loc);
    m_[copy].parent = b.parent;
    markRecomputed(m_, copy, b.common);
    m_[m_.result(copy)].type = m_[v].type;
    m_[m_.result(copy)].sharding = m_[v].sharding;
    b.out.push_back(copy);
    there_.set(v, m_.result(copy));
  }
  for (OpId o : ops) forEachRead(m_, o, [&](ValueId& v) { v = there_(v); });
  for (ValueId& v : yields) v = there_(v);
  ops.insert(ops.begin(), b.out.begin(), b.out.end());
}

} // namespace dtc
