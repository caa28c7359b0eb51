#pragma once
// Copies of constants during propagation: each use has its own copy, so that the sharding of one use does not
// propagate to the others (as in Shardy).
#include "dtc/IR/Module.h"

namespace dtc {

struct ConstantCopies {
  std::vector<std::vector<ValueId>> groups; // copies of one constant, the original first
};

// Copies each value without tensor operands (constant, iota, broadcast of a scalar) once per use in the
// global functions. Values with an annotated sharding are not copied.
[[nodiscard]] ConstantCopies splitConstants(Module&);
// Merges copies that have the same sharding after propagation.
void mergeConstants(Module&, const ConstantCopies&);

} // namespace dtc
