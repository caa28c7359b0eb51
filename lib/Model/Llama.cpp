// Llama (https://arxiv.org/abs/2307.09288, https://arxiv.org/abs/2407.21783): x + attention(rms_norm(x)), then
// x + down(silu(gate(n)) * up(n)) of n = rms_norm(x).
#include "ModelWriter.h"

namespace dtc {
namespace {

std::string norm(ModelWriter& p, const std::string& name, const std::string& x, const std::string& weight) {
  std::string w = p.weight(weight, {p.spec().hidden}, {"_"});
  return allPositions(p, name + "_all", p.op(name, "rms_norm " + x + ", " + w + " {dims = [-1]}"));
}

std::string attention(ModelWriter& p, const std::string& x, const std::string& positions) {
  const ModelSpec& s = p.spec();
  const int64_t kvHidden = s.hidden / s.heads * s.kvHeads;
  std::string n = norm(p, "attn_n", x, "attn_norm");
  std::string rope =
      positions + (s.ropeBase == 10000.0 ? "" : " {base = " + std::to_string(s.ropeBase) + "}");
  auto project = [&](const std::string& name, const std::string& w, int64_t heads) {
    return splitHeads(p, name, p.op(name, "matmul " + n + ", " + w), heads);
  };
  std::string wq = p.weight("attn_wq", {s.hidden, s.hidden}, {"_", p.tpCut()});
  std::string wk = p.weight("attn_wk", {s.hidden, kvHidden}, {"_", p.kvCut()});
  std::string wv = p.weight("attn_wv", {s.hidden, kvHidden}, {"_", p.kvCut()});
  std::string q = p.op("attn_q_rope", "rope " + project("attn_q", wq, s.heads) + ", " + rope);
  std::string k = p.op("attn_k_rope", "rope " + project("attn_k", wk, s.kvHeads) + ", " + rope);
  std::string v = project("attn_v", wv, s.kvHeads);
  std::string a = p.op("attn_a", "attention " + q + ", " + k + ", " + v + " {causal = true}");
  std::string wo = p.weight("attn_wo", {s.hidden, s.hidden}, {p.tpCut(), "_"});
  return p.op("attn_out", "matmul " + joinHeads(p, "attn_a", a) + ", " + wo);
}

std::string feedForward(ModelWriter& p, const std::string& x) {
  const ModelSpec& s = p.spec();
  std::string n = norm(p, "ffn_n", x, "ffn_norm");
  std::string gate = p.weight("ffn_w_gate", {s.hidden, s.ffn}, {"_", p.tpCut()});
  std::string up = p.weight("ffn_w_up", {s.hidden, s.ffn}, {"_", p.tpCut()});
  std::string down = p.weight("ffn_w_down", {s.ffn, s.hidden}, {p.tpCut(), "_"});
  std::string g = p.op("ffn_silu", "silu " + p.op("ffn_gate", "matmul " + n + ", " + gate));
  std::string h = p.op("ffn_h", "mul " + g + ", " + p.op("ffn_up", "matmul " + n + ", " + up));
  return p.op("ffn_out", "matmul " + h + ", " + down);
}

} // namespace

std::string llamaModule(ModelWriter p) {
  const ModelSpec& s = p.spec();
  std::string tokens = tokenInputs(p), table = p.weight("tok_emb", {s.vocab, s.hidden}, {p.tpCut(), "_"});
  std::string x = cutPositions(p, "x0", p.op("embedded", "embedding " + tokens + ", " + table));
  std::string positions = p.op("positions", "iota {dim = 0}", typeText("i32", {s.seq}));
  x = p.layers(x, [&](const std::string& in) {
    std::string a =
        cutPositions(p, "x_attn", p.op("attn_sum", "add " + in + ", " + attention(p, in, positions)));
    return cutPositions(p, "x_ffn", p.op("ffn_sum", "add " + a + ", " + feedForward(p, a)));
  });
  std::string n = norm(p, "n", x, "norm");
  std::string head = p.weight("head", {s.hidden, s.vocab}, {"_", p.tpCut()});
  return languageModule(p, p.op("logits", "matmul " + n + ", " + head));
}

} // namespace dtc
