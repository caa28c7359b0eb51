#pragma once
// Parts that the records of the family `reduce` share.
#include "RecordParts.h"
#include "dtc/IR/Builder.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Support/Tensor.h"
#include <algorithm>

namespace dtc {

void addMomentOps(OpRegistry&); // var std norm
void addMedianOps(OpRegistry&); // median nanmedian

// --- records ---
// `dims`, `keepdim` and samples; takes numbers, reads "a".
[[nodiscard]] OpRecord reduction(const char* name, const char* summary);
// The rule: reduced dims go, or become 1.
[[nodiscard]] bool reduceRuleOf(const OpQuery&, Rule&, const std::vector<int64_t>& dims, FactorKind,
                                PendingKind reduce);
// Attribute `dim` names a dim with elements to choose from.
[[nodiscard]] bool searchedVerify(const OpQuery&);
// How many elements one mean is over, or what `count` says; nothing where the product is no size.
[[nodiscard]] std::optional<Dim> elementsReduced(const OpQuery&);
// The product of these dims as a value of the type's dtype: a literal where it is a number.
[[nodiscard]] ValueId countOf(Builder&, const Type&, std::span<const int64_t> dims);

// --- gradients: the cotangent spread over what was reduced ---
struct Reduced {
  Module& m;
  ValueId x, y, dy;
  std::vector<int64_t> dims;
  bool keepdim;
};
[[nodiscard]] Reduced reducedOf(Builder&, OpId, std::span<const ValueId> dy);
// The reduced dims are put back with size 1: what broadcasts against x.
[[nodiscard]] ValueId withDims(Builder&, const Reduced&, ValueId);
[[nodiscard]] ValueId spread(Builder&, const Reduced&, ValueId); // to x's shape
// 1 where the predicate holds, else 0.
[[nodiscard]] ValueId floatMask(Builder&, ValueId predicate, DType);
// Where each cotangent's value stood (a keepdim-less index along `dim`), zeros of x's type take it in.
[[nodiscard]] ValueId putBack(Builder&, OpId, ValueId index, ValueId dy);

// --- evaluation ---
// Calls fn(result element, the operand's elements of it in order) over the reduced dims.
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
