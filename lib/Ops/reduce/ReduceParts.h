#pragma once
// Shared by the records of the family `reduce`.
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/Reduce.h"
#include "dtc/Support/Tensor.h"
#include "record/RecordParts.h"
#include <algorithm>

namespace dtc {

void addMomentOps(OpRegistry&); // var std norm
void addMedianOps(OpRegistry&); // median nanmedian

// --- records ---
// Adds `dims`, `keepdim` and samples; takes numbers, the scalar is "a".
[[nodiscard]] OpRecord reduction(const char* name, const char* summary);
// The rule: reduced dims are dropped, or become 1.
[[nodiscard]] bool reduceRuleOf(const OpQuery&, Rule&, const std::vector<int64_t>& dims, FactorKind,
                                PendingKind reduce);
// Checks that attribute `dim` names a dim with elements.
[[nodiscard]] bool searchedVerify(const OpQuery&);
// The number of elements per mean, or `count`; empty if the product cannot be expressed.
[[nodiscard]] std::optional<Dim> elementsReduced(const OpQuery&);
// The product of these dims as a value of the type's dtype; a literal if it is static.
[[nodiscard]] Expr countOf(Builder&, const Type&, std::span<const int64_t> dims);

// --- gradients: broadcasts the cotangent over the reduced dims ---
struct Reduced {
  Expr x, y, dy;
  std::vector<int64_t> dims;
  bool keepdim;
};
[[nodiscard]] Reduced reducedOf(Builder&, OpId, std::span<const ValueId> dy);
// Restores the reduced dims with size 1, so that the value broadcasts against x.
[[nodiscard]] Expr withDims(const Reduced&, Expr);
[[nodiscard]] Expr spread(const Reduced&, Expr); // to x's shape
// Scatters each cotangent to the index of its value (without keepdim, along `dim`) into zeros of x's type.
[[nodiscard]] Expr putBack(Builder&, OpId, Expr index, Expr dy);

// --- evaluation ---
// Calls fn(result element, the operand's elements for it in order) over the reduced dims.
template <class Fn> void forEachRow(const Tensor& x, const std::vector<int64_t>& dims, Fn&& fn) {
  std::vector<int64_t> strides = x.strides(), kept, reduced;
  for (size_t d = 0; d < x.rank(); ++d)
    (std::binary_search(dims.begin(), dims.end(), static_cast<int64_t>(d)) ? reduced : kept)
        .push_back(static_cast<int64_t>(d));
  auto offsets = [&](const std::vector<int64_t>& over) {
    std::vector<int64_t> all{0};
    for (int64_t d : over) {
      std::vector<int64_t> next;
      for (int64_t base : all)
        for (int64_t i = 0; i < x.shape()[static_cast<size_t>(d)]; ++i)
          next.push_back(base + i * strides[static_cast<size_t>(d)]);
      all = std::move(next);
    }
    return all;
  };
  std::vector<int64_t> bases = offsets(kept), inner = offsets(reduced), row(inner.size());
  for (size_t r = 0; r < bases.size(); ++r) {
    for (size_t i = 0; i < inner.size(); ++i) row[i] = bases[r] + inner[i];
    fn(static_cast<int64_t>(r), row);
  }
}

} // namespace dtc
