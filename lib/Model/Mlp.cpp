// Feed-forward blocks with residuals: x + gelu(x w1) w2. Rows are both sequences and positions.
#include "ModelWriter.h"

namespace dtc {

Module mlpModule(ModelWriter& p) {
  const ModelSpec& s = p.spec();
  const ShardAxes unsharded = {p.axes({"dp", "fsdp", "cp"}), {}},
                  sharded = {p.axes({"dp", "fsdp", "cp", "tp"}), {}};
  Expr x = p.input("x", s.dtype, {s.batch, s.hidden}, unsharded), target;
  if (s.mode != ModelMode::Forward) target = p.input("target", s.dtype, {s.batch, s.hidden}, unsharded);
  x = p.layers(p.withSequenceSharding("x0", x, sharded), [&](Expr in) {
    const Expr w1 = p.weight("w1", {s.hidden, s.ffn}, {{}, p.tpAxes()});
    const Expr w2 = p.weight("w2", {s.ffn, s.hidden}, {p.tpAxes(), {}});
    const Expr h = p.named("h", matmul(p.withSequenceSharding("in", in, unsharded), w1));
    const Expr y = p.named("y", matmul(p.named("a", gelu(h, {.approximate = "tanh"})), w2));
    return p.withSequenceSharding("out", p.named("sum", in + y), sharded);
  });
  if (s.mode == ModelMode::Forward) return p.module(x, "y");
  const Expr error = widened(p, "error", p.named("error", x - target));
  return p.module(p.named("loss", mean(p.named("squares", square(error)))), "loss");
}

} // namespace dtc
