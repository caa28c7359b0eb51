#pragma once
// Parts that many records share.
#include "Families.h"

namespace dtc {

// OpRecord::operandClasses and Through::classes
inline constexpr uint8_t kBools = 1, kInts = 2, kFloats = 4, kComplex = 8;
inline constexpr uint8_t kNumbers = kInts | kFloats, kBits = kBools | kInts, kAnyDType = 7;

// f(max of x) is the max of f(x): floats, integers and (any, all) bools as `classes` says; `swap`: decreasing.
[[nodiscard]] constexpr Through monotone(uint8_t classes = kFloats, bool swap = false,
                                         uint32_t operands = 1) {
  return {ThroughRow::Monotone, operands, swap, ~0u, 0, classes};
}
[[nodiscard]] constexpr Through linear(uint32_t operands = 1, uint8_t classes = 0) {
  return {ThroughRow::Linear, operands, false, ~0u, 0, classes};
}
[[nodiscard]] constexpr Through moving(uint32_t operands = 1) { return {ThroughRow::Moving, operands}; }

// finiteLiteral (Homomorphism.h).
[[nodiscard]] std::optional<double> literalOperand(const OpQuery&, size_t operand);

// One operand, one result, the same dims: a rule for annotations and checks without results.
[[nodiscard]] bool operandsAlikeRule(const OpQuery&, Rule&); // no results

// OpRecord::follow of ops that move data along dims without mixing them (slice, pad, concat, flip): dim d of the result
// follows dim d of the operands, also where it is another size or another order.
[[nodiscard]] bool followByPosition(const OpQuery&, Rule&);

// A rule in Shardy's words, "([i, k], [k, j])->([i, j]) {i=8, j=4, k=2} reduction={k}", of the operands and of results of
// these types. False with a diagnostic where it does not fit.
[[nodiscard]] bool readShardyRule(const OpQuery&, std::string_view text, std::span<const TypeId> results,
                                  Rule&);

inline constexpr DiagKind kNeedsType{"result-type-missing",
                                     "'{0}' needs its result type written: `: f32[2, 3]`"};

} // namespace dtc
