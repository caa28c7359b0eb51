#include "run/NonFiniteGuarantees.h"
#include "dtc/IR/Homomorphism.h"
#include <cmath>

namespace dtc {

static bool isAdditive(PendingKind k) { return k == PendingKind::Sum || k == PendingKind::Avg; }

static void setNan(Tensor& t, int64_t i) {
  if (isComplex(t.dtype()))
    t.setComplex(i, {NAN, NAN});
  else
    t.setFloat(i, NAN);
}

// The operands pending on a sum or an average along an axis on which a result stays pending, where the
// homomorphism row holds for finite factors and divisors only.
static PendingOperands finiteAlone(Module& m, OpId o) {
  auto pendingOn = [&](ValueId v, const AxisRef& axis) {
    const ShardingId s = m[v].sharding;
    if (!s) return PendingKind::None;
    for (const PendingAxis& p : m.shardings[s].pending)
      if (p.axis == axis) return p.kind;
    return PendingKind::None;
  };
  PendingOperands found;
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    const ShardingId s = m[m.result(o, r)].sharding;
    if (!s) continue;
    for (const PendingAxis& axis : m.shardings[s].pending) {
      if (!isAdditive(axis.kind)) continue;
      Diagnostics quiet;
      const OpQuery q = queryOf(m, o, quiet);
      std::vector<PendingKind> kinds;
      uint32_t set = 0;
      for (ValueId v : m.operands(o)) {
        kinds.push_back(pendingOn(v, axis.axis));
        if (kinds.back() != PendingKind::None && kinds.size() <= 32) set |= 1u << (kinds.size() - 1);
      }
      if (set && passesFiniteAlone(q, kinds, r)) found.set |= set, found.kind = axis.kind;
    }
  }
  return found;
}

bool isNanAt(const Tensor& t, int64_t i) {
  if (isFloat(t.dtype())) return std::isnan(t.getFloat(i));
  if (!isComplex(t.dtype())) return false;
  const std::complex<double> v = t.getComplex(i);
  return std::isnan(v.real()) || std::isnan(v.imag());
}

std::vector<std::vector<bool>> unpromisedElements(const OpQuery& q, std::span<const Tensor> operands,
                                                  PendingOperands pending) {
  std::vector<Tensor> zeros(operands.begin(), operands.end());
  for (size_t i = 0; i < zeros.size() && i < 32; ++i)
    if ((pending.set >> i) & 1) zeros[i] = Tensor(zeros[i].dtype(), zeros[i].shape());
  std::vector<std::vector<bool>> out;
  auto results = evaluateOp(q, zeros, {});
  if (!results) return out;
  for (const Tensor& t : *results) {
    out.emplace_back(static_cast<size_t>(t.numElements()), false);
    const bool average = pending.kind == PendingKind::Avg;
    for (int64_t i = 0; isFloat(partType(t.dtype())) && i < t.numElements(); ++i)
      out.back()[static_cast<size_t>(i)] =
          isNanAt(t, i) || (average && isFloat(t.dtype()) && std::isinf(t.getFloat(i)));
  }
  return out;
}

bool passesFiniteAlone(Module& m) {
  bool found = false;
  for (FuncId f : m.order)
    forEachOp(m, m[f].body, [&](OpId o) {
      const OpRecord& r = m.record(o);
      if (!found && r.regions == RegionKind::None && !r.isCall && !r.isCollective())
        found = finiteAlone(m, o).set != 0;
    });
  return found;
}

void UnpromisedValues::attach(EvalOptions& options) {
  options.amend = &UnpromisedValues::amend;
  options.amendSelf = this;
}

void UnpromisedValues::amend(void* self, OpId op, std::span<const Tensor* const> operands,
                             std::span<Tensor> results) {
  Module& m = static_cast<UnpromisedValues*>(self)->m_;
  const PendingOperands pending = finiteAlone(m, op);
  if (!pending.set) return;
  Diagnostics quiet;
  std::vector<Tensor> given;
  for (const Tensor* t : operands) given.push_back(*t);
  const auto unpromised = unpromisedElements(queryOf(m, op, quiet), given, pending);
  for (size_t r = 0; r < unpromised.size() && r < results.size(); ++r)
    for (size_t i = 0; i < unpromised[r].size(); ++i)
      if (unpromised[r][i]) setNan(results[r], static_cast<int64_t>(i));
}

} // namespace dtc
