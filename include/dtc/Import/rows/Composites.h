#pragma once
// Ops that several frameworks have and dtc expresses by others.
#include "dtc/Import/rows/Shapes.h"
#include <string_view>

namespace dtc {

// The discrete Fourier transform of a complex tensor along a dim, times `scale`: a product with the matrix of
// roots of unity, for sizes up to 32768.
[[nodiscard]] Expr fourierTransform(Expr z, int64_t dim, bool inverse, double scale);

} // namespace dtc
