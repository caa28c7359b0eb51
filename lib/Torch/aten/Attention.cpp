// Attention: the op of programs, and the ops with their gradients that PyTorch's autograd makes of it.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace dtc {
namespace aten::attentions {
namespace {

// Queries, keys and values as [b, h, s, d].
Expr fourDims(ImportContext& c, Expr x) {
  if (x.rank() == 4) return x;
  if (x.rank() < 2) c.fail("has an operand of rank " + std::to_string(x.rank()));
  if (x.rank() < 4) return withRank(x, 4);
  const Dims& d = x.dims();
  return reshapeTo(
      x, {elementsOf(c.b, Dims(d.begin(), d.end() - 3)), d[d.size() - 3], d[d.size() - 2], d[d.size() - 1]});
}

// A mask [b, h, s, t], where b, h, s and t may be 1.
Expr withFourDims(ImportContext& c, Expr mask, Expr q) {
  if (mask.rank() <= 4) return withRank(mask, 4);
  Dims wide = c.tensor("query").dims();
  std::copy(mask.dims().end() - 2, mask.dims().end(), wide.end() - 2);
  return reshapeTo(broadcastTo(mask, wide),
                   {q.dims().at(0), q.dims().at(1), mask.dims().at(mask.rank() - 2), mask.dims().back()});
}

// An additive mask: in the accumulation dtype of the queries where it is wider than they are, as PyTorch adds it.
Expr addedMask(Expr mask, DType d) {
  return mask.as(dtypeBytes(mask.dtype()) > dtypeBytes(d) ? accumulationType(d) : d);
}

// The mask of attention. PyTorch returns 0 for queries whose keys are all masked, dtc's attention NaN: here
// they attend to all keys, so that gradients are finite, and their results and cotangents are set to 0.
struct AttentionMask {
  Expr keys; // bool, or added to the scores
  Expr some; // whether a query has an unmasked key; neither is valid without a mask

  [[nodiscard]] Expr seen(Expr y) const {
    return some.valid() ? ops::select(broadcastTo(some, y.dims()), y, y.literal(0)) : y;
  }
};

AttentionMask maskOf(ImportContext& c, Expr q) {
  const char* name = c.has("attn_mask") ? "attn_mask" : "attn_bias";
  if (!c.has(name)) return {};
  Expr mask = c.tensor(name);
  if (!isBool(mask.dtype())) mask = addedMask(mask, q.dtype());
  mask = withFourDims(c, mask, q);
  const std::vector<int64_t> last{3};
  const Expr open = isBool(mask.dtype()) ? mask : mask > -std::numeric_limits<double>::infinity();
  const Expr some = ops::any(open, {.dims = last, .keepdim = true});
  if (isBool(mask.dtype())) return {mask | ops::not_(some), some};
  return {ops::select(some, mask, mask.literal(0)), some};
}

// Attention that drops weights at random, which dtc's op does not: with its scores as a tensor.
Expr droppedAttention(ImportContext& c, Expr q, Expr k, Expr v, Expr mask) {
  const Dim heads = q.dims().at(1), queries = q.dims().at(2), keys = k.dims().at(2);
  const auto shared = [&](Expr x) { // by the heads of a group
    if (x.dims().at(1) == heads) return x;
    const auto group = c.module.dims.divExact(heads, x.dims().at(1));
    if (!group) c.fail("has heads that are not shared equally");
    const Dims wide{x.dims().at(0), x.dims().at(1), *group, x.dims().at(2), x.dims().at(3)};
    return reshapeTo(broadcastTo(withDim(x, 2), wide), {wide[0], heads, wide[3], wide[4]});
  };
  const auto width = static_cast<double>(staticDims(c.b, {q.dims().at(3)})[0]);
  const double scale = c.real("scale", 1 / std::sqrt(std::max(width, 1.0)));
  const DType d = accumulationType(q.dtype());
  const double none = -std::numeric_limits<double>::infinity();
  Expr scores = ops::matmul(q, swapped(shared(k), 2, 3)).as(d) * scale;
  if (c.flag("is_causal", false)) {
    const Expr past = withDim(counted(c.b, queries), 1) >= counted(c.b, keys);
    scores = ops::select(broadcastTo(past, scores.dims()), scores, none);
  }
  if (mask.valid() && isBool(mask.dtype()))
    scores = ops::select(broadcastTo(mask, scores.dims()), scores, none);
  else if (mask.valid())
    scores = scores + mask.as(d);
  const Expr weights = ops::softmax(scores, std::vector<int64_t>{3});
  const Expr kept = ops::dropout(seedOf(c), weights, ops::Values({}), {.p = c.real("dropout_p")});
  return ops::matmul(kept.as(v.dtype()), shared(v));
}

// Queries, keys and values of aten.scaled_dot_product_attention, whose leading dims broadcast.
std::array<Expr, 3> broadcastOperands(ImportContext& c) {
  std::array<Expr, 3> out{in(c, "query"), in(c, "key"), in(c, "value")};
  auto& [q, k, v] = out;
  if (q.rank() < 3) return out;
  const size_t keep = c.flag("enable_gqa", false) ? 3 : 2;
  if (std::min({q.rank(), k.rank(), v.rank()}) < keep) c.fail("has an operand of too low a rank");
  const auto lead = [&](Expr x) {
    return Dims(x.dims().begin(), x.dims().end() - static_cast<std::ptrdiff_t>(keep));
  };
  if (lead(q) == lead(k) && lead(k) == lead(v)) return out;
  const Dims common = broadcastDims(c.b, broadcastDims(c.b, lead(q), lead(k)), lead(v));
  for (Expr& x : out) {
    Dims dims = common;
    dims.insert(dims.end(), x.dims().end() - static_cast<std::ptrdiff_t>(keep), x.dims().end());
    x = broadcastTo(x, dims);
  }
  return out;
}

ops::AttentionArgs argsOf(ImportContext& c, Expr mask) {
  ops::AttentionArgs args;
  if (mask.valid()) args.mask = mask;
  if (c.flag("is_causal", false)) args.causal = true;
  if (c.has("scale")) args.scale = c.real("scale");
  return args;
}

ImportResults attention(ImportContext& c) {
  const auto [qx, kx, vx] = broadcastOperands(c);
  const Expr q = fourDims(c, qx), k = fourDims(c, kx), v = fourDims(c, vx);
  const AttentionMask mask = maskOf(c, q);
  const Expr y = c.real("dropout_p", 0) != 0 ? droppedAttention(c, q, k, v, mask.keys)
                                             : ops::attention(q, k, v, argsOf(c, mask.keys))[0];
  return reshapeTo(mask.seen(y), resultDims(c));
}

// --- the ops that PyTorch's autograd uses: they also return the log-sum-exp of each query ---

void withoutDropout(ImportContext& c) {
  if (c.real("dropout_p", 0) != 0)
    c.fail("has dropout, whose random numbers are PyTorch's: export model.eval()");
}

// The log-sum-exp as the file declares it, [b, h, s] or [b, h, s, 1]. Some ops pad the queries, or have no
// elements where it is not requested: their backward ops read those of the queries only.
Expr declaredRows(ImportContext& c, Expr lse) {
  const Type* declared = c.declared(1);
  if (!declared) return lse;
  const Dims& dims = declared->dims;
  if (dims.size() != 3) return reshapeTo(lse, dims);
  if (dims[2] == lse.dims()[2]) return lse;
  const int64_t own = staticDims(c.b, {lse.dims()[2]})[0], wide = staticDims(c.b, {dims[2]})[0];
  if (wide < own) return {};
  return ops::pad(lse, {.value = lse.literal(0),
                        .low = std::vector<int64_t>{0, 0, 0},
                        .high = std::vector<int64_t>{0, 0, wide - own}});
}

ImportResults attentionForward(ImportContext& c) {
  withoutDropout(c);
  const Expr q = c.tensor("query");
  const AttentionMask mask = maskOf(c, q);
  ops::AttentionArgs args = argsOf(c, mask.keys);
  args.lse = true;
  const auto [y, lse] = ops::attention(q, c.tensor("key"), c.tensor("value"), args);
  return {mask.seen(y), declaredRows(c, lse)};
}

// The cotangents of query, key and value, and of the mask, where the op has it as a result.
ImportResults attentionBackward(ImportContext& c) {
  withoutDropout(c);
  const Expr q = c.tensor("query"), k = c.tensor("key"), v = c.tensor("value");
  const AttentionMask mask = maskOf(c, q);
  const Expr dy = mask.seen(c.tensor(c.has("grad_out") ? "grad_out" : "grad_out_").as(q.dtype()));
  const DType wide = accumulationType(q.dtype()); // of the log-sum-exp, as attention returns it
  const Expr delta = ops::sum(dy.as(wide) * c.tensor("out").as(wide), {.dims = std::vector<int64_t>{3}});
  Expr lse = c.tensor("logsumexp").as(wide);
  if (lse.rank() == 3) lse = sliceOf(lse, 2, 0, q.dims().at(2));
  lse = reshapeTo(lse, delta.dims());
  const ops::AttentionArgs given = argsOf(c, mask.keys);
  const auto [dq, dk, dv] = ops::attention_grad(
      q, k, v, lse, delta, dy, {.mask = given.mask, .causal = given.causal, .scale = given.scale});
  if (c.node.results.size() < 4 || !c.node.results[3].valid()) return {dq, dk, dv};
  if (!mask.keys.valid() || isBool(mask.keys.dtype())) return {dq, dk, dv, Expr()};
  const Expr dmask = ops::attention_grad_mask(q, k, v, lse, delta, dy, mask.keys,
                                              {.causal = given.causal, .scale = given.scale});
  return {dq, dk, dv, reshapeTo(dmask, resultDims(c, 3)).as(c.result(3).dtype)};
}

const ImportRow kRows[] = {
    {"aten.scaled_dot_product_attention", attention},
    {"aten._scaled_dot_product_cudnn_attention", attentionForward},
    {"aten._scaled_dot_product_cudnn_attention_backward", attentionBackward},
    {"aten._scaled_dot_product_efficient_attention", attentionForward},
    {"aten._scaled_dot_product_efficient_attention_backward", attentionBackward},
    {"aten._scaled_dot_product_flash_attention", attentionForward},
    {"aten._scaled_dot_product_flash_attention_backward", attentionBackward},
    {"aten._scaled_dot_product_flash_attention_for_cpu", attentionForward},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward", attentionBackward},
    {"aten._scaled_dot_product_fused_attention_overrideable", attentionForward},
    {"aten._scaled_dot_product_fused_attention_overrideable_backward", attentionBackward},
};

} // namespace
} // namespace aten::attentions

ImportRows torchAttentionRows() { return aten::attentions::kRows; }

} // namespace dtc
