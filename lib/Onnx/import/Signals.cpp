// Fourier transforms, windows and mel weights.
#include "dtc/Import/rows/Fourier.h"
#include "import/OnnxContext.h"

#include <cmath>
#include <numbers>

namespace dtc::onnx {

namespace {

// x with `length` elements in dim -2: zeros are added, or elements dropped.
Expr fitted(OnnxContext& c, Expr x, int64_t length) {
  const int64_t axis = static_cast<int64_t>(x.rank()) - 2, have = c.shapeOf(x).at(static_cast<size_t>(axis));
  if (have >= length) return sliceOf(x, axis, 0, length);
  std::vector<int64_t> low(x.rank()), high(x.rank());
  high[static_cast<size_t>(axis)] = length - have;
  return pad(x, {.value = filled(c.b, x.dtype(), {}, 0), .low = low, .high = high});
}

// The first `outputs` elements of the transform of x [.., length, 1 or 2] along dim -2.
Expr transformed(OnnxContext& c, Expr x, int64_t length, int64_t outputs, bool inverse) {
  if (length < 1 || length > 1 << 28) c.fail("has a length that is out of range: " + std::to_string(length));
  const auto last = static_cast<int64_t>(x.rank()) - 1;
  const DType own = x.dtype();
  x = x.as(DType::F64); // sums of many terms that cancel
  const auto part = [&](int64_t i) { return withoutDim(sliceOf(x, last, i, i + 1), last); };
  const Expr re = part(0);
  const double scale = inverse ? 1 / static_cast<double>(length) : 1;
  ComplexParts y =
      fourierTransform({re, x.dims().back() == Dim(2) ? part(1) : Expr()}, last - 1, inverse, scale);
  if (!y.im.valid()) y.im = filled(c.b, DType::F64, y.re.dims(), 0);
  const Expr pairs = ops::stack(c.b, {y.re, y.im}, last);
  return sliceOf(pairs, last - 1, 0, outputs).as(own);
}

// The other half of the spectrum of a real signal, conjugated in reverse.
Expr completed(OnnxContext& c, Expr half, int64_t length) {
  const auto axis = static_cast<int64_t>(half.rank()) - 2;
  const int64_t have = c.shapeOf(half).at(static_cast<size_t>(axis));
  if (have < length / 2 + 1) half = fitted(c, half, length / 2 + 1);
  if (have > length / 2 + 1) half = sliceOf(half, axis, 0, length / 2 + 1);
  const int64_t rest = length - (length / 2 + 1);
  const Expr mirrored = flip(sliceOf(half, axis, 1, 1 + rest), {axis});
  const Expr re = sliceOf(mirrored, axis + 1, 0, 1), im = -sliceOf(mirrored, axis + 1, 1, 2);
  return concatOf(c.b, {half, concatOf(c.b, {re, im}, axis + 1)}, axis);
}

ImportResults dft(OnnxContext& c) {
  Expr x = c.in(0);
  const auto rank = static_cast<int64_t>(x.rank());
  if (rank < 2) c.fail("has an operand without a dim for complex parts");
  const int64_t axis = c.opset() < 20 ? c.dim(c.integer("axis", 1), x.rank())
                                      : c.dim(c.has(2) ? c.knownInt(2, "the axis") : -2, x.rank());
  if (axis == rank - 1) c.fail("has the dim of complex parts as its axis");
  const bool inverse = c.integer("inverse", 0), oneSided = c.integer("onesided", 0);
  x = moved(x, axis, rank - 2);
  const int64_t have = c.shapeOf(x).at(static_cast<size_t>(rank - 2));
  const int64_t length = c.has(1) ? c.knownInt(1, "the length") : inverse && oneSided ? 2 * (have - 1) : have;
  Expr y;
  if (inverse && oneSided) {
    if (length < 1) c.fail("has a length below 1");
    y = sliceOf(transformed(c, completed(c, x, length), length, length, true), rank - 1, 0, 1);
  } else {
    y = transformed(c, fitted(c, x, length), length, oneSided ? length / 2 + 1 : length, inverse);
  }
  return moved(y, rank - 2, axis);
}

ImportResults stft(OnnxContext& c) {
  Expr x = c.in(0);
  if (x.rank() == 2) x = withDim(x, 2);
  if (x.rank() != 3) c.fail("has a signal that is not [batch, length, 1 or 2]");
  const int64_t step = c.knownInt(1, "the frame step"), length = c.shapeOf(x).at(1);
  const int64_t frame = c.has(3)   ? c.knownInt(3, "the frame length")
                        : c.has(2) ? c.shapeOf(c.in(2)).at(0)
                                   : length;
  if (step < 1 || frame < 1 || frame > length) c.fail("has a frame step or length that is out of range");
  const int64_t frames = (length - frame) / step + 1;
  const TypeId type = checkedType(c.b, DType::I64, {frames, frame});
  const Expr at = iota(c.b, type, {.dim = 0}) * step + iota(c.b, type, {.dim = 1});
  const Dims shape{x.dims().at(0), frames, frame, x.dims().at(2)};
  Expr windows = reshapeTo(index_select(x, reshapeTo(at, {frames * frame}), {.dim = 1}), shape);
  if (c.has(2)) windows = windows * withDim(c.in(2), 1);
  return transformed(c, windows, frame, c.integer("onesided", 1) ? frame / 2 + 1 : frame, false);
}

// a0 - a1 cos(2πn/N) + a2 cos(4πn/N)
Expr cosineWindow(OnnxContext& c, double a0, double a1, double a2) {
  const int64_t size = c.knownInt(0, "the size");
  if (size < 0 || size > 1 << 28) c.fail("has a size that is out of range");
  const auto period = static_cast<double>(c.integer("periodic", 1) ? size : size - 1);
  const Expr n = counted(c.b, size, DType::I64).as(DType::F64) * (2 * std::numbers::pi / period);
  const Expr y = a0 - cos(n) * a1 + cos(n * 2.0) * a2;
  return y.as(c.heldBy(c.integer("output_datatype", 1)));
}

ImportResults hann(OnnxContext& c) { return cosineWindow(c, 0.5, 0.5, 0); }
ImportResults hamming(OnnxContext& c) { return cosineWindow(c, 25.0 / 46, 1 - 25.0 / 46, 0); }
ImportResults blackman(OnnxContext& c) { return cosineWindow(c, 0.42, 0.5, 0.08); }

// As the definition: triangles between bins of the spectrum, at multiples of a mel step.
ImportResults melWeights(OnnxContext& c) {
  const int64_t bins = c.knownInt(0, "the number of bins"), length = c.knownInt(1, "the DFT's length"),
                rate = c.knownInt(2, "the sample rate");
  const double low = c.knownReals(3, "the lower edge").at(0), high = c.knownReals(4, "the upper edge").at(0);
  if (bins < 1 || bins > 1 << 16 || length < 1 || length > 1 << 24 || rate < 1)
    c.fail("has sizes that are out of range");
  const int64_t spectrum = length / 2 + 1;
  const auto mel = [](double f) { return 2595 * std::log10(1 + f / 700); };
  const double lowest = mel(low), step = (mel(high) - lowest) / static_cast<double>(bins + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10.0, (static_cast<double>(i) * step + lowest) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  if (spectrum * bins > 1 << 22) c.fail("has a result of more than 4 million elements");
  Tensor t(c.heldBy(c.integer("output_datatype", 1)), {spectrum, bins});
  const auto set = [&](int64_t row, int64_t bin, double v) {
    if (row >= 0 && row < spectrum) t.setFloat(row * bins + bin, v);
  };
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t left = edges[static_cast<size_t>(i)], center = edges[static_cast<size_t>(i + 1)],
                  right = edges[static_cast<size_t>(i + 2)];
    if (center == left) set(center, i, 1);
    for (int64_t j = left; center > left && j <= std::min(center, spectrum - 1); ++j)
      set(j, i, static_cast<double>(j - left) / static_cast<double>(center - left));
    for (int64_t j = center; right > center && j < std::min(right, spectrum); ++j)
      set(j, i, static_cast<double>(right - j) / static_cast<double>(right - center));
  }
  if (!isFloat(t.dtype())) c.fail("has a result that is not of floats");
  return constantOf(c.b, t);
}

constexpr OnnxRow kSignalRows[] = {
    {"DFT", dft},
    {"STFT", stft},
    {"HannWindow", hann},
    {"HammingWindow", hamming},
    {"BlackmanWindow", blackman},
    {"MelWeightMatrix", melWeights},
};

} // namespace

std::span<const OnnxRow> signalRows() { return kSignalRows; }

} // namespace dtc::onnx
