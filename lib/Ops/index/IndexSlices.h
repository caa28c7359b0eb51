#pragma once
// The dims of gather_slices and scatter_slices.
#include "index/IndexParts.h"

namespace dtc {

// The role of each dim of operand, indices and window tensor (gather's result, scatter's updates). A dim of
// the operand is `batch` (paired with a dim of the indices), `window` (a dim of the window tensor), or
// dropped from the window, with window size 1. Any but the first may be `indexed`.
struct SliceDims {
  struct OperandDim {
    int batch = -1;    // which dim of the indices
    int window = -1;   // which dim of the window tensor
    int indexed = -1;  // which component of the index vector
    Dim size;          // of the window
    bool full = false; // the window covers the full dim
    // Whether a device can write the positions that it owns by itself, because windows have size 1 along the
    // dim.
    [[nodiscard]] bool placed() const {
      return batch < 0 && (window < 0 || (indexed >= 0 && size.isStatic() && size.value() == 1));
    }
  };
  std::vector<OperandDim> operand;
  // for each dim of the indices, the dim of the window tensor; -1: the index vector dim
  std::vector<int> indices;
  std::vector<Dim> result; // sizes of the window tensor, of a gather
  int64_t vector = 0;      // index_vector_dim
};

[[nodiscard]] bool isGatherSlices(const OpQuery&);
// False, with a diagnostic, if attributes and operands do not match.
[[nodiscard]] bool sliceDims(const OpQuery&, SliceDims&);

// For a scatter of full rows by one index each: the indexed dim. The dims of the indices replace it in the
// updates.
[[nodiscard]] std::optional<int64_t> scatteredRows(const OpQuery&, const SliceDims&);

// --- gradients (IndexSlicesGradient.cpp) ---
bool gatherSlicesGrad(Builder&, OpId, std::span<const ValueId> dy, std::vector<ValueId>& dx);
bool scatterSlicesGrad(Builder&, OpId, std::span<const ValueId> dy, std::vector<ValueId>& dx);

} // namespace dtc
