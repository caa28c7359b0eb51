#pragma once
// Constants while shardings are propagated: each use has its own copy, so that what one use wants of a constant says nothing
// to the others (as in Shardy). Private to lib/Passes.
#include "dtc/IR/Module.h"

namespace dtc {

struct ConstantCopies {
  std::vector<std::vector<ValueId>> groups; // copies of one constant, the original first
};

// Copies what is made of nothing, or of a scalar alone (constant, iota, broadcast of a scalar), once per use of its global
// functions. What has a sharding written is left as it is.
[[nodiscard]] ConstantCopies splitConstants(Module&);
// Copies that came out sharded alike are one again.
void mergeConstants(Module&, const ConstantCopies&);

} // namespace dtc
