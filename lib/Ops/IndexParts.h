#pragma once
// Parts that the records of the family `index` share.
#include "ShapeParts.h"
#include <functional>

namespace dtc {

void addSortOps(OpRegistry&);       // sort argsort topk
void addSortDigitOps(OpRegistry&);  // sort_counts sort_digit
void addScatterOps(OpRegistry&);    // scatter
void addIndexSliceOps(OpRegistry&); // gather_slices scatter_slices

// --- rows looked up by number ---
// Which row of the local piece an index means: -1 where another device has it. False with a diagnostic out of range.
bool rowOf(const OpQuery&, int64_t index, int64_t size, const Tensor* offset, int64_t& row);
[[nodiscard]] const Tensor* offsetOf(const OpQuery&, std::span<const Tensor* const> in);
// The row as a kernel's coordinate.
[[nodiscard]] ElementNode rowNode(const OpQuery&, ElementBuilder&, ElementNode index);

// --- what a scatter makes of an element and an update ---
struct ScatterKind {
  std::string_view name;
  PendingKind reduce;  // of the updates that go to one place; None: see `combine`
  const char* combine; // the intrinsic that does it; nullptr: the last update counts
  const char* number;  // of the record's expressions: 1 for the kind that is meant
};
[[nodiscard]] std::span<const ScatterKind> scatterKinds();
// By the attribute `reduce`; nullptr with a diagnostic where there is none of that name. `bits`: "and" "or" "xor" are, too.
[[nodiscard]] const ScatterKind* scatterKind(const OpQuery&, bool bits = false);
// An error where complex numbers are combined by another kind than "set" and "sum".
[[nodiscard]] bool combinesComplex(const OpQuery&, const ScatterKind&);
void combineInto(Tensor& y, int64_t i, const Tensor& updates, int64_t j, const ScatterKind&);

// Narrow floats are combined in the accumulation dtype of kernels (f64 where the evaluation is exact), and rounded once, at the end.
[[nodiscard]] Tensor widened(const OpQuery&, const Tensor&);
void narrowInto(Tensor& y, const Tensor& wide);
// The homomorphism rows of x (operand 0) and updates (operand 2), and which of them the kind has.
[[nodiscard]] std::vector<Through> scatterThrough();
[[nodiscard]] bool scatterThroughWhen(const OpQuery&, const Through& row);

// What the gradients of a scatter are made of. `gathered`: a value of x's shape at each update's place, `outside` where that is
// none; `scattered`: updates combined into a value.
struct ScatterParts {
  Builder& b;
  ValueId x, updates, dy;
  std::function<ValueId(ValueId, double outside)> gathered;
  std::function<ValueId(ValueId into, ValueId updates, const char* reduce)> scattered;
};
// Pushes the cotangents of x and updates to dx[0] and dx[2].
[[nodiscard]] bool scatterGradient(const ScatterParts&, ValueId y, const ScatterKind&,
                                   std::vector<ValueId>& dx);

} // namespace dtc
