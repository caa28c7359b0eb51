// The feed-forward part of a mixture of experts (https://arxiv.org/abs/2401.04088): each token goes to the experts with
// its top-k router logits, weighted by a softmax over these.
#include "ModelWriter.h"
#include <cmath>

namespace dtc {
namespace {

struct Routing {
  Expr weights, experts; // [..., k]
};

struct Experts {
  Expr gate, up, down; // [experts, hidden, ffn] and [experts, ffn, hidden]
};

Routing routing(ModelWriter& p, Expr n) {
  const ModelSpec& s = p.spec();
  const Expr router = p.weight("router", {s.hidden, s.experts}, {{}, {}});
  const Expr logits = widened(p, "router_logits", p.named("router_logits", matmul(n, router)));
  const auto [top, experts] = topk(logits, {.k = s.topK});
  return {p.named("router_weights", softmax(top, {-1})), p.named("router_experts", experts)};
}

Experts experts(ModelWriter& p) {
  const ModelSpec& s = p.spec();
  const Axes ep = p.axes({"ep"}), tp = p.tpAxes();
  return {p.weight("expert_gate", {s.experts, s.hidden, s.ffn}, {ep, {}, tp}),
          p.weight("expert_up", {s.experts, s.hidden, s.ffn}, {ep, {}, tp}),
          p.weight("expert_down", {s.experts, s.ffn, s.hidden}, {ep, tp, {}})};
}

// No row is dropped: rows are sorted by expert, and each group is multiplied with its matrix.
Expr sorted(ModelWriter& p, Expr n) {
  const ModelSpec& s = p.spec();
  const int64_t tokens = s.batch * s.seq, rows = tokens * s.topK;
  const Expr x = p.named("moe_tokens", reshape(n, {Dim(tokens), Dim(s.hidden)}));
  const Routing r = routing(p, x);
  const Expr flat = p.named("moe_experts", reshape(r.experts, {Dim(rows)}));
  const Expr order = p.named("moe_order", argsort(flat, {.dim = 0}));
  const Expr token = p.named("moe_token", floor_div(order, s.topK));
  const Expr hot = p.named("moe_hot", one_hot(flat, {.depth = Dim(s.experts), .dtype = DType::I32}));
  const Expr ends = p.named("moe_ends", cumsum(sum(hot, {.dims = {0}}), {.dim = 0}));
  const Expr xs = p.named("moe_rows", index_select(x, token, {.dim = 0}));
  const Experts w = experts(p);
  const Expr gate = p.named("moe_silu", silu(p.named("moe_gate", grouped_matmul(xs, w.gate, ends))));
  const Expr h = p.named("moe_h", gate * p.named("moe_up", grouped_matmul(xs, w.up, ends)));
  const Expr ys = p.named("moe_down", grouped_matmul(h, w.down, ends));
  const Expr flatWeights = reshape(r.weights, {Dim(rows)});
  const Expr weights = index_select(flatWeights, order, {.dim = 0}).as(s.dtype);
  const Expr weighted = p.named("moe_weighted", ys * expand_dims(weights, {1}));
  const Expr zeros(p.builder(), p.builder().constant(0, x.typeId()));
  const Expr y = scatter_slices(zeros, token, weighted, {},
                                {.update_window_dims = {1},
                                 .inserted_window_dims = {0},
                                 .scatter_dims_to_operand_dims = {0},
                                 .index_vector_dim = 1,
                                 .reduce = "sum"});
  return reshape(p.named("moe_y", y), {Dim(s.batch), Dim(s.seq), Dim(s.hidden)});
}

// Each sequence has a buffer of fixed size per expert (https://arxiv.org/abs/2006.16668); rows that find it full are
// dropped, in the order of positions. Buffers are sharded along sequences before and after the experts, and along
// experts between.
Expr withCapacity(ModelWriter& p, Expr n) {
  const ModelSpec& s = p.spec();
  const int64_t rows = s.seq * s.topK;
  const auto slots = static_cast<int64_t>(
      std::ceil(s.capacity * static_cast<double>(rows) / static_cast<double>(s.experts)));
  const Routing r = routing(p, n);
  const Expr flat = p.named("moe_experts", reshape(r.experts, {Dim(s.batch), Dim(rows)}));
  const Expr hot = p.named("moe_hot", one_hot(flat, {.depth = Dim(s.experts), .dtype = DType::I32}));
  const Expr before = p.named("moe_before", cumsum(hot, {.dim = 1, .exclusive = true}));
  const Expr slot = p.named("moe_slot", sum(before * hot, {.dims = {2}}));
  const TypeId numbers = p.builder().module.tensorType(DType::I32, {slots});
  // Zeros if the buffer is full.
  const Expr place = eq(expand_dims(slot, {2}), ops::iota(p.builder(), numbers, {.dim = 0})).as(s.dtype);
  const Expr mask = p.named("moe_mask", expand_dims(hot.as(s.dtype), {3}) * expand_dims(place, {2}));
  const Expr split = reshape(mask, {Dim(s.batch), Dim(s.seq), Dim(s.topK), Dim(s.experts), Dim(slots)});
  const Expr dispatch = p.named("moe_dispatch", sum(split, {.dims = {2}}));
  const Expr combine =
      p.named("moe_combine", ops::einsum(p.builder(), {split, r.weights.as(s.dtype)}, "bskec,bsk->bsec"));
  const auto buffers = [&](const char* name, Expr x, const Axes& ofExperts, const Axes& ofSequences) {
    return p.named(name, p.shardedAs(x, {ofExperts, ofSequences, {}, {}}));
  };
  const Axes ep = p.axes({"ep"}), others = p.batchAxesBesideExperts(), all = p.batchAxes();
  const Expr local = buffers("moe_sent", ops::einsum(p.builder(), {dispatch, n}, "bsec,bsh->ebch"), {}, all);
  const Expr x = buffers("moe_rows", local, ep, others);
  const Experts w = experts(p);
  const auto each = [&](const char* name, Expr a, Expr b) {
    return p.named(name, ops::einsum(p.builder(), {a, b}, "ebch,ehf->ebcf"));
  };
  const Expr gate = p.named("moe_silu", silu(each("moe_gate", x, w.gate)));
  const Expr y =
      buffers("moe_down", each("moe_down_product", gate * each("moe_up", x, w.up), w.down), ep, others);
  return ops::einsum(p.builder(), {combine, buffers("moe_back", y, {}, all)}, "bsec,ebch->bsh");
}

} // namespace

Expr mixtureOfExperts(ModelWriter& p, Expr n) {
  return p.spec().capacity > 0 ? withCapacity(p, n) : sorted(p, n);
}

} // namespace dtc
