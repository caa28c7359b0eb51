// GPT-2 and GPT-3 (https://arxiv.org/abs/2005.14165): learned positions, x + attention(layer_norm(x)), then
// x + mlp(layer_norm(x)); the head is the embedding, transposed.
#include "ModelWriter.h"

namespace dtc {
static Expr norm(ModelWriter& p, const std::string& name, Expr x) {
  const int64_t n = p.spec().hidden;
  const Expr w = p.weight(name + "_w", {n}, {{}}), b = p.weight(name + "_b", {n}, {{}});
  return allPositions(p, name + "_all", p.named(name, layer_norm(x, {.weight = w, .bias = b, .dims = {-1}})));
}

// x w + b, with the columns of w sharded (and so the activations after it), or its rows (a partial sum after
// it).
static Expr linear(ModelWriter& p, const std::string& name, Expr x, int64_t from, int64_t to, bool columns) {
  const Axes tp = p.tpAxes(), rows = columns ? Axes() : tp, across = columns ? tp : Axes();
  const Expr w = p.weight(name + "_w", {from, to}, {rows, across}), b = p.weight(name + "_b", {to}, {across});
  return p.named(name, p.named(name + "_product", matmul(x, w)) + b);
}

static Expr attention(ModelWriter& p, Expr n) {
  const ModelSpec& s = p.spec();
  auto project = [&](const std::string& name) {
    return splitHeads(p, name, linear(p, name, n, s.hidden, s.hidden, true), s.heads);
  };
  const Expr q = project("attn_q"), k = project("attn_k"), v = project("attn_v");
  const Expr a = attentionCore(p, q, k, v);
  return linear(p, "attn_out", joinHeads(p, "attn_a", a), s.hidden, s.hidden, false);
}

Module gptModule(ModelWriter& p) {
  const ModelSpec& s = p.spec();
  const auto [tokens, labels] = tokenInputs(p);
  const Expr table = p.weight("tok_emb", {s.vocab, s.hidden}, {p.tpAxes(), {}});
  const Axes sequence = s.parallel.sequence ? p.axes({"cp", "tp"}) : p.axes({"cp"});
  const Expr positions = p.weight("pos_emb", {s.seq, s.hidden}, {sequence, {}});
  const Expr embedded = p.named("embedded", embedding(tokens, table));
  Expr x = shardPositions(p, "x0", p.named("positioned", embedded + positions));
  x = p.layers(x, [&](Expr in) {
    const Expr a = shardPositions(p, "x_attn", p.named("attn_sum", in + attention(p, norm(p, "ln1", in))));
    const Expr up = linear(p, "mlp_up", norm(p, "ln2", a), s.hidden, s.ffn, true);
    const Expr h = p.named("mlp_gelu", gelu(up, {.approximate = "tanh"}));
    const Expr m = linear(p, "mlp_down", h, s.ffn, s.hidden, false);
    return shardPositions(p, "x_mlp", p.named("mlp_sum", a + m));
  });
  const Expr n = norm(p, "ln", x);
  return languageModule(p, p.named("logits", matmul(n, table, {.transpose_b = true})), labels);
}

} // namespace dtc
