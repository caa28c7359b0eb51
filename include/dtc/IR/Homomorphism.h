#pragma once
// Queries of the homomorphism table (sharding.md) for one op on one mesh axis: which pending values pass
// through it.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Which rows of the table are used (sharding.md, "Infinities and NaN"). Promised: all. Strict: only those
// that also hold for infinite and NaN operands, which excludes rows that multiply or divide a pending value
// by a replicated one.
enum class NonFinite : uint8_t { Promised, Strict };

// The pending kind of result `result` for operands of the given kinds on one mesh axis. None means
// replicated, as literals always are. Returns None if no operand is pending, the result's kind if the op is a
// homomorphism, and empty if an operand must be reduced first.
[[nodiscard]] std::optional<PendingKind> passThrough(const OpQuery&, std::span<const PendingKind> operands,
                                                     size_t result, NonFinite = NonFinite::Promised);

// Whether the row that applies to these operands holds only for finite factors and nonzero divisors. False if
// no row applies.
[[nodiscard]] bool passesFiniteAlone(const OpQuery&, std::span<const PendingKind> operands, size_t result);

// The value of a literal operand in the operand's dtype; empty if it is not a literal or not finite in that
// dtype.
[[nodiscard]] std::optional<double> finiteLiteral(const OpQuery&, size_t operand);

// Whether a dtype supports a pending kind (integers have no avg; any and all require bool).
[[nodiscard]] bool hasPendingKind(DType, PendingKind);

// Whether the op is a narrowing float convert. Reductions are not sunk below one unless --reduce-dtype is
// set: the table passes P(sum), but the sum would then be computed in the narrower dtype.
[[nodiscard]] bool narrowsFloats(const OpQuery&);

// Whether the op is linear in its only non-literal operand (`mul %z, 2.0`), so that it applies to each plane
// of a complex operand.
[[nodiscard]] bool isScaledByNumber(const OpQuery&);

} // namespace dtc
