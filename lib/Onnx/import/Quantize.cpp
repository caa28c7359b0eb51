// Quantization: integers of few bits with a scale and a zero point.
#include "import/Small.h"
#include "import/Windows.h"

#include "dtc/Support/Checked.h"

namespace dtc::onnx {

namespace {

// A scale (or zero point) as it broadcasts against x: a number, one per index of `axis`, or one per block of that
// axis.
Expr spread(OnnxContext& c, Expr scale, Expr x) {
  const int64_t block = c.integer("block_size", 0);
  if (scale.rank() == 0) return scale;
  if (scale.rank() == 1 && scale.dims().at(0) == Dim(1)) return reshapeTo(scale, {});
  const int64_t axis = c.dim(c.integer("axis", 1), x.rank());
  if (scale.rank() == 1 && x.rank() >= 1 && block == 0) {
    Dims dims(x.rank(), Dim(1));
    dims[static_cast<size_t>(axis)] = scale.dims().at(0);
    return reshapeTo(scale, dims);
  }
  if (block < 1 || scale.rank() != x.rank())
    c.fail("has a scale that is neither a number, nor a list, nor of blocks");
  Dims wide = scale.dims(), merged = scale.dims();
  const auto at = static_cast<size_t>(axis);
  wide.insert(wide.begin() + axis + 1, Dim(block));
  const auto total = c.module.dims.mul(merged[at], block);
  if (!total) c.fail("has blocks that are too large");
  merged[at] = *total;
  const Expr repeated = reshapeTo(broadcastTo(withDim(scale, axis + 1), wide), merged);
  return merged[at] == x.dims().at(at) ? repeated : sliceOf(repeated, axis, 0, x.dims().at(at));
}

// round(scaled) + zero point, saturated to an integer type. `zero` may be absent.
Expr saturated(OnnxContext& c, Expr scaled, Expr zero, int32_t type) {
  const ElementInfo& e = *findElement(type);
  Expr y = round(scaled).as(DType::F32);
  if (zero.valid()) y = y + zero.as(DType::F32);
  const DType held = c.heldBy(type);
  if (!isInteger(held) || e.bits > 16) c.fail("quantizes to " + elementName(type));
  return clamp(y, static_cast<double>(e.lowest()), static_cast<double>(e.highest())).as(held);
}

ImportResults quantize(OnnxContext& c) {
  const Expr x = c.in(0), scale = spread(c, c.in(1), x);
  int64_t type = c.integer("output_dtype", 0);
  if (type == 0) type = c.has(2) ? c.element(2) : int32_t(kUint8);
  const auto to = static_cast<int32_t>(type);
  const DType held = c.heldBy(type);
  const int64_t precision = c.integer("precision", 0);
  const DType by = precision ? c.heldBy(precision) : isFloat(scale.dtype()) ? scale.dtype() : DType::F32;
  const Expr scaled = x.as(by) / scale.as(by);
  c.setElement(0, to);
  if (isInteger(held)) return saturated(c, scaled, c.has(2) ? spread(c, c.in(2), x) : Expr(), to);
  Expr y = scaled.as(DType::F32);
  if (c.has(2)) y = y + spread(c, c.in(2), x).as(DType::F32);
  return castTo(c, y, kFloat, to, c.integer("saturate", 1), "nearest");
}

Expr withoutZero(Expr x, Expr zero) {
  if (!isInteger(x.dtype())) return zero.valid() ? x.as(DType::F32) - zero.as(DType::F32) : x.as(DType::F32);
  const Expr wide = x.as(DType::I32);
  return zero.valid() ? wide - zero.as(DType::I32) : wide;
}

ImportResults dequantize(OnnxContext& c) {
  const Expr x = c.in(0), scale = spread(c, c.in(1), x);
  const Expr zero = c.has(2) ? spread(c, c.in(2), x) : Expr();
  const int64_t type = c.integer("output_dtype", 0);
  const DType to = type ? c.heldBy(type) : scale.dtype();
  const Expr y = withoutZero(x, zero).as(DType::F32) * scale.as(DType::F32);
  if (type) c.setElement(0, static_cast<int32_t>(type));
  return y.as(to);
}

ImportResults dynamicQuantize(OnnxContext& c) {
  const Expr x = c.in(0);
  const Expr high = max(ops::max(x), 0.0), low = min(ops::min(x), 0.0);
  const Expr scale = (high - low) / 255.0;
  const Expr zero = clamp(round(-low / scale), 0.0, 255.0);
  const Expr y = clamp(round(x / scale) + zero, 0.0, 255.0);
  return {y.as(DType::U8), scale, zero.as(DType::U8)};
}

// The zero point of the rows of a matrix is a column.
Expr ofRows(Expr zero) { return zero.valid() && zero.rank() == 1 ? withDim(zero, 1) : zero; }

// A zero point as i32; not valid where it is absent or known to be 0.
Expr zeroPoint(OnnxContext& c, int i) {
  if (!c.has(i)) return {};
  const Tensor* known = c.knownIf(i);
  bool zero = known != nullptr;
  for (int64_t k = 0; zero && k < known->numElements(); ++k) zero = known->getFloat(k) == 0;
  return zero ? Expr() : c.in(i).as(DType::I32);
}

// The product of a - aZero and b - bZero. A library multiplies bytes, so the zero points are applied to its result:
// a b - aZero sum(b) - bZero sum(a - aZero). Libraries take a second factor of i8, not of u8.
Expr integerProduct(Expr a, Expr aZero, Expr b, Expr bZero) {
  if (a.rank() < 2 || b.rank() < 2) return matmul(withoutZero(a, aZero), withoutZero(b, bZero));
  if (b.dtype() == DType::U8) {
    b = (b.as(DType::I32) - 128.0).as(DType::I8);
    bZero = bZero.valid() ? bZero - 128.0 : filled(b.builder(), DType::I32, {}, -128);
  }
  const auto last = [](Expr x, int64_t back) { return static_cast<int64_t>(x.rank()) - back; };
  Expr y = matmul(a.as(DType::I32), b.as(DType::I32));
  if (aZero.valid()) y = y - aZero * sum(b.as(DType::I32), {.dims = {last(b, 2)}, .keepdim = true});
  if (bZero.valid()) y = y - bZero * sum(withoutZero(a, aZero), {.dims = {last(a, 1)}, .keepdim = true});
  return y;
}

ImportResults matMulInteger(OnnxContext& c) {
  return integerProduct(c.in(0), ofRows(zeroPoint(c, 2)), c.in(1), zeroPoint(c, 3));
}

ImportResults qLinearMatMul(OnnxContext& c) {
  const Expr product = integerProduct(c.in(0), ofRows(zeroPoint(c, 2)), c.in(3), zeroPoint(c, 5));
  const Expr scale = ofRows(c.in(1)).as(DType::F32) * c.in(4).as(DType::F32) / c.in(6).as(DType::F32);
  c.setElement(0, c.element(7));
  return saturated(c, product.as(DType::F32) * scale, c.in(7), c.element(7));
}

// A value per output channel, dim 1 of the result and dim 0 of weights.
Expr ofChannels(Expr v, size_t rank, size_t at) {
  if (v.rank() == 0) return v;
  Dims dims(rank, Dim(1));
  dims[at] = v.dims().at(0);
  return reshapeTo(v, dims);
}

Expr integerConv(OnnxContext& c, Expr x, Expr xZero, Expr w, Expr wZero, Expr bias) {
  const Expr zero = wZero.valid() ? ofChannels(wZero, w.rank(), 0) : Expr();
  const Expr scalar = xZero.valid() ? reshapeTo(xZero, {}) : Expr();
  return convolved(c, withoutZero(x, scalar), withoutZero(w, zero), bias);
}

ImportResults convInteger(OnnxContext& c) {
  return integerConv(c, c.in(0), c.optional(2), c.in(1), c.optional(3), {});
}

// The largest magnitude of a byte less its zero point.
int64_t magnitude(Expr x, Expr zero) { return x.dtype() == DType::I8 && !zero.valid() ? 128 : 255; }

// The number of products that are added for one element of the result; nothing if it is symbolic.
std::optional<int64_t> numProducts(Expr w) {
  int64_t count = 1;
  for (size_t d = 1; d < w.rank(); ++d) {
    const Dim size = w.dims().at(d);
    const auto product = size.isStatic() ? checkedMul(count, size.value()) : std::nullopt;
    if (!product) return std::nullopt;
    count = *product;
  }
  return count;
}

// A convolution of bytes as one or two of f32, for which there are libraries. Sums of integers up to 2^24 are exact
// in f32; for larger ones weights are split into multiples of 16 and a rest of at most 8. Not valid: the sums are too
// large for that.
Expr exactConv(OnnxContext& c, Expr x, Expr xZero, Expr w, Expr wZero) {
  constexpr int64_t kExact = 1 << 24, kStep = 16;
  const std::optional<int64_t> count = numProducts(w);
  const int64_t ofX = magnitude(x, xZero), ofW = magnitude(w, wZero);
  const auto exact = [&](int64_t largest) { return count && *count <= kExact / (ofX * largest); };
  if (!exact((ofW + kStep - 1) / kStep)) return {};
  const Expr a = withoutZero(x, xZero).as(DType::F32), b = withoutZero(w, wZero).as(DType::F32);
  const auto sums = [&](Expr weights) { return convolved(c, a, weights, {}).as(DType::I32); };
  if (exact(ofW)) return sums(b);
  constexpr double kSize = kStep;
  const Expr steps = round(b / kSize);
  return sums(steps) * kSize + sums(b - steps * kSize);
}

// The convolution, as i32, with the bias.
Expr quantizedConv(OnnxContext& c, Expr x, Expr w) {
  const auto isByte = [](Expr e) { return e.dtype() == DType::I8 || e.dtype() == DType::U8; };
  const Expr xZero = zeroPoint(c, 2), wZero = zeroPoint(c, 5), bias = c.optional(8);
  const Expr zero = wZero.valid() ? ofChannels(wZero, w.rank(), 0) : Expr();
  const Expr scalar = xZero.valid() ? reshapeTo(xZero, {}) : Expr();
  const Expr y = isByte(x) && isByte(w) ? exactConv(c, x, scalar, w, zero) : Expr();
  if (!y.valid()) return integerConv(c, x, c.in(2), w, c.in(5), bias);
  return bias.valid() ? y + ofChannels(bias, x.rank(), 1) : y;
}

ImportResults qLinearConv(OnnxContext& c) {
  const Expr x = c.in(0), w = c.in(3);
  const Expr sums = quantizedConv(c, x, w);
  const Expr scale = reshapeTo(c.in(1), {}) * ofChannels(c.in(4), x.rank(), 1) / reshapeTo(c.in(6), {});
  c.setElement(0, c.element(7));
  return saturated(c, sums.as(DType::F32) * scale, reshapeTo(c.in(7), {}), c.element(7));
}

constexpr OnnxRow kQuantizeRows[] = {
    {"QuantizeLinear", quantize, 10},
    {"DequantizeLinear", dequantize, 10},
    {"DynamicQuantizeLinear", dynamicQuantize, 11},
    {"MatMulInteger", matMulInteger, 10},
    {"QLinearMatMul", qLinearMatMul, 10},
    {"ConvInteger", convInteger, 10},
    {"QLinearConv", qLinearConv, 10},
};

} // namespace

std::span<const OnnxRow> quantizeRows() { return kQuantizeRows; }

} // namespace dtc::onnx
