#pragma once
// Shared by the records of the family `index`.
#include "record/ShapeParts.h"
#include <functional>

namespace dtc {

void addSortOps(OpRegistry&);       // sort argsort topk
void addSortDigitOps(OpRegistry&);  // sort_counts sort_digit
void addScatterOps(OpRegistry&);    // scatter
void addIndexSliceOps(OpRegistry&); // gather_slices scatter_slices

// --- lookup ---
// The row of the local shard that an index refers to, or -1 if another device owns it. False, with a
// diagnostic, if it is out of range.
bool rowOf(const OpQuery&, int64_t index, int64_t size, const Tensor* offset, int64_t& row);
[[nodiscard]] const Tensor* offsetOf(const OpQuery&, std::span<const Tensor* const> in);
// The same as a kernel coordinate.
[[nodiscard]] ElementNode rowNode(const OpQuery&, ElementBuilder&, ElementNode index);

// --- how a scatter combines an element and an update ---
struct ScatterKind {
  std::string_view name;
  PendingKind reduce;  // of the updates to one position; None: see `combine`
  const char* combine; // the intrinsic; nullptr: the last update wins
  const char* number;  // of the record's expressions: 1 for the selected kind
};
[[nodiscard]] std::span<const ScatterKind> scatterKinds();
// Looks up the attribute `reduce`; nullptr, with a diagnostic, if it is unknown. `bits`: also allows "and",
// "or" and "xor".
[[nodiscard]] const ScatterKind* scatterKind(const OpQuery&, bool bits = false);
// Reports complex operands with a kind other than "set" and "sum".
[[nodiscard]] bool combinesComplex(const OpQuery&, const ScatterKind&);
// A scatter of one update along `dim`, at most, into each row of a splat `x` is a choice per element, which is
// fused with the ops around it. `index` and `update` have size 1 along `dim`. Invalid if x is not a splat, or for a
// kind without an op.
[[nodiscard]] Expr scatteredChoice(Expr x, size_t dim, Expr index, Expr update, const ScatterKind&);
void combineInto(Tensor& y, int64_t i, const Tensor& updates, int64_t j, const ScatterKind&);

// Narrow floats are combined in the accumulation dtype of kernels (f64 in exact evaluation), and rounded once
// at the end.
[[nodiscard]] Tensor widened(const OpQuery&, const Tensor&);
void narrowInto(Tensor& y, const Tensor& wide);
// The homomorphism rows of x (operand 0) and updates (operand 2), and which of them apply to the kind.
[[nodiscard]] std::vector<Through> scatterThrough();
[[nodiscard]] bool scatterThroughWhen(const OpQuery&, const Through& row);

// Building blocks of the gradients of a scatter. `gathered`: reads a value of x's shape at each update's
// position, `outside` if that is out of range; `scattered`: combines updates into a value.
struct ScatterParts {
  Expr x, updates, dy;
  std::function<Expr(Expr, double outside)> gathered;
  std::function<Expr(Expr into, Expr updates, const char* reduce)> scattered;
};
// Pushes the cotangents of x and updates to dx[0] and dx[2].
[[nodiscard]] bool scatterGradient(const ScatterParts&, Expr y, const ScatterKind&, std::vector<ValueId>& dx);

} // namespace dtc
