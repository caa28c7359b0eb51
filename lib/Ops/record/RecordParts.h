#pragma once
// Shared by many records.
#include "record/Families.h"

namespace dtc {

// OpRecord::operandClasses and Through::classes
inline constexpr uint8_t kBools = 1, kInts = 2, kFloats = 4, kComplex = 8;
inline constexpr uint8_t kNumbers = kInts | kFloats, kBits = kBools | kInts, kAnyDType = 7;

// f(max of x) is the max of f(x): for floats, integers and (any, all) bools as given by `classes`; `swap`:
// decreasing.
[[nodiscard]] constexpr Through monotone(uint8_t classes = kFloats, bool swap = false,
                                         uint32_t operands = 1) {
  return {ThroughRow::Monotone, operands, swap, ~0u, 0, classes};
}
// OpRecord::checks, by the column that is not the default.
using Coincidences = std::vector<OpChecks::Coincidence>;
[[nodiscard]] inline OpChecks exact() { return {.exact = true}; }
[[nodiscard]] inline OpChecks discontinuous(Coincidences c = {}) {
  return {.discontinuous = true, .coincidences = std::move(c)};
}
[[nodiscard]] inline OpChecks exactJump() { return {.discontinuous = true, .exact = true}; }
[[nodiscard]] inline OpChecks within(std::vector<Domain> domain, Coincidences c = {}) {
  return {.domain = std::move(domain), .coincidences = std::move(c)};
}
inline constexpr OpChecks::Coincidence kMinByNan{
    "P(min) -> P(min)", "defined on a part of the reals: it holds only because of NaN"},
    kNeverPending{"*", "created after propagation: its values are never pending"};
[[nodiscard]] constexpr Through linear(uint32_t operands = 1, uint8_t classes = 0) {
  return {ThroughRow::Linear, operands, false, ~0u, 0, classes};
}
[[nodiscard]] constexpr Through moving(uint32_t operands = 1) { return {ThroughRow::Moving, operands}; }

// A record of an op whose results are elements of its first operand.
[[nodiscard]] OpRecord dataMovement(const char* name, const char* family, const char* summary);

// Reports a value of a string attribute that is not one of `allowed`.
[[nodiscard]] bool textChoice(const OpQuery&, std::string_view attribute,
                              std::initializer_list<std::string_view> allowed);

// finiteLiteral (Homomorphism.h).
[[nodiscard]] std::optional<double> literalOperand(const OpQuery&, size_t operand);

// One operand, one result, the same dims.
[[nodiscard]] bool operandsAlikeRule(const OpQuery&, Rule&); // The same for checks, which have no results.

// OpRecord::follow of data-movement ops that do not mix elements of a dim (slice, pad, concat, flip): dim d
// of the result follows dim d of the operands, even if size or order differ.
[[nodiscard]] bool followByPosition(const OpQuery&, Rule&);

// A rule in Shardy's notation, "([i, k], [k, j])->([i, j]) {i=8, j=4, k=2} reduction={k}", for the operands
// and results of these types. False, with a diagnostic, if it does not match.
[[nodiscard]] bool readShardyRule(const OpQuery&, std::string_view text, std::span<const TypeId> results,
                                  Rule&);

inline constexpr DiagKind kNeedsType{"result-type-missing",
                                     "'{0}' needs an explicit result type: `: f32[2, 3]`"};

} // namespace dtc
