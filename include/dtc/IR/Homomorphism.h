#pragma once
// The homomorphism table (sharding.md §2) asked of one op on one mesh axis: which pending values go through it.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Which rows of the table count (sharding.md, "Infinities and NaN"). Promised: all. Strict: those alone that hold for infinite
// and NaN operands, too; a row that multiplies a pending value by a replicated one, or divides it, is none of them.
enum class NonFinite : uint8_t { Promised, Strict };

// What result `result` is when the operands are pending as `operands` says on one mesh axis (one kind per operand; None is
// replicated there, as literals always are): None where no operand is pending, the result's kind where the op is a
// homomorphism of it, nothing where something must be reduced first.
[[nodiscard]] std::optional<PendingKind> passThrough(const OpQuery&, std::span<const PendingKind> operands,
                                                     size_t result, NonFinite = NonFinite::Promised);

// Does what lets these operands through hold for finite factors and divisors other than 0 alone? False where nothing does.
[[nodiscard]] bool passesFiniteAlone(const OpQuery&, std::span<const PendingKind> operands, size_t result);

// The value of a literal operand in the operand's dtype; nothing where it is no literal, or not finite there.
[[nodiscard]] std::optional<double> finiteLiteral(const OpQuery&, size_t operand);

// The same where replicated operands may be made pending first (sharding.md §2: for sum kept on index 0 of the axis and -0.0
// elsewhere, for prod 1 elsewhere): the fewest operands that let it through.
struct Passed {
  PendingKind result = PendingKind::None;
  uint32_t makePending = 0; // bit set of operands; their kind is that of the pending ones
};
[[nodiscard]] std::optional<Passed> passThroughMaking(const OpQuery&, std::span<const PendingKind> operands,
                                                      size_t result);

// Every way for result `result` to be pending with `kind`, fewest pending operands first: kinds per operand, literals
// replicated. What is propagated backwards; empty where the op never gives it. At most 8 operands are varied.
[[nodiscard]] std::vector<std::vector<PendingKind>> pendingOperandsFor(const OpQuery&, PendingKind kind,
                                                                       size_t result);

// Does a value of this dtype have pendings of this kind? (integers have no average; any and all are of bool alone)
[[nodiscard]] bool hasPendingKind(DType, PendingKind);

// Is the op a narrowing convert of floats? A reduction never moves past one unless --reduce-dtype says so: P(sum) goes
// through by the table, but would be summed in the narrower dtype.
[[nodiscard]] bool narrowsFloats(const OpQuery&);

// Is the op linear in its only operand that is no number (`mul %z, 2.0`)? Then it does the same to each plane of a complex one.
[[nodiscard]] bool isScaledByNumber(const OpQuery&);

} // namespace dtc
