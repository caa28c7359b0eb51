#pragma once
// The option reduce-dtype of propagate and partition (private to lib/Passes): the dtype that sums between devices travel in.
#include "dtc/Passes/Pass.h"
#include "dtc/Support/DType.h"

namespace dtc {

// Nothing where it was not given; false where what was given is no float dtype, which is reported.
[[nodiscard]] bool readReduceDType(const PassOptions&, std::optional<DType>& out, Diagnostics&);

extern const PassOption kReduceDTypeOption;

} // namespace dtc
