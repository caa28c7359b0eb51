// GPT-2 and GPT-3 (https://arxiv.org/abs/2005.14165): learned positions, x + attention(layer_norm(x)), then
// x + mlp(layer_norm(x)); the head is the embedding, transposed.
#include "ModelWriter.h"

namespace dtc {
namespace {

std::string norm(ModelWriter& p, const std::string& name, const std::string& x) {
  const ModelSpec& s = p.spec();
  std::string w = p.weight(name + "_w", {s.hidden}, {"_"}), b = p.weight(name + "_b", {s.hidden}, {"_"});
  return allPositions(p, name + "_all",
                      p.op(name, "layer_norm " + x + ", " + w + ", " + b + " {dims = [-1]}"));
}

// x w + b, with the columns of w cut (what follows is cut as they are), or its rows (what follows is a sum).
std::string columns(ModelWriter& p, const std::string& name, const std::string& x, int64_t from, int64_t to) {
  std::string w = p.weight(name + "_w", {from, to}, {"_", p.tpCut()}),
              b = p.weight(name + "_b", {to}, {p.tpCut()});
  return p.op(name, "add " + p.op(name + "_product", "matmul " + x + ", " + w) + ", " + b);
}

std::string rows(ModelWriter& p, const std::string& name, const std::string& x, int64_t from, int64_t to) {
  std::string w = p.weight(name + "_w", {from, to}, {p.tpCut(), "_"}), b = p.weight(name + "_b", {to}, {"_"});
  return p.op(name, "add " + p.op(name + "_product", "matmul " + x + ", " + w) + ", " + b);
}

std::string attention(ModelWriter& p, const std::string& n) {
  const ModelSpec& s = p.spec();
  auto project = [&](const std::string& name) {
    return splitHeads(p, name, columns(p, name, n, s.hidden, s.hidden), s.heads);
  };
  std::string q = project("attn_q"), k = project("attn_k"), v = project("attn_v");
  std::string a = p.op("attn_a", "attention " + q + ", " + k + ", " + v + " {causal = true}");
  return rows(p, "attn_out", joinHeads(p, "attn_a", a), s.hidden, s.hidden);
}

} // namespace

std::string gptModule(ModelWriter p) {
  const ModelSpec& s = p.spec();
  std::string tokens = tokenInputs(p), table = p.weight("tok_emb", {s.vocab, s.hidden}, {p.tpCut(), "_"});
  std::string positions = p.weight("pos_emb", {s.seq, s.hidden}, {p.cut({"cp"}), "_"});
  std::string embedded = p.op("embedded", "embedding " + tokens + ", " + table);
  std::string x = cutPositions(p, "x0", p.op("positioned", "add " + embedded + ", " + positions));
  x = p.layers(x, [&](const std::string& in) {
    std::string a =
        cutPositions(p, "x_attn", p.op("attn_sum", "add " + in + ", " + attention(p, norm(p, "ln1", in))));
    std::string h = p.op("mlp_gelu", "gelu " + columns(p, "mlp_up", norm(p, "ln2", a), s.hidden, s.ffn) +
                                         " {approximate = \"tanh\"}");
    std::string m = rows(p, "mlp_down", h, s.ffn, s.hidden);
    return cutPositions(p, "x_mlp", p.op("mlp_sum", "add " + a + ", " + m));
  });
  std::string n = norm(p, "ln", x);
  return languageModule(p, p.op("logits", "matmul " + n + ", " + table + " {transpose_b = true}"));
}

} // namespace dtc
