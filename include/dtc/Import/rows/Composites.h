#pragma once
// Ops that several frameworks have and dtc expresses by others.
#include "dtc/Import/rows/Shapes.h"
#include <string_view>

namespace dtc {

// The discrete Fourier transform of a complex tensor along a dim, times `scale`: a product with the matrix of
// roots of unity, for sizes up to 32768.
[[nodiscard]] Expr fourierTransform(Expr z, int64_t dim, bool inverse, double scale);

// How a sample of an image between its elements is computed, and what is beyond its edges.
struct GridSampling {
  enum Mode : uint8_t { Linear, Nearest, Cubic } mode = Linear;
  enum Padding : uint8_t { Zeros, Border, Reflection } padding = Zeros;
  bool alignCorners = false;
  double cubic = -0.75; // the coefficient of the cubic kernel
};
// x: [n, c, spatial…]; grid: [n, out…, k] with coordinates in [-1, 1], the last dim of x first. [n, c, out…].
[[nodiscard]] Expr gridSample(Expr x, Expr grid, const GridSampling&);

} // namespace dtc
