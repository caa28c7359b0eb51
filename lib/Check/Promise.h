#pragma once
// What is promised of infinities and NaN where a pending value goes through an op (docs/sharding.md, "Infinities and NaN"), in
// one place: the rule prover, --check and the runs of random programs ask here.
#include "dtc/Eval/Eval.h"

namespace dtc {

struct PendingOperands {
  uint32_t set = 0; // bits
  PendingKind kind = PendingKind::Sum;
};
// By result and element: may a sharded run have NaN there, whatever the whole values give? `operands` are whole, in the order of
// the op. It may where the op makes NaN of zeros in place of what is pending on a sum: 0 times an infinite factor, 0 divided by 0.
// What is pending on an average may be moved before it is scaled (the mean that a norm takes off): there it may where zeros give
// an infinity, too. Empty where the op cannot run on zeros.
[[nodiscard]] std::vector<std::vector<bool>>
unpromisedElements(const OpQuery&, std::span<const Tensor> operands, PendingOperands pending);
[[nodiscard]] bool isNanAt(const Tensor&, int64_t i); // a float or complex one: either part

// Does a propagated program let a pending value through by a row that holds for finite factors and divisors alone?
[[nodiscard]] bool passesFiniteAlone(Module& propagated);

// An EvalOptions::amend of a propagated program, run as if on one device: puts NaN where unpromisedElements says so. What differs
// from the same run without it is not promised.
class UnpromisedValues {
public:
  explicit UnpromisedValues(Module& propagated) : m_(propagated) {}
  void attach(EvalOptions&);

private:
  static void amend(void* self, OpId op, std::span<const Tensor* const> operands, std::span<Tensor> results);
  Module& m_;
};

} // namespace dtc
