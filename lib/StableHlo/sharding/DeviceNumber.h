#pragma once
// Arithmetic on a device's number.
#include "dtc/IR/Module.h"
#include "sharding/GspmdText.h"

namespace dtc {

// Quotients and remainders of the device's number become the index along the axes that they select (JAX
// prints an index along one axis this way). Axes along which the result is constant are not recoverable
// otherwise.
void foldDeviceNumbers(Module&, BlockId, const Mesh&);

} // namespace dtc
