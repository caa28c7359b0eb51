#pragma once
// The dims of gather_slices and scatter_slices.
#include "IndexParts.h"

namespace dtc {

// What each dim of operand, indices and window tensor (gather's result, scatter's updates) is. A dim of the operand is one of:
// `batch` (walked along with a dim of the indices), `window` (of the window tensor), or dropped from the window, whose size is
// then 1. Any but the first may be `indexed`.
struct SliceDims {
  struct OperandDim {
    int batch = -1;     // which dim of the indices
    int window = -1;    // which dim of the window tensor
    int indexed = -1;   // which component of the index vector
    Dim size;           // of the window
    bool whole = false; // all of the dim is taken, from its beginning on
    // A piece of the dim is enough to write the places that lie in it: its windows are one wide.
    [[nodiscard]] bool placed() const {
      return batch < 0 && (window < 0 || (indexed >= 0 && size.isStatic() && size.value() == 1));
    }
  };
  std::vector<OperandDim> operand;
  std::vector<int>
      indices; // of each dim of the indices: which dim of the window tensor; -1: the index vector's
  std::vector<Dim> result; // sizes of the window tensor, of a gather
  int64_t vector = 0;      // index_vector_dim
};

[[nodiscard]] bool isGatherSlices(const OpQuery&);
// False with a diagnostic where attributes and operands do not fit.
[[nodiscard]] bool sliceDims(const OpQuery&, SliceDims&);

// Of a scatter: the dim whose rows the updates are, one number each, with all of the other dims; its numbers' dims stand in its
// place in the updates.
[[nodiscard]] std::optional<int64_t> scatteredRows(const OpQuery&, const SliceDims&);

// --- gradients (IndexSlicesGradient.cpp) ---
bool gatherSlicesGrad(Builder&, OpId, std::span<const ValueId> dy, std::vector<ValueId>& dx);
bool scatterSlicesGrad(Builder&, OpId, std::span<const ValueId> dy, std::vector<ValueId>& dx);

} // namespace dtc
