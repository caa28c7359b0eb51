#pragma once
// Discrete Fourier transforms of any length, as matrix products: n log n operations.
#include "dtc/Import/rows/Shapes.h"

namespace dtc {

// Real and imaginary part; without the latter, it is 0.
struct ComplexParts {
  Expr re, im;
};

// The transform along a dim of static size, times `scale`.
[[nodiscard]] ComplexParts fourierTransform(ComplexParts, int64_t dim, bool inverse, double scale);
// The same of a real or complex tensor, as a complex one.
[[nodiscard]] Expr fourierTransform(Expr, int64_t dim, bool inverse, double scale);

// The spectrum of n elements of a real signal, of which the first n / 2 + 1 are given: the others are conjugates
// of them.
[[nodiscard]] ComplexParts wholeSpectrum(ComplexParts half, int64_t dim, int64_t n);

} // namespace dtc
