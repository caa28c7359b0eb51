#pragma once
// Part of fuse: what is decided, before ops are grouped, about the layouts of tensors that libraries read.
#include "analysis/FusionForm.h"
#include <unordered_set>

namespace dtc {

struct OperandLayouts {
  std::unordered_set<uint32_t>
      convolutions;                    // the library reads and writes their tensors in any order of dims
  std::unordered_set<uint32_t> stored; // transposes whose results must be in memory
};

using DimOrder = std::vector<int64_t>; // of dims, outermost first
[[nodiscard]] DimOrder inverse(const DimOrder&);

// A value as a transpose of one in memory.
struct TransposedValue {
  ValueId base;
  DimOrder dims;  // by dim of the value: the dim of the base
  DimOrder order; // of the dims of the value in the base
};
// Follows the transposes among the ops `here` of a block, up to one that is stored.
[[nodiscard]] TransposedValue throughTransposes(const Module&, FusionForms&, const OperandLayouts&,
                                                const std::unordered_set<uint32_t>& here, ValueId);

} // namespace dtc
