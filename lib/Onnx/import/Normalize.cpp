// Softmax and norms.
#include "import/OnnxContext.h"

namespace dtc::onnx {

namespace {

int64_t axisOf(OnnxContext& c, int64_t fallback = -1) {
  return c.dim(c.integer("axis", fallback), c.in(0).rank());
}

// Before opset 13: over all dims from the axis on.
std::vector<int64_t> softmaxDims(OnnxContext& c) {
  if (c.opset() >= 13) return {axisOf(c)};
  return allDims(c.in(0).rank(), static_cast<size_t>(axisOf(c, 1)));
}

ImportResults softmaxRow(OnnxContext& c) { return softmax(c.in(0), softmaxDims(c)); }
ImportResults logSoftmaxRow(OnnxContext& c) { return log_softmax(c.in(0), softmaxDims(c)); }

// 1 at the first maximum.
ImportResults hardmax(OnnxContext& c) {
  const Expr x = c.in(0);
  const int64_t axis = axisOf(c);
  const Expr at = argmax(x, {.dim = axis, .keepdim = true});
  return eq(iota(c.b, checkedType(c.b, at.dtype(), x.dims()), {.dim = axis}), at).as(x.dtype());
}

// The dtype of statistics: `stash_type`.
Expr stashed(OnnxContext& c, Expr x) {
  return c.has("stash_type") || c.integer("stash_type", 1) ? x.as(c.heldBy(c.integer("stash_type", 1))) : x;
}

std::vector<int64_t> dimsFrom(Expr x, int64_t axis) { return allDims(x.rank(), static_cast<size_t>(axis)); }

ImportResults layerNorm(OnnxContext& c) {
  const Expr x = c.in(0);
  const std::vector<int64_t> dims = dimsFrom(x, axisOf(c));
  const double eps = c.real("epsilon", 9.999999747378752e-06);
  const Expr wide = stashed(c, x);
  if (!c.wants(1) && !c.wants(2)) {
    if (x.dtype() != wide.dtype() || c.in(1).rank() != dims.size()) {
      Expr y = layer_norm(wide, {.dims = dims, .eps = eps}).as(x.dtype()) * c.in(1);
      return c.has(2) ? y + c.in(2) : y;
    }
    return layer_norm(x,
                      {.weight = c.in(1), .bias = c.has(2) ? Arg(c.in(2)) : Arg(), .dims = dims, .eps = eps});
  }
  const Expr average = mean(wide, {.dims = dims, .keepdim = true});
  const Expr deviation = wide - average;
  const Expr inverse = rsqrt(mean(square(deviation), {.dims = dims, .keepdim = true}) + eps);
  Expr y = (deviation * inverse).as(x.dtype()) * c.in(1);
  if (c.has(2)) y = y + c.in(2);
  return {y, average, inverse};
}

ImportResults rmsNorm(OnnxContext& c) {
  const Expr x = c.in(0), scale = c.in(1);
  const std::vector<int64_t> dims = dimsFrom(x, axisOf(c));
  const double eps = c.real("epsilon", 9.999999747378752e-06);
  const Expr wide = stashed(c, x);
  if (wide.dtype() == x.dtype() && scale.dtype() == x.dtype() && scale.rank() == dims.size())
    return rms_norm(x, {.weight = scale, .dims = dims, .eps = eps});
  return rms_norm(wide, {.dims = dims, .eps = eps}).as(scale.dtype()) * scale;
}

// A value per channel, to be broadcast against x [n, c, …].
Expr perChannel(OnnxContext& c, Expr v, Expr x) {
  Dims dims(x.rank() - 1, Dim(1));
  dims[0] = v.rank() ? v.dims().at(0) : Dim(1);
  (void)c;
  return reshapeTo(v, dims);
}

Expr asImages(OnnxContext& c, Expr x) {
  if (x.rank() < 2) c.fail("has an operand that is not [n, channels, …]");
  return x;
}

ImportResults groupNorm(OnnxContext& c) {
  const Expr x = asImages(c, c.in(0));
  const int64_t groups = c.integer("num_groups");
  const double eps = c.real("epsilon", 9.999999747378752e-06);
  Expr wide = c.opset() >= 21 ? stashed(c, x) : x;
  Expr scale = c.in(1), bias = c.in(2);
  if (c.opset() < 21) { // one number per group
    const auto each = c.module.dims.divExact(x.dims().at(1), groups);
    if (!each) c.fail("has channels that the number of groups does not divide");
    const auto spread = [&](Expr v) {
      return reshapeTo(broadcastTo(withDim(v, 1), {groups, *each}), {x.dims().at(1)});
    };
    scale = spread(scale), bias = spread(bias);
  }
  if (wide.dtype() == x.dtype() && x.dtype() == scale.dtype())
    return group_norm(x, {.weight = scale, .bias = bias, .num_groups = groups, .eps = eps});
  const Expr y = group_norm(wide, {.num_groups = groups, .eps = eps}).as(x.dtype());
  return y * perChannel(c, scale, x) + perChannel(c, bias, x);
}

ImportResults instanceNorm(OnnxContext& c) {
  const Expr x = asImages(c, c.in(0));
  return group_norm(x, {.weight = c.in(1),
                        .bias = c.in(2),
                        .num_groups = x.dims().at(1),
                        .eps = c.real("epsilon", 9.999999747378752e-06)});
}

ImportResults batchNorm(OnnxContext& c) {
  const Expr x = asImages(c, c.in(0));
  const double eps = c.real("epsilon", 9.999999747378752e-06);
  const DType stats = c.in(3).dtype();
  const Expr wide = x.as(stats), scale = c.in(1).as(stats), bias = c.in(2).as(stats), average = c.in(3),
             variance = c.in(4);
  if (!c.integer("training_mode", 0)) {
    const auto [y, m, v] =
        batch_norm(wide, {.weight = scale, .bias = bias, .mean = average, .var = variance, .eps = eps});
    return y.as(x.dtype());
  }
  const auto [y, m, v] = batch_norm(wide, {.weight = scale, .bias = bias, .training = true, .eps = eps});
  const double momentum = c.real("momentum", 0.9);
  return {y.as(x.dtype()), average * momentum + m * (1 - momentum), variance * momentum + v * (1 - momentum)};
}

ImportResults lpNormalize(OnnxContext& c) {
  const Expr x = c.in(0);
  const int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) c.fail("has an order that is neither 1 nor 2");
  const Expr size = norm(x, {.dims = {axisOf(c)}, .keepdim = true, .p = static_cast<double>(p)});
  return select(eq(size, 0.0), 0.0, x / size);
}

ImportResults meanVariance(OnnxContext& c) {
  const Expr x = c.in(0);
  const auto dims = dimsOf(c.b, c.ints("axes", {0, 2, 3}), x.rank());
  const Expr average = mean(x, {.dims = dims, .keepdim = true});
  const Expr variance = mean(square(x), {.dims = dims, .keepdim = true}) - square(average);
  return (x - average) / (sqrt(variance) + 1e-9);
}

// Over windows of channels.
ImportResults lrn(OnnxContext& c) {
  const Expr x = asImages(c, c.in(0));
  const int64_t size = c.integer("size");
  if (size < 1) c.fail("has a size below 1");
  const double alpha = c.real("alpha", 9.999999747378752e-05), beta = c.real("beta", 0.75),
               bias = c.real("bias", 1.0);
  // As pooling: channels are the spatial dim.
  Dims flat{x.dims().at(0), x.dims().at(1), elementsOf(c.b, {x.dims().begin() + 2, x.dims().end()})};
  const Expr squares = swapped(reshapeTo(square(x), flat), 1, 2);
  const std::vector<int64_t> pads{(size - 1) / 2, size / 2};
  const AttrId padding = c.module.attrs.list({c.b.ints(pads)});
  const Expr means = avg_pool(squares, {.window = {size}, .stride = {1}, .padding = padding});
  const Expr sums = reshapeTo(swapped(means, 1, 2), x.dims()) * static_cast<double>(size);
  return x / pow(sums * (alpha / static_cast<double>(size)) + bias, filled(c.b, x.dtype(), {}, beta));
}

constexpr OnnxRow kNormalizeRows[] = {
    {"Softmax", softmaxRow, 1},
    {"LogSoftmax", logSoftmaxRow, 1},
    {"Hardmax", hardmax},
    {"LayerNormalization", layerNorm},
    {"RMSNormalization", rmsNorm},
    {"GroupNormalization", groupNorm},
    {"InstanceNormalization", instanceNorm, 6},
    {"BatchNormalization", batchNorm, 6},
    {"LpNormalization", lpNormalize, 1},
    {"MeanVarianceNormalization", meanVariance, 9},
    {"LRN", lrn, 1},
};

} // namespace

std::span<const OnnxRow> normalizeRows() { return kNormalizeRows; }

} // namespace dtc::onnx
