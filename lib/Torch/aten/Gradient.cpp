// The ops of backward graphs.
#include "aten/Aten.h"
#include "aten/Backward.h"
#include "aten/Table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace dtc {
namespace aten::gradients {
namespace {

Expr gradient(ImportContext& c) {
  return c.tensor(c.has("grad_output") ? "grad_output" : c.has("grad_out") ? "grad_out" : "grad");
}

// --- elementwise ---

// dy times the conjugate of a holomorphic function's derivative.
Expr through(Expr dy, Expr derivative) {
  return dy * (isComplex(derivative.dtype()) ? ops::conj(derivative) : derivative);
}

ImportResults tanhBackward(ImportContext& c) {
  const Expr y = c.tensor("output");
  return through(gradient(c), 1.0 - ops::square(y));
}

ImportResults sigmoidBackward(ImportContext& c) {
  const Expr y = c.tensor("output");
  return through(gradient(c), (1.0 - y) * y);
}

// Kinks and NaN are as in PyTorch: the derivative at a kink is that of one side, and that of NaN is dy wherever
// no comparison holds.
ImportResults thresholdBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), dy = gradient(c);
  return ops::select(x <= in(c, "threshold", x.dtype()), 0.0, dy);
}

ImportResults leakyReluBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), dy = gradient(c);
  return ops::select(x > 0.0, dy, dy * c.real("negative_slope"));
}

ImportResults hardtanhBackward(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Expr outside = (x <= x.literal(c.real("min_val"))) | (x >= x.literal(c.real("max_val")));
  return ops::select(outside, 0.0, gradient(c));
}

ImportResults hardsigmoidBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), inside = (x > -3.0) & (x < 3.0);
  return ops::select(inside, gradient(c) / 6.0, 0.0);
}

ImportResults hardswishBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), dy = gradient(c);
  const Expr middle = dy * (x / 3.0 + 0.5);
  const Expr above = ops::select(x < 3.0, middle, dy);
  return ops::select(x <= -3.0, 0.0, above);
}

ImportResults siluBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), s = ops::sigmoid(x);
  return gradient(c) * (s * ((1.0 - s) * x + 1.0));
}

ImportResults softplusBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), dy = gradient(c), scaled = x * c.real("beta");
  return ops::select(scaled > scaled.literal(c.real("threshold")), dy, dy * ops::sigmoid(scaled));
}

ImportResults eluBackward(ImportContext& c) {
  const double alpha = c.real("alpha"), scale = c.real("scale"), input = c.real("input_scale");
  const Expr x = c.tensor("self_or_result"), dy = gradient(c);
  const Expr tail = c.flag("is_result", false) ? x + alpha * scale : ops::exp(x * input) * (alpha * scale);
  return ops::select(x <= 0.0, dy * tail * input, dy * scale);
}

ImportResults geluBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), dy = gradient(c);
  if (c.text("approximate", "none") == "tanh") {
    constexpr double k = 0.79788456080286535588, cubic = 0.044715;
    const Expr square = ops::square(x), t = ops::tanh(x * (square * cubic + 1.0) * k);
    const Expr slope = (square * (3 * cubic) + 1.0) * k;
    return dy * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - ops::square(t)) * slope);
  }
  const Expr cdf = (ops::erf(x * (std::numbers::sqrt2 / 2)) + 1.0) * 0.5;
  const Expr density = ops::exp(ops::square(x) * -0.5) * (1 / std::sqrt(2 * std::numbers::pi));
  return dy * (cdf + x * density);
}

ImportResults logSigmoidBackward(ImportContext& c) {
  const Expr x = c.tensor("self");
  return gradient(c) * ops::sigmoid(-x);
}

// 1, or 1 over the number of elements of a mean.
double meanFactor(ImportContext& c, const Dims& dims) {
  if (c.integer("reduction") != 1) return 1;
  return 1 / static_cast<double>(staticDims(c.b, {elementsOf(c.b, dims)})[0]);
}

ImportResults mseBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), difference = x - c.tensor("target");
  return gradient(c) * difference * (2 * meanFactor(c, difference.dims()));
}

// Linear for |x - target| >= beta.
ImportResults smoothL1Backward(ImportContext& c) {
  const Expr x = c.tensor("self"), away = x - c.tensor("target");
  const Expr dy = broadcastTo(gradient(c) * meanFactor(c, away.dims()), away.dims());
  const double beta = c.real("beta", 1);
  const Expr below = away <= away.literal(-beta), above = away >= away.literal(beta);
  const Expr inner = beta == 0 ? away * dy : away * dy / beta;
  return ops::select(below, -dy, ops::select(above, dy, inner));
}

ImportResults logitBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), dy = gradient(c);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const bool clamped = c.has("eps");
  const double low = clamped ? c.real("eps") : 0;
  const Expr outside = (x < x.literal(low)) | (x > x.literal(1 - low));
  return ops::select(outside, clamped ? 0.0 : nan, dy / (x * (1.0 - x)));
}

// --- reductions ---

ImportResults softmaxBackward(ImportContext& c) {
  const Expr dy = gradient(c), y = c.tensor("output"), product = dy * y;
  if (y.rank() == 0) return product * 0.0;
  const std::vector<int64_t> d{aten::dim(c, "dim", y.rank())};
  return product - y * ops::sum(product, {.dims = d, .keepdim = true});
}

ImportResults logSoftmaxBackward(ImportContext& c) {
  const Expr dy = gradient(c), y = c.tensor("output");
  if (y.rank() == 0) return dy * 0.0;
  const std::vector<int64_t> d{aten::dim(c, "dim", y.rank())};
  const Expr total = ops::sum(dy, {.dims = d, .keepdim = true});
  return dy - ops::exp(y) * total;
}

ImportResults nllBackward(ImportContext& c) {
  const Expr x = c.tensor("self"), dy = gradient(c);
  const Expr wide = x.rank() == 1 ? withDim(x, 0) : x;
  const Dims rest(wide.dims().begin() + 2, wide.dims().end());
  const Dim n = wide.dims().at(0), classes = wide.dims().at(1), places = elementsOf(c.b, rest);
  const Expr labels = reshapeTo(c.tensor("target"), {n, places}).as(DType::I32);
  const Expr counted = ops::ne(labels, c.integer("ignore_index", -100));
  Expr weight = counted.as(x.dtype());
  const Expr safe = ops::select(counted, labels, 0);
  if (c.has("weight")) {
    const Expr flat = reshapeTo(safe, {elementsOf(c.b, safe.dims())});
    weight = weight * reshapeTo(ops::index_select(c.tensor("weight"), flat, {.dim = 0}), safe.dims());
  }
  const int64_t reduction = c.integer("reduction");
  Expr scale = -weight;
  if (reduction == 1) scale = scale / reshapeTo(c.tensor("total_weight"), {});
  scale = reduction == 0 ? scale * reshapeTo(dy, {n, places}) : scale * reshapeTo(dy, {});
  scale = ops::select(counted, scale, 0.0); // also where none counts, and the mean is NaN
  const Expr hot = ops::one_hot(safe, {.depth = classes, .dtype = x.dtype()}); // [n, places, classes]
  const Expr y = swapped(hot * withDim(scale, 2), 1, 2);
  return reshapeTo(y, x.dims());
}

// --- normalization ---

Expr statistic(ImportContext& c, const char* name) { return normOperand(c, c.tensor(name)); }

ImportResults layerNormBackward(ImportContext& c) {
  const Expr dy = normOperand(c, gradient(c)), x = normOperand(c, c.tensor("input"));
  const Expr weight = c.has("weight") ? statistic(c, "weight") : Expr();
  const size_t lead = x.rank() - c.sizes("normalized_shape").size();
  const std::vector<int64_t> inner = allDims(x.rank(), lead), outer = allDims(lead);
  const Expr away = (x - statistic(c, "mean")) * statistic(c, "rstd");
  const Expr g = weight.valid() ? dy * weight : dy;
  const Expr a = ops::mean(g, {.dims = inner, .keepdim = true}),
             b = ops::mean(g * away, {.dims = inner, .keepdim = true});
  const auto summed = [&](Expr e) { return outer.empty() ? e : ops::sum(e, {.dims = outer}); };
  std::vector<Expr> out(3);
  out[0] = (g - a - away * b) * statistic(c, "rstd");
  if (wants(c, 1)) out[1] = summed(dy * away);
  if (wants(c, 2)) out[2] = summed(dy);
  return out;
}

ImportResults batchNormBackward(ImportContext& c) {
  const Expr dy = normOperand(c, gradient(c)), x = normOperand(c, c.tensor("input"));
  const Expr weight = c.has("weight") ? statistic(c, "weight") : Expr();
  const bool training = c.flag(c.has("train") ? "train" : "update", true);
  const double eps = c.real("eps", 1e-5);
  std::vector<int64_t> over = allDims(x.rank());
  over.erase(over.begin() + 1);
  Dims channel(x.rank(), Dim(1));
  channel.at(1) = x.dims().at(1);
  const auto wide = [&](Expr v) { return reshapeTo(v, channel); };
  const Expr mean = wide(training ? statistic(c, "save_mean") : statistic(c, "running_mean"));
  const Expr inverse = wide(training ? statistic(c, c.has("save_invstd") ? "save_invstd" : "save_var")
                                     : ops::rsqrt(statistic(c, "running_var") + eps));
  const Expr away = (x - mean) * inverse;
  const Expr sum = ops::sum(dy, {.dims = over}), product = ops::sum(dy * away, {.dims = over});
  const Expr scale = weight.valid() ? wide(weight) * inverse : inverse;
  std::vector<Expr> out(3);
  if (training) {
    const auto n = static_cast<double>(countOf(c, x, over));
    out[0] = (dy - wide(sum) / n - away * (wide(product) / n)) * scale;
  } else {
    out[0] = dy * scale;
  }
  out[1] = product, out[2] = sum;
  return out;
}

ImportResults groupNormBackward(ImportContext& c) {
  const Expr dy = normOperand(c, gradient(c)), x = normOperand(c, c.tensor("input"));
  const Expr weight = c.has("weight") ? statistic(c, "weight") : Expr();
  const Dim n = x.dims().at(0), channels = x.dims().at(1), groups = c.integer("group");
  const auto each = c.module.dims.divExact(channels, groups);
  if (!each) c.fail("has channels that do not divide into its groups");
  const Dim rest = elementsOf(c.b, Dims(x.dims().begin() + 2, x.dims().end()));
  const auto grouped = [&](Expr e) { return reshapeTo(e, {n, groups, *each, rest}); };
  const auto perGroup = [&](const char* key) { return reshapeTo(statistic(c, key), {n, groups, 1, 1}); };
  const Expr g = grouped(dy), inverse = perGroup("rstd");
  const Expr away = (grouped(x) - perGroup("mean")) * inverse;
  const Expr scaled = weight.valid() ? g * reshapeTo(weight, {1, groups, *each, 1}) : g;
  const std::vector<int64_t> inner{2, 3}, outer{0, 3};
  const Expr a = ops::mean(scaled, {.dims = inner, .keepdim = true}),
             b = ops::mean(scaled * away, {.dims = inner, .keepdim = true});
  std::vector<Expr> out(3);
  out[0] = reshapeTo((scaled - a - away * b) * inverse, x.dims());
  if (wants(c, 1)) out[1] = reshapeTo(ops::sum(g * away, {.dims = outer}), {channels});
  if (wants(c, 2)) out[2] = reshapeTo(ops::sum(g, {.dims = outer}), {channels});
  return out;
}

// --- convolutions ---

struct Window {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
};

std::vector<int64_t> spatial(ImportContext& c, Expr x) {
  return staticDims(c.b, Dims(x.dims().begin() + 2, x.dims().end()));
}

// The gradient of the weight of conv(x, w) with the gradient g of its result: a convolution of x with g, whose
// batch and channels are exchanged.
Expr weightGradient(ImportContext& c, Expr x, Expr g, const Window& w, const std::vector<int64_t>& kernel) {
  const Dim n = x.dims().at(0), channels = x.dims().at(1);
  const auto each = c.module.dims.divExact(channels, w.groups);
  if (!each) c.fail("has channels that do not divide into its groups");
  Dims split = x.dims(), joined = x.dims();
  split[1] = w.groups, split.insert(split.begin() + 2, *each);
  joined[0] = *each;
  const auto inputs = c.module.dims.mul(n, w.groups);
  if (!inputs) c.fail("is too large");
  joined[1] = *inputs;
  std::vector<int64_t> perm = allDims(split.size()); // [each, groups, n, …]
  perm[0] = 2, perm[1] = 1, perm[2] = 0;
  const Expr operand = reshapeTo(permuted(reshapeTo(x, split), perm), joined);
  Expr y = ops::conv(operand, swapped(g, 0, 1),
                     {.stride = w.dilation,
                      .padding = paddingAttr(c.module, w.padding, w.padding),
                      .dilation = w.stride,
                      .groups = w.groups});
  for (size_t i = 0; i < kernel.size(); ++i) y = sliceOf(y, static_cast<int64_t>(i + 2), 0, kernel[i]);
  return swapped(y, 0, 1);
}

ImportResults convolutionBackward(ImportContext& c) {
  const Expr g = gradient(c), x = c.tensor("input"), weight = c.tensor("weight");
  const size_t k = weight.rank() - 2;
  if (weight.rank() < 3 || x.rank() != weight.rank()) c.fail("has operands of other ranks");
  const Window w{perDim(c, "stride", k), perDim(c, "padding", k), perDim(c, "dilation", k),
                 c.integer("groups", 1)};
  const bool transposed = c.flag("transposed", false);
  const std::vector<int64_t> kernel = spatial(c, weight), in = spatial(c, x), out = spatial(c, g);
  std::vector<Expr> results(3);
  if (wants(c, 0)) {
    ops::ConvArgs args{.stride = w.stride,
                       .padding = paddingAttr(c.module, w.padding, w.padding),
                       .dilation = w.dilation,
                       .groups = w.groups};
    std::vector<int64_t> extra;
    for (size_t i = 0; i < k; ++i)
      extra.push_back(in[i] -
                      ((out[i] - 1) * w.stride[i] - 2 * w.padding[i] + w.dilation[i] * (kernel[i] - 1) + 1));
    if (!transposed) args.transposed = true, args.output_padding = extra;
    Expr y = ops::conv(g, weight, args);
    for (size_t i = 0; i < k; ++i) y = sliceOf(y, static_cast<int64_t>(i + 2), 0, in[i]); // (output_padding)
    results[0] = y;
  }
  if (wants(c, 1))
    results[1] = transposed ? weightGradient(c, g, x, w, kernel) : weightGradient(c, x, g, w, kernel);
  if (wants(c, 2)) {
    std::vector<int64_t> over = allDims(g.rank());
    over.erase(over.begin() + 1);
    results[2] = ops::sum(g, {.dims = over});
  }
  return results;
}

// --- pooling ---

// Each gradient goes to the element that was the maximum.
ImportResults maxPoolBackward(ImportContext& c) {
  const Expr g = gradient(c), x = c.tensor("self");
  const size_t k = c.node.target.find("3d") != std::string::npos ? 3 : 2;
  if (x.rank() < k || g.rank() < k) c.fail("has an operand of rank " + std::to_string(x.rank()));
  const auto tail = [&](Expr e) {
    return elementsOf(c.b, Dims(e.dims().end() - static_cast<std::ptrdiff_t>(k), e.dims().end()));
  };
  const Dim rows = elementsOf(c.b, Dims(x.dims().begin(), x.dims().end() - static_cast<std::ptrdiff_t>(k)));
  const Expr at = reshapeTo(c.tensor("indices").as(DType::I32), {rows, tail(g)});
  const Expr zero = filled(c.b, g.dtype(), {rows, tail(x)}, 0);
  return reshapeTo(ops::scatter(zero, at, reshapeTo(g, {rows, tail(g)}), {.dim = 1, .reduce = "sum"}),
                   x.dims());
}

// Sums along each dim with the averages' weights.
ImportResults adaptiveAvgBackward(ImportContext& c) {
  const Expr g = gradient(c), x = c.tensor("self");
  const size_t k = c.node.target.find("3d") != std::string::npos ? 3 : 2;
  Expr y = g;
  for (size_t i = 0; i < k; ++i) {
    const size_t d = x.rank() - k + i;
    const int64_t n = staticDims(c.b, {x.dims().at(d)})[0], o = staticDims(c.b, {g.dims().at(d)})[0];
    constexpr int64_t kMost = 1 << 24;
    if (n < 1 || o < 1 || n > kMost / o) c.fail("pools an empty dim, or has too many windows");
    Tensor w(DType::F32, {o, n});
    for (int64_t r = 0; r < o; ++r) {
      const int64_t first = r * n / o, last = ((r + 1) * n + o - 1) / o;
      for (int64_t q = first; q < last; ++q) w.setFloat(r * n + q, 1 / static_cast<double>(last - first));
    }
    const auto at = static_cast<int64_t>(d), end = static_cast<int64_t>(y.rank()) - 1;
    y = moved(ops::matmul(moved(y, at, end), constantOf(c.b, w).as(y.dtype())), end, at);
  }
  return y;
}

// --- data movement ---

ImportResults embeddingBackward(ImportContext& c) {
  const Expr g = gradient(c), index = c.tensor("indices").as(DType::I32);
  const Dim rows = elementsOf(c.b, index.dims()), width = g.dims().back();
  const int64_t padding = c.integer("padding_idx", -1);
  const Expr at = reshapeTo(index, {rows, 1});
  Expr u = reshapeTo(g, {rows, width});
  if (padding >= 0) u = ops::select(ops::ne(at, padding), u, 0.0);
  const Dim tableRows = c.size(c.sizes("num_weights").at(0));
  if (c.flag("scale_grad_by_freq", false)) {
    const Expr own = withDim(occurrences(reshapeTo(index, {rows}), tableRows), 1);
    u = (u.as(accumulationType(u.dtype())) / own.as(accumulationType(u.dtype()))).as(g.dtype());
  }
  const Expr zero = filled(c.b, g.dtype(), {tableRows, width}, 0);
  const std::vector<int64_t> one{1}, first{0};
  return ops::scatter_slices(zero, at, u, ops::Values({}),
                             {.update_window_dims = one,
                              .inserted_window_dims = first,
                              .scatter_dims_to_operand_dims = first,
                              .index_vector_dim = 1,
                              .reduce = "sum"});
}

ImportResults sliceBackward(ImportContext& c) {
  const Expr g = gradient(c);
  const Dims out = resultDims(c);
  const int64_t d = aten::dim(c, "dim", out.size()), step = c.integer("step", 1);
  const int64_t n = staticDims(c.b, {out.at(static_cast<size_t>(d))})[0],
                k = staticDims(c.b, {g.dims().at(static_cast<size_t>(d))})[0];
  int64_t start = c.integer("start", 0);
  start = std::clamp<int64_t>(start < 0 ? start + n : start, 0, n);
  if (k == 0) return filled(c.b, g.dtype(), out, 0);
  std::vector<int64_t> low(out.size(), 0), high(out.size(), 0), interior(out.size(), 0);
  low[static_cast<size_t>(d)] = start;
  interior[static_cast<size_t>(d)] = step - 1;
  high[static_cast<size_t>(d)] = n - start - ((k - 1) * step + 1);
  return ops::pad(g, {.value = c.literal(0.0, g.dtype()), .low = low, .high = high, .interior = interior});
}

ImportResults selectBackward(ImportContext& c) {
  const Expr given = gradient(c);
  const Dims out = resultDims(c);
  const int64_t d = aten::dim(c, "dim", out.size());
  const int64_t n = staticDims(c.b, {out.at(static_cast<size_t>(d))})[0], i = c.integer("index");
  std::vector<int64_t> low(out.size(), 0), high(out.size(), 0);
  low[static_cast<size_t>(d)] = i < 0 ? i + n : i;
  high[static_cast<size_t>(d)] = n - 1 - low[static_cast<size_t>(d)];
  return ops::pad(withDim(given, d), {.value = c.literal(0.0, given.dtype()), .low = low, .high = high});
}

const ImportRow kRows[] = {
    {"aten.tanh_backward", tanhBackward},
    {"aten.sigmoid_backward", sigmoidBackward},
    {"aten.threshold_backward", thresholdBackward},
    {"aten.leaky_relu_backward", leakyReluBackward},
    {"aten.hardtanh_backward", hardtanhBackward},
    {"aten.hardsigmoid_backward", hardsigmoidBackward},
    {"aten.hardswish_backward", hardswishBackward},
    {"aten.silu_backward", siluBackward},
    {"aten.softplus_backward", softplusBackward},
    {"aten.elu_backward", eluBackward},
    {"aten.gelu_backward", geluBackward},
    {"aten.log_sigmoid_backward", logSigmoidBackward},
    {"aten.mse_loss_backward", mseBackward},
    {"aten.smooth_l1_loss_backward", smoothL1Backward},
    {"aten.logit_backward", logitBackward},
    {"aten._softmax_backward_data", softmaxBackward},
    {"aten._log_softmax_backward_data", logSoftmaxBackward},
    {"aten.nll_loss_backward", nllBackward},
    {"aten.nll_loss2d_backward", nllBackward},
    {"aten.native_layer_norm_backward", normRow<layerNormBackward>},
    {"aten.native_batch_norm_backward", normRow<batchNormBackward>},
    {"aten.batch_norm_backward", normRow<batchNormBackward>},
    {"aten.native_group_norm_backward", normRow<groupNormBackward>},
    {"aten.convolution_backward", convolutionBackward},
    {"aten.max_pool2d_with_indices_backward", maxPoolBackward},
    {"aten.max_pool3d_with_indices_backward", maxPoolBackward},
    {"aten.adaptive_max_pool2d_backward", maxPoolBackward},
    {"aten.adaptive_max_pool3d_backward", maxPoolBackward},
    {"aten.fractional_max_pool2d_backward", maxPoolBackward},
    {"aten.fractional_max_pool3d_backward", maxPoolBackward},
    {"aten._adaptive_avg_pool2d_backward", adaptiveAvgBackward},
    {"aten._adaptive_avg_pool3d_backward", adaptiveAvgBackward},
    {"aten.embedding_dense_backward", embeddingBackward},
    {"aten.slice_backward", sliceBackward},
    {"aten.select_backward", selectBackward},
};

} // namespace
} // namespace aten::gradients

ImportRows torchGradientRows() { return aten::gradients::kRows; }

} // namespace dtc
