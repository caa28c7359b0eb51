// Windows of a signal, differences, chunks and hashes.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Import/rows/Fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dtc {
namespace aten::signal {
namespace {

// The window of n elements: the operand between zeros, or ones.
Expr windowOf(ImportContext& c, DType part, int64_t n, int64_t width) {
  const int64_t left = (n - width) / 2;
  const Expr given = c.has("window") ? c.tensor("window") : filled(c.b, part, {width}, 1);
  if (width == n) return given;
  return ops::pad(given, {.value = c.literal(0.0, given.dtype()),
                          .low = std::vector<int64_t>{left},
                          .high = std::vector<int64_t>{n - width - left}});
}

// Elements begin, begin + 1, … of a dim, with zeros after its end.
Expr cut(ImportContext& c, Expr x, int64_t dim, int64_t begin, int64_t size) {
  const int64_t own = staticDims(c.b, {x.dims().at(static_cast<size_t>(dim))})[0];
  const int64_t kept = std::clamp<int64_t>(own - begin, 0, size);
  const Expr first = sliceOf(x, dim, std::min(begin, own), std::min(begin, own) + kept);
  if (kept == size) return first;
  std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
  high.at(static_cast<size_t>(dim)) = size - kept;
  return ops::pad(first, {.value = c.literal(0.0, x.dtype()), .low = low, .high = high});
}

// The sum of frames [rows, frames, n], each `hop` elements after the one before: [rows, frames * hop + …].
Expr overlapped(ImportContext& c, Expr frames, int64_t hop) {
  const std::vector<int64_t> shape = staticDims(c.b, {frames.dims().at(1), frames.dims().at(2)});
  const int64_t parts = (shape[1] + hop - 1) / hop;
  if (parts > 1024) c.fail("has more than 1024 frames that overlap");
  const Dim rows = frames.dims().at(0);
  const Expr whole = reshapeTo(cut(c, frames, 2, 0, parts * hop), {rows, shape[0], parts, hop});
  Expr sum;
  for (int64_t i = 0; i < parts; ++i) {
    const Expr part = reshapeTo(sliceOf(whole, 2, i, i + 1), {rows, shape[0] * hop});
    const Expr placed = ops::pad(part, {.value = c.literal(0.0, part.dtype()),
                                        .low = std::vector<int64_t>{0, i * hop},
                                        .high = std::vector<int64_t>{0, (parts - 1 - i) * hop}});
    sum = sum.valid() ? sum + placed : placed;
  }
  return sum;
}

// The inverse: [.., frequencies, frames] -> [.., L], each element divided by the sum of the squared windows.
ImportResults istft(ImportContext& c) {
  Expr z = c.tensor("self");
  if (!isComplex(z.dtype()) || z.rank() < 2 || z.rank() > 3)
    c.fail("has an operand that is not a complex tensor of rank 2 or 3");
  const bool single = z.rank() == 2;
  z = swapped(single ? withDim(z, 0) : z, 1, 2);
  const int64_t n = c.integer("n_fft"), hop = c.integer("hop_length", std::max<int64_t>(n / 4, 1)),
                width = c.integer("win_length", n);
  const std::vector<int64_t> shape = staticDims(c.b, {z.dims().at(1), z.dims().at(2)});
  constexpr int64_t kMost = 1 << 26;
  if (n < 1 || hop < 1 || hop > n || width < 1 || width > n || shape[0] < 1 || n > kMost / shape[0])
    c.fail("has a size, a step or a window that is out of range");
  const DType part = partType(z.dtype());
  const bool complex = c.flag("return_complex", false), oneSided = c.flag("onesided", shape[1] != n);
  if (shape[1] != (oneSided ? n / 2 + 1 : n)) c.fail("has frequencies of another size");
  const double root = c.flag("normalized", false) ? std::sqrt(static_cast<double>(n)) : 1;
  const bool half = !complex && !oneSided; // a real result comes from the first half of the frequencies
  if (half) z = sliceOf(z, 2, 0, n / 2 + 1);
  const Expr re = ops::real(z);
  ComplexParts y{re, ops::imag(z)};
  if (oneSided || half) y = wholeSpectrum(y, 2, n);
  y = fourierTransform(y, 2, true, root / static_cast<double>(n));
  Expr frames = y.re;
  if (complex) frames = ops::complex(y.re, y.im);
  const Expr w = windowOf(c, part, n, width);
  const Expr squares = broadcastTo(reshapeTo(w * w, {1, 1, n}), {1, shape[0], n});
  const Expr sum = overlapped(c, frames * w.as(frames.dtype()), hop), weight = overlapped(c, squares, hop);
  const bool centered = c.flag("center", true);
  const int64_t begin = centered ? n / 2 : 0, end = n + hop * (shape[0] - 1) - begin;
  const int64_t length = c.has("length") ? c.integer("length") : end - begin;
  if (length < 0 || length > kMost) c.fail("has a length that is out of range");
  const int64_t known = std::min(length, n + hop * (shape[0] - 1) - begin);
  const Expr used = cut(c, sum, 1, begin, known), divisor = cut(c, weight, 1, begin, known);
  const Expr result = cut(c, used / divisor.as(used.dtype()), 1, 0, length);
  return single ? withoutDim(result, 0) : result;
}

// The short-time Fourier transform: [.., L] -> [.., frequencies, frames].
ImportResults stft(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() < 1 || x.rank() > 2) c.fail("has an operand of rank " + std::to_string(x.rank()));
  const int64_t n = c.integer("n_fft"), length = staticDims(c.b, {x.dims().back()})[0];
  if (n < 1 || n > length)
    c.fail("transforms " + std::to_string(n) + " elements of " + std::to_string(length));
  const int64_t hop = c.integer("hop_length", std::max<int64_t>(n / 4, 1)),
                width = c.integer("win_length", n);
  if (hop < 1 || width < 1 || width > n) c.fail("has a step or a window without elements");
  if (c.flag("center", c.node.target.ends_with(".center"))) c.fail("pads its operand: export pads first");
  const int64_t frames = 1 + (length - n) / hop;
  constexpr int64_t kMost = 1 << 26;
  if (frames > kMost / n) c.fail("has too many frames");
  const Expr start = reshapeTo(counted(c.b, frames) * hop, {frames, 1});
  const Expr at = reshapeTo(start + counted(c.b, n), {frames * n});
  const bool single = x.rank() == 1;
  const Expr rows = single ? withDim(x, 0) : x;
  const Expr taken = reshapeTo(ops::index_select(rows, at, {.dim = 1}), {rows.dims().at(0), frames, n});
  const DType part = partType(x.dtype());
  const Expr factors = windowOf(c, part, n, width);
  const bool real = !isComplex(x.dtype()) && !isComplex(factors.dtype());
  const DType d = real ? part : complexType(part).value_or(DType::C64);
  Expr z = taken.as(d) * factors.as(d);
  z = fourierTransform(z, 2, false, c.flag("normalized", false) ? 1 / std::sqrt(static_cast<double>(n)) : 1);
  if (c.flag("onesided", real)) z = sliceOf(z, 2, 0, n / 2 + 1);
  z = swapped(z, 1, 2);
  if (single) z = withoutDim(z, 0);
  if (isComplex(c.result().dtype)) return z;
  return ops::stack(c.b, {ops::real(z), ops::imag(z)}, static_cast<int64_t>(z.rank()));
}

// --- torch.gradient: differences along a dim ---

struct Spacing {
  Expr step; // between neighbors; invalid: equal to `even`
  double even = 1;
};

Expr at(Expr x, int64_t d, int64_t first, int64_t limit) { return sliceOf(x, d, first, limit); }

Expr differences(ImportContext& c, Expr x, int64_t d, const Spacing& s, int64_t order) {
  const int64_t n = staticDims(c.b, {x.dims().at(static_cast<size_t>(d))})[0];
  if (order < 1 || order > 2 || n <= order) c.fail("has a dim with too few elements for its edges");
  Dims own(x.rank(), Dim(1));
  own[static_cast<size_t>(d)] = n - 1;
  const Expr step = s.step.valid() ? s.step : filled(c.b, x.dtype(), {Dim(n - 1)}, s.even);
  const Expr h = reshapeTo(step.as(x.dtype()), own);
  const auto slope = [&](int64_t i) {
    return (at(x, d, i + 1, i + 2) - at(x, d, i, i + 1)) / at(h, d, i, i + 1);
  };
  Expr first = slope(0), last = slope(n - 2);
  std::vector<Expr> parts;
  if (n > 2) {
    const Expr low = at(h, d, 0, n - 2), high = at(h, d, 1, n - 1);
    const Expr below = (at(x, d, 1, n - 1) - at(x, d, 0, n - 2)) / low,
               above = (at(x, d, 2, n) - at(x, d, 1, n - 1)) / high;
    const Expr inner = (below * high + above * low) / (low + high);
    if (order == 2) {                    // the parabola through three points
      const auto bend = [&](int64_t i) { // the change of slope at the edge
        const Expr a = at(h, d, i, i + 1), b = at(h, d, i + 1, i + 2);
        return (slope(i + 1) - slope(i)) / (a + b);
      };
      first = first - bend(0) * at(h, d, 0, 1);
      last = last + bend(n - 3) * at(h, d, n - 2, n - 1);
    }
    parts = {first, inner, last};
  } else {
    parts = {first, last};
  }
  return concatOf(c.b, parts, d);
}

ImportResults gradient(ImportContext& c) {
  const Expr x = in(c, "self", c.result().dtype); // a float, also of integers
  const std::vector<int64_t> d = dims(c, "dim", x.rank());
  std::vector<Spacing> spacing(d.size());
  if (c.is<std::vector<ImportValueRef>>("spacing")) {
    const std::vector<Expr> given = c.tensors("spacing");
    if (given.size() != d.size()) c.fail("has coordinates of other dims");
    for (size_t i = 0; i < d.size(); ++i) {
      const int64_t n = staticDims(c.b, {x.dims().at(static_cast<size_t>(d[i]))})[0];
      if (!given[i].valid() || given[i].dims() != Dims{n}) c.fail("has coordinates of other sizes");
      spacing[i].step = sliceOf(given[i], 0, 1, n) - sliceOf(given[i], 0, 0, n - 1);
    }
  } else if (c.has("spacing")) {
    const ImportAttribute* a = c.attribute("spacing");
    const bool list = a && (std::holds_alternative<std::vector<double>>(*a) ||
                            std::holds_alternative<std::vector<ImportInt>>(*a));
    const std::vector<double> given = list ? c.reals("spacing") : std::vector<double>{c.real("spacing")};
    if (given.size() != d.size() && given.size() != 1) c.fail("has spacings of other dims");
    for (size_t i = 0; i < d.size(); ++i) spacing[i].even = given[given.size() == 1 ? 0 : i];
  }
  std::vector<Expr> out;
  for (size_t i = 0; i < d.size(); ++i)
    out.push_back(differences(c, x, d[i], spacing[i], c.integer("edge_order", 1)));
  return out;
}

// --- chunks ---

// Each tensor padded with zeros to `num_chunks` equal parts of a dim, whose elements are joined.
ImportResults chunkCat(ImportContext& c) {
  const std::vector<Expr> all = c.tensors("tensors");
  const int64_t count = c.integer("num_chunks");
  constexpr int64_t kMostChunks = 1 << 24;
  if (count < 1 || count > kMostChunks || all.empty()) c.fail("has no chunks, or too many");
  std::vector<Expr> parts;
  int64_t d = 0;
  for (const Expr& x : all) {
    if (!x.valid()) c.fail("has an absent tensor");
    d = dimOf(c.b, c.integer("dim"), x.rank());
    const int64_t n = staticDims(c.b, {x.dims().at(static_cast<size_t>(d))})[0],
                  each = std::max<int64_t>((n + count - 1) / count, 1);
    std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
    high[static_cast<size_t>(d)] = each * count - n;
    const Expr padded = ops::pad(x, {.value = c.literal(0.0, x.dtype()), .low = low, .high = high});
    Dims dims(x.dims().begin(), x.dims().begin() + d);
    const Dim rest = elementsOf(c.b, Dims(x.dims().begin() + d + 1, x.dims().end()));
    dims.emplace_back(count);
    dims.push_back(elementsOf(c.b, {rest, Dim(each)}));
    parts.push_back(reshapeTo(padded, dims));
  }
  return concatOf(c.b, parts, d + 1);
}

// The exclusive or of the elements as 64-bit words: the parity of each bit.
ImportResults hashTensor(ImportContext& c) {
  if (c.integer("mode", 0) != 0) c.fail("has the mode " + std::to_string(c.integer("mode")));
  const Expr x = c.tensor("self");
  const Expr word = isFloat(x.dtype()) ? ops::bitcast(x.as(DType::F64), DType::U64)
                                       : x.as(isBool(x.dtype()) ? DType::U8 : x.dtype()).as(DType::U64);
  const std::vector<int64_t> over = dims(c, "dim", x.rank());
  const Expr bit = counted(c.b, Dim(64), DType::U64);
  const Expr bits = ops::shr(withDim(word, static_cast<int64_t>(x.rank())), bit) & 1;
  const Expr odd = (over.empty() ? bits : ops::sum(bits, {.dims = over})) & 1;
  const std::vector<int64_t> last{static_cast<int64_t>(odd.rank()) - 1};
  return reshapeTo(ops::sum(ops::shl(odd, bit), {.dims = last}), resultDims(c)).as(c.result().dtype);
}

// --- windows: f(n / N) for n = 0, 1, …, where N is the length, or 1 less if the window is not periodic ---

template <class F> ImportResults window(ImportContext& c, F&& f) {
  const int64_t length = c.integer("window_length");
  if (length < 0 || length > 1 << 24) c.fail("has a length that is out of range");
  Tensor t(c.result().dtype, {length});
  const bool periodic = c.flag("periodic", true);
  const auto period = static_cast<double>(std::max<int64_t>(periodic ? length : length - 1, 1));
  for (int64_t n = 0; n < length; ++n) t.setFloat(n, length == 1 ? 1 : f(static_cast<double>(n) / period));
  return constantOf(c.b, t);
}

double turned(double part) { return std::cos(2 * std::numbers::pi * part); }

ImportResults hann(ImportContext& c) {
  return window(c, [](double x) { return 0.5 - 0.5 * turned(x); });
}
ImportResults hamming(ImportContext& c) {
  const double alpha = c.real("alpha", 0.54), beta = c.real("beta", 0.46);
  return window(c, [&](double x) { return alpha - beta * turned(x); });
}
ImportResults blackman(ImportContext& c) {
  return window(c, [](double x) { return 0.42 - 0.5 * turned(x) + 0.08 * turned(2 * x); });
}
ImportResults bartlett(ImportContext& c) {
  return window(c, [](double x) { return 1 - std::abs(2 * x - 1); });
}
ImportResults kaiser(ImportContext& c) {
  const double beta = c.real("beta", 12);
  if (!(std::abs(beta) <= 700)) c.fail("has a beta that is out of range");
  const auto bessel = [](double x) { return std::cyl_bessel_i(0.0, std::abs(x)); };
  return window(c, [&](double x) {
    return bessel(beta * std::sqrt(std::max(1 - (2 * x - 1) * (2 * x - 1), 0.0))) / bessel(beta);
  });
}

const ImportRow kRows[] = {
    {"aten.hann_window", hann},
    {"aten.hamming_window", hamming},
    {"aten.blackman_window", blackman},
    {"aten.bartlett_window", bartlett},
    {"aten.kaiser_window", kaiser},
    {"aten.istft", istft},
    {"aten.stft", stft},
    {"aten.gradient", gradient},
    {"aten._chunk_cat", chunkCat},
    {"aten.hash_tensor", hashTensor},
};

} // namespace
} // namespace aten::signal

ImportRows torchSignalRows() { return aten::signal::kRows; }

} // namespace dtc
