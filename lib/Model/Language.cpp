// Shared by the language models: tokens, heads, logits and loss.
#include "ModelWriter.h"

namespace dtc {

TokenInputs tokenInputs(ModelWriter& p) {
  const ModelSpec& s = p.spec();
  const ShardAxes axes = {p.batchAxes(), p.axes({"cp"})};
  const Expr tokens = p.input("tokens", DType::I32, {s.batch, s.seq}, axes);
  if (s.mode == ModelMode::Forward) return {tokens, {}};
  return {tokens, p.input("labels", DType::I32, {s.batch, s.seq}, axes)};
}

Expr shardPositions(ModelWriter& p, const std::string& name, Expr x) {
  return p.withSequenceSharding(name, x, {p.batchAxes(), p.axes({"cp", "tp"}), {}});
}

Expr allPositions(ModelWriter& p, const std::string& name, Expr x) {
  return p.withSequenceSharding(name, x, {p.batchAxes(), p.axes({"cp"}), {}});
}

Expr splitHeads(ModelWriter& p, const std::string& name, Expr x, int64_t heads) {
  const ModelSpec& s = p.spec();
  const Expr split =
      p.named(name + "_split", reshape(x, {Dim(s.batch), Dim(s.seq), Dim(heads), Dim(s.hidden / s.heads)}));
  return p.named(name + "_heads", transpose(split, {0, 2, 1, 3}));
}

Expr joinHeads(ModelWriter& p, const std::string& name, Expr x) {
  const ModelSpec& s = p.spec();
  const Expr rows = p.named(name + "_rows", transpose(x, {0, 2, 1, 3}));
  return p.named(name + "_joined", reshape(rows, {Dim(s.batch), Dim(s.seq), Dim(s.hidden)}));
}

Expr attentionCore(ModelWriter& p, Expr q, Expr k, Expr v) {
  const ModelContext way = p.spec().context;
  const ops::StringAttr ring = way == ModelContext::Ring      ? ops::StringAttr("balanced")
                               : way == ModelContext::Gather  ? ops::StringAttr("gather")
                               : way == ModelContext::Ulysses ? ops::StringAttr("heads")
                                                              : ops::kDefault;
  return p.named("attn_a", p.recomputed(ModelRecompute::Attention, [&] {
    Builder& in = p.builder();
    return attention(Expr(in, q), Expr(in, k), Expr(in, v), {.causal = true, .ring = ring})[0];
  }));
}

Module languageModule(ModelWriter& p, Expr logits, Expr labels) {
  if (p.spec().mode == ModelMode::Forward) return p.module(logits, "logits");
  const Expr losses = p.named("losses", cross_entropy(widened(p, "logits", logits), labels));
  return p.module(p.named("loss", mean(losses)), "loss");
}

} // namespace dtc
