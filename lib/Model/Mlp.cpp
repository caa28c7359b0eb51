// Feed-forward blocks alone, with a residual around each: x + gelu(x w1) w2. Its rows stand for sequences and positions alike.
#include "ModelWriter.h"

namespace dtc {

std::string mlpModule(ModelWriter p) {
  const ModelSpec& s = p.spec();
  const std::string dtype(dtypeName(s.dtype));
  const Cuts whole = {p.cut({"dp", "fsdp", "cp"}), "_"}, cut = {p.cut({"dp", "fsdp", "cp", "tp"}), "_"};
  std::string x = p.input("x", dtype, {s.batch, s.hidden}, whole);
  if (s.mode != ModelMode::Forward) p.input("target", dtype, {s.batch, s.hidden}, whole);
  x = p.layers(p.withSequenceCuts("x0", x, cut), [&](const std::string& in) {
    std::string w1 = p.weight("w1", {s.hidden, s.ffn}, {"_", p.tpCut()});
    std::string w2 = p.weight("w2", {s.ffn, s.hidden}, {p.tpCut(), "_"});
    std::string h = p.op("h", "matmul " + p.withSequenceCuts("in", in, whole) + ", " + w1);
    std::string y = p.op("y", "matmul " + p.op("a", "gelu " + h + " {approximate = \"tanh\"}") + ", " + w2);
    return p.withSequenceCuts("out", p.op("sum", "add " + in + ", " + y), cut);
  });
  if (s.mode == ModelMode::Forward) return p.module(x, "y", typeText(dtype, {s.batch, s.hidden}));
  std::string error = widened(p, "error", p.op("error", "sub " + x + ", %target"));
  return p.module(p.op("loss", "mean " + p.op("squares", "square " + error)), "loss",
                  typeText(lossDType(s), {}));
}

} // namespace dtc
