#pragma once
// Arithmetic on a device's number. Private to lib/Import.
#include "GspmdText.h"
#include "dtc/IR/Module.h"

namespace dtc {

// A range of a device's digits as axes of the mesh and parts of them, major to minor.
[[nodiscard]] std::vector<AxisRef> axesOfDigits(const DigitRange&, const Mesh&);
// `axes = […]` of a collective.
[[nodiscard]] AttrId axesAttribute(Module&, std::span<const AxisRef>);

// Quotients and remainders of the device's number become its index along the axes that they pick out (JAX prints an index along
// one axis so): what they do not vary along, nobody could tell of the arithmetic.
void foldDeviceNumbers(Module&, BlockId, const Mesh&);

} // namespace dtc
