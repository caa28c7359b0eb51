// torch.fft.
#include "dtc/Import/rows/Fourier.h"
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>
#include <cmath>

namespace dtc {
namespace aten::fourier {
namespace {

// What a name says: "aten.fft_irfft2".
struct Transform {
  bool inverse = false;    // the sign of the exponent
  bool fromReal = false;   // rfft, ihfft: half of the result
  bool toReal = false;     // irfft, hfft: from half of the operand
  bool conjugates = false; // hfft and ihfft are irfft and rfft of the conjugate
  bool several = false;    // 2 and n dims
};

Transform transformOf(std::string_view target) {
  std::string_view name = target.substr(target.find("fft_") + 4);
  name = name.substr(0, name.find('.'));
  const bool i = name.starts_with('i');
  if (i) name.remove_prefix(1);
  const bool r = name.starts_with('r'), h = name.starts_with('h');
  Transform t;
  t.several = name.ends_with('2') || name.ends_with('n');
  t.fromReal = (r && !i) || (h && i);
  t.toReal = (r && i) || (h && !i);
  t.inverse = i;
  t.conjugates = h;
  return t;
}

// 1, 1 / sqrt(n), or 1 / n.
double scaleOf(ImportContext& c, int64_t n, bool inverse) {
  const std::string norm = c.text("norm", "backward");
  if (norm == "ortho") return 1 / std::sqrt(static_cast<double>(n));
  if (norm != "backward" && norm != "forward") c.fail("has the norm '" + norm + "'");
  return (norm == "forward") != inverse ? 1 / static_cast<double>(n) : 1;
}

int64_t sizeOf(ImportContext& c, Expr x, int64_t d) {
  return staticDims(c.b, {x.dims().at(static_cast<size_t>(d))})[0];
}

// Cropped or filled with zeros.
Expr resizedTo(ImportContext& c, Expr x, int64_t d, int64_t n) {
  const int64_t own = sizeOf(c, x, d);
  if (n <= own) return sliceOf(x, d, 0, n);
  std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
  high.at(static_cast<size_t>(d)) = n - own;
  return ops::pad(x, {.value = c.literal(0.0, x.dtype()), .low = low, .high = high});
}

Expr complexed(Expr x) {
  if (isComplex(x.dtype())) return x;
  if (!isFloat(x.dtype())) x = x.as(DType::F32);
  return ops::complex(x, filled(x.builder(), x.dtype(), x.dims(), 0));
}

ComplexParts partsOf(Expr z) {
  if (!isComplex(z.dtype())) return {isFloat(z.dtype()) ? z : z.as(DType::F32), Expr()};
  const Expr re = ops::real(z);
  return {re, ops::imag(z)};
}

Expr realInverse(ImportContext& c, Expr z, int64_t d, int64_t n, double scale) {
  const ComplexParts half = partsOf(resizedTo(c, z, d, n / 2 + 1));
  return fourierTransform(wholeSpectrum(half, d, n), d, true, scale).re;
}

Expr lastToReal(ImportContext& c, Expr z, int64_t d, int64_t n, const Transform& t) {
  if (t.conjugates) z = ops::conj(z); // hfft: forward of a Hermitian operand
  return realInverse(c, z, d, n, scaleOf(c, n, !t.conjugates));
}

Expr lastFromReal(ImportContext& c, Expr x, int64_t d, int64_t n, const Transform& t) {
  const double scale = scaleOf(c, n, t.conjugates);
  const Expr own = isFloat(x.dtype()) ? x : x.as(DType::F32);
  const Expr z = sliceOf(fourierTransform(resizedTo(c, own, d, n), d, false, scale), d, 0, n / 2 + 1);
  return t.conjugates ? ops::conj(z) : z;
}

ImportResults fft(ImportContext& c) {
  const Transform t = transformOf(c.node.target);
  Expr x = c.tensor("self");
  std::vector<int64_t> d, sizes;
  if (t.several) {
    sizes = c.ints("s", {});
    const bool two = c.node.target.find("fft2") != std::string::npos ||
                     c.node.target.find("fft_hfft2") != std::string::npos;
    std::vector<int64_t> given = c.ints("dim", two ? std::vector<int64_t>{-2, -1} : std::vector<int64_t>{});
    if (given.empty())
      given = allDims(x.rank(), sizes.empty() ? 0 : x.rank() - std::min(x.rank(), sizes.size()));
    d = dimsOf(c.b, given, x.rank());
  } else {
    d = {aten::dim(c, "dim", x.rank(), -1)};
    if (c.has("n")) sizes = {c.integer("n")};
  }
  if (d.empty()) return asResult(c, x);
  if (!sizes.empty() && sizes.size() != d.size()) c.fail("has sizes of other dims");
  const auto size = [&](size_t i, bool half) {
    if (!sizes.empty() && sizes[i] >= 0) return sizes[i];
    const int64_t own = sizeOf(c, x, d[i]);
    return half ? 2 * (own - 1) : own;
  };
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < d.size(); ++i) lengths.push_back(size(i, t.toReal && i + 1 == d.size()));
  for (int64_t n : lengths)
    if (n < 1) c.fail("has a size below 1");
  const size_t last = d.size() - 1;
  if (t.fromReal) x = lastFromReal(c, x, d[last], lengths[last], t);
  Expr z = isFloat(x.dtype()) && !t.toReal ? x : complexed(x);
  for (size_t i = 0; i < d.size(); ++i) {
    if (i == last && (t.fromReal || t.toReal)) continue;
    z = fourierTransform(resizedTo(c, z, d[i], lengths[i]), d[i], t.inverse,
                         scaleOf(c, lengths[i], t.inverse));
  }
  return t.toReal ? lastToReal(c, z, d[last], lengths[last], t) : z;
}

// The forms of core ATen: normalization is 0 (none), 1 (1 / sqrt(n)) or 2 (1 / n), of all dims together.
double coreScale(ImportContext& c, double n) {
  const int64_t how = c.integer("normalization");
  return how == 0 ? 1 : how == 1 ? 1 / std::sqrt(n) : 1 / n;
}

ImportResults coreFft(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> d = dimsOf(c.b, c.ints("dim"), x.rank());
  const bool toReal = c.has("last_dim_size"), forward = c.flag("forward", !toReal);
  Expr z = x;
  double n = 1;
  for (size_t i = 0; i < d.size(); ++i) {
    const bool last = toReal && i + 1 == d.size();
    const int64_t own = last ? c.integer("last_dim_size") : sizeOf(c, z, d[i]);
    n *= static_cast<double>(own);
    z = last ? realInverse(c, z, d[i], own, 1) : fourierTransform(z, d[i], !forward, 1);
  }
  const double scale = coreScale(c, n);
  if (toReal) return (isComplex(z.dtype()) ? ops::real(z) : z) * scale;
  if (c.flag("onesided", false) && !d.empty()) z = sliceOf(z, d.back(), 0, sizeOf(c, z, d.back()) / 2 + 1);
  return z * scale;
}

template <bool inverse> ImportResults shift(ImportContext& c) {
  const Expr x = c.tensor("self");
  const std::vector<int64_t> d = dims(c, "dim", x.rank());
  if (d.empty()) return x;
  std::vector<int64_t> by;
  for (int64_t i : d) by.push_back(inverse ? -(sizeOf(c, x, i) / 2) : sizeOf(c, x, i) / 2);
  return ops::roll(x, {.shifts = by, .dims = d});
}

const ImportRow kRows[] = {
    {"aten.fft_fft", fft},
    {"aten.fft_ifft", fft},
    {"aten.fft_rfft", fft},
    {"aten.fft_irfft", fft},
    {"aten.fft_hfft", fft},
    {"aten.fft_ihfft", fft},
    {"aten.fft_fft2", fft},
    {"aten.fft_ifft2", fft},
    {"aten.fft_rfft2", fft},
    {"aten.fft_irfft2", fft},
    {"aten.fft_hfft2", fft},
    {"aten.fft_ihfft2", fft},
    {"aten.fft_fftn", fft},
    {"aten.fft_ifftn", fft},
    {"aten.fft_rfftn", fft},
    {"aten.fft_irfftn", fft},
    {"aten.fft_hfftn", fft},
    {"aten.fft_ihfftn", fft},
    {"aten._fft_r2c", coreFft},
    {"aten._fft_c2c", coreFft},
    {"aten._fft_c2r", coreFft},
    {"aten.fft_fftshift", shift<false>},
    {"aten.fft_ifftshift", shift<true>},
};

} // namespace
} // namespace aten::fourier

ImportRows torchFourierRows() { return aten::fourier::kRows; }

} // namespace dtc
