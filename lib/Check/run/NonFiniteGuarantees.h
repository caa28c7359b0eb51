#pragma once
// The guarantees for infinities and NaN where a pending value passes through an op (docs/sharding.md,
// "Infinities and NaN"), shared by the rule prover, --check and the runs of random programs.
#include "dtc/Eval/Eval.h"

namespace dtc {

struct PendingOperands {
  uint32_t set = 0; // bits
  PendingKind kind = PendingKind::Sum;
};
// By result and element: may a sharded run have NaN there, whatever the global values are? `operands` are
// global, in the order of the op. It may where the op produces NaN from zeros in place of an operand pending
// on a sum: 0 times an infinite factor, 0 divided by 0. An operand pending on an average may be shifted
// before it is scaled (the mean that a norm subtracts): there it may where zeros give an infinity, too. Empty
// where the op cannot run on zeros.
[[nodiscard]] std::vector<std::vector<bool>>
unpromisedElements(const OpQuery&, std::span<const Tensor> operands, PendingOperands pending);
[[nodiscard]] bool isNanAt(const Tensor&, int64_t i); // a float or complex one: either part

// True if a propagated program has a pending operand whose row holds for finite factors and divisors only.
[[nodiscard]] bool passesFiniteAlone(Module& propagated);

// An EvalOptions::amend of a propagated program, run as if on one device: puts NaN where unpromisedElements
// reports so. Elements that differ from the same run without it are not promised.
class UnpromisedValues {
public:
  explicit UnpromisedValues(Module& propagated) : m_(propagated) {}
  void attach(EvalOptions&);

private:
  static void amend(void* self, OpId op, std::span<const Tensor* const> operands, std::span<Tensor> results);
  Module& m_;
};

} // namespace dtc
