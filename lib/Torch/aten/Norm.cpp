// Normalization.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <limits>

namespace dtc {
namespace aten::norms {
namespace {

double epsilonOf(DType d) {
  return d == DType::F64    ? std::numeric_limits<double>::epsilon()
         : d == DType::BF16 ? 0x1p-7
         : d == DType::F16  ? 0x1p-10
                            : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// y * weight + bias, each alone, too.
Expr affine(Expr y, Expr weight, Expr bias) {
  if (weight.valid()) y = y * weight;
  return bias.valid() ? y + bias : y;
}

std::vector<int64_t> normalizedDims(ImportContext& c, Expr x) {
  const size_t k = c.sizes("normalized_shape").size();
  if (k > x.rank() || k == 0) c.fail("normalizes more dims than its operand has");
  return allDims(x.rank(), x.rank() - k);
}

ImportResults layerNorm(ImportContext& c) {
  const Expr x = normOperand(c, c.tensor("input")), weight = c.optional("weight"), bias = c.optional("bias");
  const std::vector<int64_t> d = normalizedDims(c, x);
  const double eps = c.real("eps", 1e-5);
  Expr y;
  if (bias.valid() && !weight.valid())
    y = ops::layer_norm(x, {.dims = d, .eps = eps}) + bias;
  else
    y = ops::layer_norm(x, {.weight = weight, .bias = bias, .dims = d, .eps = eps});
  if (c.node.results.size() < 2) return y;
  const DType wide = c.declared(1) ? c.declared(1)->dtype : x.dtype();
  const Expr mean = ops::mean(x.as(wide), {.dims = d, .keepdim = true});
  const Expr variance = ops::var(x.as(wide), {.dims = d, .keepdim = true, .correction = 0});
  return {y, mean, ops::rsqrt(variance + eps)};
}

ImportResults rmsNorm(ImportContext& c) {
  const Expr x = c.tensor("input"), weight = c.optional("weight");
  const std::vector<int64_t> d = normalizedDims(c, x);
  const double eps = c.has("eps") ? c.real("eps") : epsilonOf(x.dtype());
  if (isComplex(x.dtype())) { // by the mean of x², which is complex, too
    const Expr y = x / ops::sqrt(ops::mean(x * x, {.dims = d, .keepdim = true}) + eps);
    return weight.valid() ? y * weight : y;
  }
  const Expr y = ops::rms_norm(x, {.weight = weight, .dims = d, .eps = eps});
  if (c.node.results.size() < 2) return y;
  const Expr mean = ops::mean(ops::square(x.as(DType::F32)), {.dims = d, .keepdim = true});
  return {y, ops::rsqrt(mean + eps)};
}

ImportResults groupNorm(ImportContext& c) {
  const Expr x = normOperand(c, c.tensor("input")), weight = c.optional("weight"), bias = c.optional("bias");
  const int64_t groups = c.has("num_groups") ? c.integer("num_groups") : c.integer("group");
  const double eps = c.real("eps", 1e-5);
  Expr y;
  if (weight.valid() == bias.valid()) {
    y = ops::group_norm(x, {.weight = weight, .bias = bias, .num_groups = groups, .eps = eps});
  } else {
    Dims channels(x.rank(), Dim(1));
    channels.at(1) = x.dims().at(1);
    const auto wide = [&](Expr v) { return v.valid() ? reshapeTo(v, channels) : v; };
    y = affine(ops::group_norm(x, {.num_groups = groups, .eps = eps}), wide(weight), wide(bias));
  }
  if (c.node.results.size() < 2) return y;
  const auto each =
      c.module.dims.divExact(elementsOf(c.b, Dims(x.dims().begin() + 1, x.dims().end())), groups);
  if (!each) c.fail("has channels that do not divide into its groups");
  const Expr rows = reshapeTo(x, {x.dims().at(0), groups, *each});
  const std::vector<int64_t> last{2};
  const Expr variance = ops::var(rows, {.dims = last, .correction = 0});
  return {y, ops::mean(rows, {.dims = last}), ops::rsqrt(variance + eps)};
}

// Statistics over all dims but the batch and the channels.
ImportResults instanceNorm(ImportContext& c) {
  const Expr x = normOperand(c, c.tensor("input")), weight = c.optional("weight"), bias = c.optional("bias");
  const double eps = c.real("eps", 1e-5);
  Dims channels(x.rank(), Dim(1));
  channels.at(1) = x.dims().at(1);
  const auto wide = [&](Expr v) { return v.valid() ? reshapeTo(v, channels) : v; };
  if (!c.flag("use_input_stats", true)) {
    const Expr scale = ops::rsqrt(wide(c.tensor("running_var")) + eps);
    return affine((x - wide(c.tensor("running_mean"))) * scale, wide(weight), wide(bias));
  }
  const std::vector<int64_t> d = allDims(x.rank(), 2);
  const Expr mean = ops::mean(x, {.dims = d, .keepdim = true});
  const Expr variance = ops::var(x, {.dims = d, .keepdim = true, .correction = 0});
  const Expr y = affine((x - mean) * ops::rsqrt(variance + eps), wide(weight), wide(bias));
  if (c.node.results.size() < 3) return y;
  // makeFunctional's aten.instance_norm.functional: y, running_mean, running_var
  const double momentum = c.real("momentum", 0.1);
  const Dims flat{channels[1]};
  const auto next = [&](const char* name, Expr now) {
    std::vector<int64_t> others = d;
    others.insert(others.begin(), 0);
    const Expr old = c.tensor(name), each = reshapeTo(ops::mean(now, {.dims = others}), flat);
    return old * (1 - momentum) + each.as(old.dtype()) * momentum;
  };
  const Expr unbiased = ops::var(x, {.dims = d, .keepdim = true, .correction = 1});
  return {y, next("running_mean", mean), next("running_var", unbiased)};
}

// --- batch_norm ---

struct Batch {
  Expr y, mean, variance; // of the batch; biased
};

Expr perChannel(Expr v, Expr x) {
  Dims dims(x.rank(), Dim(1));
  dims.at(1) = x.dims().at(1);
  return v.valid() ? reshapeTo(v, dims) : v;
}

Batch trained(ImportContext& c, Expr x, Expr weight, Expr bias, double eps) {
  const bool both = weight.valid() && bias.valid();
  const auto [y, mean, variance] =
      both ? ops::batch_norm(x, {.weight = weight, .bias = bias, .training = true, .eps = eps})
           : ops::batch_norm(x, {.training = true, .eps = eps});
  (void)c;
  return {both ? y : affine(y, perChannel(weight, x), perChannel(bias, x)), mean, variance};
}

Expr evaluated(ImportContext& c, Expr x, Expr weight, Expr bias, double eps) {
  Expr mean = c.tensor("running_mean"), variance = c.tensor("running_var");
  if (weight.valid() && bias.valid())
    return ops::batch_norm(x, {.weight = weight, .bias = bias, .mean = mean, .var = variance, .eps = eps})[0];
  const Expr scale = ops::rsqrt(variance + eps);
  const Expr y = (x - perChannel(mean, x)) * perChannel(scale, x);
  return affine(y, perChannel(weight, x), perChannel(bias, x));
}

// The next running statistics; that of the variance is unbiased.
std::array<Expr, 2> running(ImportContext& c, Expr x, const Batch& batch) {
  const ArgumentKey share = c.has("exponential_average_factor") ? "exponential_average_factor" : "momentum";
  const double momentum = c.real(share, 0.1);
  Dims counted = x.dims();
  counted.erase(counted.begin() + 1);
  const auto n = static_cast<double>(staticDims(c.b, {elementsOf(c.b, counted)})[0]);
  const auto next = [&](Expr old, Expr now) {
    const Expr kept = old * (1 - momentum);
    return kept + now.as(old.dtype()) * momentum;
  };
  const Expr unbiased = batch.variance * (n > 1 ? n / (n - 1) : 1);
  const Expr mean = next(c.tensor("running_mean"), batch.mean);
  return {mean, next(c.tensor("running_var"), unbiased)};
}

// The op in its many forms: (y), (y, saved mean, saved 1/σ), and those with the next statistics
// (makeFunctional's aten.batch_norm.functional: y, running_mean, running_var).
ImportResults batchNorm(ImportContext& c) {
  const Expr x = normOperand(c, c.tensor("input")), weight = c.optional("weight"), bias = c.optional("bias");
  const std::string& t = c.node.target;
  const bool inference = t.find("no_training") != t.npos;
  const bool training = !inference && (c.flag("training", false) || t.find("no_stats") != t.npos ||
                                       t.find("with_update") != t.npos || !c.has("running_mean"));
  const double eps = c.real(c.has("epsilon") ? "epsilon" : "eps", 1e-5);
  if (!training) {
    const Expr y = evaluated(c, x, weight, bias, eps);
    std::vector<Expr> out(std::max<size_t>(c.node.results.size(), 1));
    out[0] = y;
    for (size_t i = 1; i < out.size() && i < 3; ++i)
      if (c.declared(i)) out[i] = filled(c.b, c.declared(i)->dtype, c.declared(i)->dims, 0);
    if (out.size() == 5) out[3] = c.tensor("running_mean"), out[4] = c.tensor("running_var");
    return out;
  }
  const Batch batch = trained(c, x, weight, bias, eps);
  if (c.node.results.size() < 2) return batch.y;
  if (t == "aten.batch_norm.functional") {
    const auto next = running(c, x, batch);
    return {batch.y, next[0], next[1]};
  }
  const Expr inverse = ops::rsqrt(batch.variance + eps);
  if (c.node.results.size() < 5) return {batch.y, batch.mean, inverse};
  const auto next = running(c, x, batch);
  if (t.find("_batch_norm_with_update") != t.npos) // y, mean, 1/σ, reserve, running statistics
    return {batch.y, batch.mean, inverse, filled(c.b, DType::U8, {Dim(0)}, 0), next[0], next[1]};
  return {batch.y, batch.mean, inverse, next[0], next[1]};
}

ImportResults localResponseNorm(ImportContext& c) {
  const Expr x = c.tensor("input");
  const int64_t size = c.integer("size");
  const Expr squares = ops::square(x);
  Expr total;
  for (int64_t i = 0; i < size; ++i) { // the neighbours in the channels
    std::vector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
    low[1] = size / 2 - i, high[1] = i - size / 2;
    const Expr part = ops::pad(squares, {.value = c.literal(0.0, x.dtype()), .low = low, .high = high});
    total = total.valid() ? total + part : part;
  }
  const Expr divisor = total * (c.real("alpha", 1e-4) / static_cast<double>(size)) + c.real("k", 1);
  return x / ops::pow(divisor, divisor.literal(c.real("beta", 0.75)));
}

ImportResults weightNorm(ImportContext& c) { // v * g / |v|
  const Expr v = c.tensor("v"), g = c.tensor("g");
  const int64_t d = c.integer("dim", 0);
  std::vector<int64_t> over;
  for (int64_t i : allDims(v.rank()))
    if (d < 0 || i != d) over.push_back(i);
  const Expr norm = ops::sqrt(ops::sum(ops::square(v), {.dims = over, .keepdim = true}));
  const Expr y = v * (g / norm);
  if (c.node.results.size() < 2) return y;
  return {y, norm};
}

ImportResults weightNormBackward(ImportContext& c) {
  const Expr dw = c.tensor("grad_w"), v = c.tensor("saved_v"), g = c.tensor("saved_g"),
             norm = c.tensor("saved_norms").as(dw.dtype());
  const int64_t d = c.integer("dim");
  std::vector<int64_t> over;
  for (int64_t i : allDims(v.rank()))
    if (i != d) over.push_back(i);
  const Expr along = ops::sum(dw * v, {.dims = over, .keepdim = true}) / norm; // of the direction v / |v|
  return {(dw - v * (along / norm)) * (g / norm), along};
}

ImportResults renorm(ImportContext& c) { // slices along a dim, scaled down to a norm
  const Expr x = c.tensor("self");
  const int64_t d = aten::dim(c, "dim", x.rank());
  const double p = c.real("p", 2), largest = c.real("maxnorm");
  std::vector<int64_t> over;
  for (int64_t i : allDims(x.rank()))
    if (i != d) over.push_back(i);
  const Expr sizes = isComplex(x.dtype()) ? ops::abs(x) : x;
  const Expr norm = ops::norm(sizes, {.dims = over, .keepdim = true, .p = p}), above = norm > largest;
  const Expr scale = ops::select(above, norm.literal(largest), norm) / (norm + 1e-7);
  const Expr scaled = x * scale.as(x.dtype());
  return ops::select(broadcastTo(above, x.dims()), scaled, x);
}

const ImportRow kRows[] = {
    {"aten.layer_norm", normRow<layerNorm>},
    {"aten.native_layer_norm", normRow<layerNorm>},
    {"aten.rms_norm", rmsNorm},
    {"aten._fused_rms_norm", rmsNorm},
    {"aten.group_norm", normRow<groupNorm>},
    {"aten.native_group_norm", normRow<groupNorm>},
    {"aten.instance_norm", normRow<instanceNorm>},
    {"aten.batch_norm", normRow<batchNorm>},
    {"aten.native_batch_norm", normRow<batchNorm>},
    {"aten.cudnn_batch_norm", normRow<batchNorm>},
    {"aten._native_batch_norm_legit", normRow<batchNorm>},
    {"aten._native_batch_norm_legit_functional", normRow<batchNorm>},
    {"aten._native_batch_norm_legit_no_training", normRow<batchNorm>},
    {"aten._batch_norm_with_update", normRow<batchNorm>},
    {"aten._batch_norm_with_update_functional", normRow<batchNorm>},
    {"aten._batch_norm_no_update", normRow<batchNorm>},
    {"aten.local_response_norm", localResponseNorm},
    {"aten._weight_norm", weightNorm},
    {"aten._weight_norm_interface", weightNorm},
    {"aten._weight_norm_interface_backward", weightNormBackward},
    {"aten.renorm", renorm},
};

} // namespace
} // namespace aten::norms

ImportRows torchNormRows() { return aten::norms::kRows; }

} // namespace dtc
