// Llama and Mixtral (https://arxiv.org/abs/2307.09288, https://arxiv.org/abs/2407.21783,
// https://arxiv.org/abs/2401.04088): x + attention(rms_norm(x)), then x + down(silu(gate(n)) * up(n)) of
// n = rms_norm(x), or the same of each token's experts.
#include "ModelWriter.h"

namespace dtc {
static Expr norm(ModelWriter& p, const std::string& name, Expr x, const std::string& weight) {
  const Expr w = p.weight(weight, {p.spec().hidden}, {{}});
  return allPositions(p, name + "_all", p.named(name, rms_norm(x, {.weight = w, .dims = {-1}})));
}

static Expr attention(ModelWriter& p, Expr x, Expr positions) {
  const ModelSpec& s = p.spec();
  const int64_t kvHidden = s.hidden / s.heads * s.kvHeads;
  const Expr n = norm(p, "attn_n", x, "attn_norm");
  auto project = [&](const std::string& name, Expr w, int64_t heads) {
    return splitHeads(p, name, p.named(name, matmul(n, w)), heads);
  };
  const Expr wq = p.weight("attn_wq", {s.hidden, s.hidden}, {{}, p.tpAxes()});
  const Expr wk = p.weight("attn_wk", {s.hidden, kvHidden}, {{}, p.kvAxes()});
  const Expr wv = p.weight("attn_wv", {s.hidden, kvHidden}, {{}, p.kvAxes()});
  const ops::RopeArgs base = {.base = s.ropeBase};
  const Expr q = p.named("attn_q_rope", rope(project("attn_q", wq, s.heads), positions, base));
  const Expr k = p.named("attn_k_rope", rope(project("attn_k", wk, s.kvHeads), positions, base));
  const Expr v = project("attn_v", wv, s.kvHeads);
  const Expr a = attentionCore(p, q, k, v);
  const Expr wo = p.weight("attn_wo", {s.hidden, s.hidden}, {p.tpAxes(), {}});
  return p.named("attn_out", matmul(joinHeads(p, "attn_a", a), wo));
}

static Expr feedForward(ModelWriter& p, Expr x) {
  const ModelSpec& s = p.spec();
  const Expr n = norm(p, "ffn_n", x, "ffn_norm");
  if (s.experts > 0) return p.named("ffn_out", mixtureOfExperts(p, n));
  const Expr gate = p.weight("ffn_w_gate", {s.hidden, s.ffn}, {{}, p.tpAxes()});
  const Expr up = p.weight("ffn_w_up", {s.hidden, s.ffn}, {{}, p.tpAxes()});
  const Expr down = p.weight("ffn_w_down", {s.ffn, s.hidden}, {p.tpAxes(), {}});
  const Expr g = p.named("ffn_silu", silu(p.named("ffn_gate", matmul(n, gate))));
  const Expr h = p.named("ffn_h", g * p.named("ffn_up", matmul(n, up)));
  return p.named("ffn_out", matmul(h, down));
}

Module llamaModule(ModelWriter& p) {
  const ModelSpec& s = p.spec();
  const auto [tokens, labels] = tokenInputs(p);
  const Expr table = p.weight("tok_emb", {s.vocab, s.hidden}, {p.tpAxes(), {}});
  Expr x = shardPositions(p, "x0", p.named("embedded", embedding(tokens, table)));
  const TypeId sequence = p.builder().module.tensorType(DType::I32, {s.seq});
  const Expr positions = p.named("positions", ops::iota(p.builder(), sequence, {.dim = 0}));
  x = p.layers(x, [&](Expr in) {
    const Expr a = shardPositions(p, "x_attn", p.named("attn_sum", in + attention(p, in, positions)));
    return shardPositions(p, "x_ffn", p.named("ffn_sum", a + feedForward(p, a)));
  });
  const Expr n = norm(p, "n", x, "norm");
  const Expr head = p.weight("head", {s.hidden, s.vocab}, {{}, p.tpAxes()});
  return languageModule(p, p.named("logits", matmul(n, head)), labels);
}

} // namespace dtc
