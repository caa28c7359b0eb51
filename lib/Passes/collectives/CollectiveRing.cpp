// Which ops a ring replaces.
#include "collectives/CollectiveRing.h"

#include "dtc/IR/OpRecord.h"
#include "dtc/Sharding/CommDType.h"

#include <algorithm>
#include <unordered_set>

namespace dtc {

constexpr int64_t kMaxDevices = 16; // the steps are unrolled

bool isContraction(const Module& m, OpId o) {
  return m.record(o).gradFromRule && m.record(o).lowering == Lowering::Library;
}

RingFinder::RingFinder(Module& m, BlockId block, const Mesh& mesh, bool fixedOrder)
    : m_(m), block_(block), mesh_(mesh), fixedOrder_(fixedOrder) {
  at_.resize(m.ops.size());
  uses_.resize(m.values.size());
  const std::vector<OpId>& ops = m[block].ops;
  for (size_t i = 0; i < ops.size(); ++i) {
    at_[ops[i].index] = i;
    if (m.record(ops[i]).collective == CollectiveKind::AllGather) readers_[m.result(ops[i])];
    forEachRead(m, ops[i], [&](ValueId v) { addRead(v, ops[i]); });
  }
  for (ValueId v : m[block].yields) addRead(v, {});
}

void RingFinder::addRead(ValueId v, OpId reader) {
  ++uses_[v.index];
  const auto it = readers_.find(v);
  if (it != readers_.end() && (it->second.empty() || it->second.back() != reader))
    it->second.push_back(reader);
}

std::optional<RingPlan> RingFinder::find(OpId collective) {
  std::optional<RingPlan> plan = start(collective);
  if (!plan) return std::nullopt;
  const bool found = plan->kind == CollectiveKind::AllGather ? gather(*plan) : scatter(*plan);
  return found ? plan : std::nullopt;
}

std::optional<RingPlan> RingFinder::start(OpId collective) {
  const CollectiveKind kind = m_.record(collective).collective;
  if ((kind != CollectiveKind::AllGather && kind != CollectiveKind::ReduceScatter) ||
      m_.record(collective).async != AsyncForm::None || m_.attr(collective, "wire").valid())
    return std::nullopt;
  RingPlan plan;
  plan.kind = kind, plan.collective = collective, plan.axes = axesOf(m_, collective);
  plan.devices = mesh_.sizeOf(plan.axes), plan.dim = static_cast<size_t>(dimOf(m_, collective));
  const Type& in = m_.typeOf(m_.operand(collective, 0));
  const Type& out = m_.typeOf(m_.result(collective));
  const Dim part = (kind == CollectiveKind::AllGather ? in : out).dims[plan.dim];
  const Dim all = (kind == CollectiveKind::AllGather ? out : in).dims[plan.dim];
  if (plan.devices < 2 || plan.devices > kMaxDevices || !part.isStatic() || !all.isStatic())
    return std::nullopt;
  plan.chunk = part.value();
  if (plan.chunk == 0 || all.value() != plan.chunk * plan.devices) return std::nullopt;
  return plan;
}

// Sums of chunks are rounded in the value's dtype, which may be less exact than the collective's.
static bool roundsLikeCollective(DType dtype) {
  return commBytes(PendingKind::Sum, dtype) == dtypeBytes(dtype);
}

bool RingFinder::sumsInChunks(const Rule& rule, size_t factor, OpId o) const {
  const bool joined =
      std::ranges::any_of(rule.joins, [&](const Join& j) { return j.operand < m_[o].numOperands; });
  return !fixedOrder_ && rule.factors[factor].reduce == PendingKind::Sum && !joined &&
         roundsLikeCollective(m_.typeOf(m_.result(o)).dtype);
}

// The only dim of the tensor that has the factor; -1: none. Nothing if the factor is in several dims, or is a
// part of one.
static std::optional<int> dimOfFactor(const TensorMap& t, size_t factor) {
  int found = -1;
  for (size_t d = 0; d < t.dims.size(); ++d)
    for (const Term& term : t.dims[d].terms) {
      if (term.factor != factor) continue;
      if (found >= 0 || !t.dims[d].plain()) return std::nullopt;
      found = static_cast<int>(d);
    }
  return found;
}

std::optional<RingProduct> RingFinder::product(OpId o, ValueId gathered, const RingPlan& plan) {
  if (!isContraction(m_, o) || m_[o].parent != block_) return std::nullopt;
  Diagnostics quiet;
  Rule rule;
  if (!ruleOf(queryOf(m_, o, quiet), rule) || rule.results.size() != 1) return std::nullopt;
  int factor = gathered.valid() ? -1 : rule.factorOf(rule.results[0], plan.dim);
  for (uint32_t i = 0; i < m_[o].numOperands && gathered.valid(); ++i) {
    if (m_.operand(o, i) != gathered) continue;
    const int here = rule.factorOf(rule.operands[i], plan.dim);
    if (here < 0 || (factor >= 0 && factor != here)) return std::nullopt;
    factor = here;
  }
  if (factor < 0) return std::nullopt;
  const auto f = static_cast<size_t>(factor);
  if (rule.factors[f].kind != FactorKind::Pass && rule.factors[f].kind != FactorKind::Reduce)
    return std::nullopt;
  RingProduct out{.op = o};
  for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
    const auto d = dimOfFactor(rule.operands[i], f);
    if (!d) return std::nullopt;
    const std::vector<Dim>& dims = m_.typeOf(m_.operand(o, i)).dims;
    const Dim size = *d < 0 ? Dim(plan.chunk * plan.devices) : dims[static_cast<size_t>(*d)];
    if (!size.isStatic() || size.value() != plan.chunk * plan.devices) return std::nullopt;
    out.dims.push_back(*d);
    out.travels.push_back(gathered.valid() && m_.operand(o, i) == gathered);
  }
  const auto result = dimOfFactor(rule.results[0], f);
  if (!result || (*result < 0 && !sumsInChunks(rule, f, o))) return std::nullopt;
  out.resultDim = *result;
  return out;
}

bool RingFinder::gather(RingPlan& plan) {
  const ValueId all = m_.result(plan.collective);
  const std::vector<OpId>& readers = readers_.at(all);
  if (readers.empty()) return false;
  for (OpId o : readers) {
    auto p = o.valid() ? product(o, all, plan) : std::nullopt;
    if (!p) return false;
    plan.products.push_back(std::move(*p));
  }
  return orderGather(plan);
}

// The ring is at the last product: ops that read an earlier one follow it.
bool RingFinder::orderGather(RingPlan& plan) {
  plan.first = at_[plan.collective.index], plan.last = at_[plan.products.back().op.index];
  std::unordered_set<ValueId> late;
  std::unordered_set<OpId> replaced = {plan.collective};
  for (const RingProduct& p : plan.products) replaced.insert(p.op), late.insert(m_.result(p.op));
  std::vector<OpId> delayed;
  for (size_t i = plan.first; i <= plan.last; ++i) {
    const OpId o = m_[block_].ops[i];
    bool isLate = false;
    forEachRead(m_, o, [&](ValueId v) { isLate = isLate || late.contains(v); });
    if (isLate && (replaced.contains(o) || m_.record(o).sideEffect)) return false;
    if (replaced.contains(o)) continue;
    (isLate ? delayed : plan.order).push_back(o);
    for (uint32_t r = 0; isLate && r < m_[o].numResults; ++r) late.insert(m_.result(o, r));
  }
  plan.order.push_back(OpId());
  plan.order.insert(plan.order.end(), delayed.begin(), delayed.end());
  return true;
}

// A sum of contractions, each with no other reader.
bool RingFinder::collect(ValueId v, TypeId type, RingPlan& plan) {
  const OpId o = m_.definingOp(v);
  if (!o.valid() || m_[o].parent != block_ || uses_[v.index] != 1 || m_[v].type != type) return false;
  if (auto p = product(o, {}, plan)) {
    plan.products.push_back(std::move(*p));
    return true;
  }
  if (m_.record(o).combines != PendingKind::Sum || m_[o].numOperands != 2 ||
      m_.operand(o, 0) == m_.operand(o, 1))
    return false;
  if (!collect(m_.operand(o, 0), type, plan) || !collect(m_.operand(o, 1), type, plan)) return false;
  plan.adds.push_back(o);
  return true;
}

bool RingFinder::scatter(RingPlan& plan) {
  const ValueId sum = m_.operand(plan.collective, 0);
  const std::string_view op = m_.strings[m_.attrs[reductionOf(m_, plan.collective)].text];
  if (fixedOrder_ || parsePendingKind(op) != PendingKind::Sum ||
      !roundsLikeCollective(m_.typeOf(sum).dtype) || !collect(sum, m_[sum].type, plan))
    return false;
  orderScatter(plan);
  return true;
}

void RingFinder::orderScatter(RingPlan& plan) {
  std::unordered_set<OpId> replaced = {plan.collective};
  for (const RingProduct& p : plan.products) replaced.insert(p.op);
  replaced.insert(plan.adds.begin(), plan.adds.end());
  plan.first = plan.last = at_[plan.collective.index];
  for (OpId o : replaced) plan.first = std::min(plan.first, at_[o.index]);
  for (size_t i = plan.first; i < plan.last; ++i)
    if (const OpId o = m_[block_].ops[i]; !replaced.contains(o)) plan.order.push_back(o);
  plan.order.push_back(OpId());
}

} // namespace dtc
