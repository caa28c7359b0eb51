#pragma once
// The function attribute `recomputes = true`: the backward part computes values of the forward part again, so that
// fuse must not compute them together with ops of the forward part.
#include "dtc/IR/Module.h"

namespace dtc {

void setRecomputes(Module&, FuncId);
[[nodiscard]] bool recomputes(const Module&, FuncId);

} // namespace dtc
