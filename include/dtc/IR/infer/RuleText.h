#pragma once
// The text form of index rules, and helpers for rule functions.
//
//   text   := [ side ] "->" [ side ] { ";" NAME ":" KIND [ "placed" ] [ "joins" INT ] }
//   side   := tensor { "," tensor }
//   tensor := "[" { ".." | NAME | "1" | "(" { NAME } ")" } "]"
//
// `..` are batch dims, right-aligned and broadcast as in NumPy: a dim of size 1 next to a larger one is a
// compound of no factor (index 0; a sharded one is gathered first). `(i j)` is a compound, major to minor. A
// factor that is in no result is Reduce(sum) unless stated: `k: max`, `j: whole`, `i: place`; `i: sum joins
// 2`: operand 2 joins; `v: sum placed`: Factor::placed. Absent optional operands are left out of the rule.
// "pointwise" is `..` everywhere.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Binds `text` to the operands' types. False, with a diagnostic, if they do not match.
[[nodiscard]] bool ruleFromText(const OpQuery&, std::string_view text, Rule&);
[[nodiscard]] bool pointwiseRule(const OpQuery&, Rule&);

// --- for rule functions ---
[[nodiscard]] inline DimMap plainDim(uint16_t factor) { return {DimMap::Compound, {{factor, 1}}, 0}; }
[[nodiscard]] inline DimMap oneDim() { return {}; } // size 1, index 0
uint16_t addFactor(Rule&, Dim size, std::string name = {}, FactorKind = FactorKind::Pass,
                   PendingKind reduce = PendingKind::None);
// One factor per dim of the operand, named i0, i1, …; its map is appended to `operands`.
void addOperandFactors(const OpQuery&, size_t operand, Rule&);
// The size of a mapped dim: the product of the factors of a compound, the factor of a Free one. Empty if it
// overflows or the map is affine (the op's `infer` then defines it).
[[nodiscard]] std::optional<Dim> sizeOfMap(const Rule&, const DimMap&, DimTable&);

// A local dim without the axes that divide it evenly (Sharding.h, canonicalShard). A negative dim, which is not
// a size, is returned unchanged.
[[nodiscard]] Dim normalDim(const OpQuery&, Dim);

// Diagnostics shared by rule functions.
inline constexpr DiagKind kRankMismatch{"rank-mismatch", "'{0}' needs {1} with {2} dims, but it is {3}"};
inline constexpr DiagKind kDimMismatch{"dim-mismatch", "'{0}' {1}"};
// "'matmul' contracts dim 1 of %x (512) with dim 0 of %w1 (1024)", with carets at the op and both operands,
// and a note at the second.
bool reportDims(const OpQuery&, std::string_view how, std::string_view with, size_t operandA, size_t dimA,
                size_t operandB, size_t dimB);
// A wrong rank; `need` as in "at least 2".
bool reportRank(const OpQuery&, size_t operand, std::string_view need);
// "f32[64, B]", for messages.
[[nodiscard]] std::string typeText(const Module&, TypeId);

} // namespace dtc
