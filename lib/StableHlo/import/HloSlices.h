#pragma once
// The dimension numbers of gather and scatter.
#include "import/HloContext.h"

namespace dtc {

// With gather's names: offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims,
// start_index_map, index_vector_dim; scatter has the same under other names.
struct HloSliceDims {
  std::vector<int64_t> window, dropped, batching, indicesBatching, map;
  int64_t vector = 0;
};
// Reads the dialect attribute of this name; `names`: those of the five lists.
[[nodiscard]] bool readSliceDims(HloContext&, const char* attribute, std::span<const char* const> names,
                                 HloSliceDims&);
[[nodiscard]] ValueId emitSlices(HloContext&, OpName name, std::initializer_list<ValueId> operands,
                                 std::span<const char* const> names, const HloSliceDims&, const char* more,
                                 AttrId value);
[[nodiscard]] ValueId gatherSlices(HloContext&, ValueId x, ValueId indices, const HloSliceDims&,
                                   std::span<const int64_t> sizes);

} // namespace dtc
