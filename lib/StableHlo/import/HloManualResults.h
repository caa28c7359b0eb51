#pragma once
#include "dtc/IR/Module.h"
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// A manual computation may declare a result to be the same on several devices without a proof (JAX's
// check_vma=False), which dtc does not accept. Takes the value of the first of these devices on all of them.
// Likewise, a result may be a sum over devices to which each adds the same value.
void agreeOnResults(Module& m, Diagnostics& diags);

} // namespace dtc
