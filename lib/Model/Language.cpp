// What the language models share: tokens in, heads, logits or loss out.
#include "ModelWriter.h"

namespace dtc {

std::string tokenInputs(ModelWriter& p) {
  const ModelSpec& s = p.spec();
  const Cuts cuts = {p.batchCut(), p.cut({"cp"})};
  std::string tokens = p.input("tokens", "i32", {s.batch, s.seq}, cuts);
  if (s.mode != ModelMode::Forward) p.input("labels", "i32", {s.batch, s.seq}, cuts);
  return tokens;
}

std::string cutPositions(ModelWriter& p, const std::string& name, const std::string& x) {
  return p.withSequenceCuts(name, x, {p.batchCut(), p.cut({"cp", "tp"}), "_"});
}

std::string allPositions(ModelWriter& p, const std::string& name, const std::string& x) {
  return p.withSequenceCuts(name, x, {p.batchCut(), p.cut({"cp"}), "_"});
}

std::string splitHeads(ModelWriter& p, const std::string& name, const std::string& x, int64_t heads) {
  const ModelSpec& s = p.spec();
  std::string split =
      p.op(name + "_split",
           "reshape " + x + " {shape = " + listText({s.batch, s.seq, heads, s.hidden / s.heads}) + "}");
  return p.op(name + "_heads", "transpose " + split + " {perm = [0, 2, 1, 3]}");
}

std::string joinHeads(ModelWriter& p, const std::string& name, const std::string& x) {
  const ModelSpec& s = p.spec();
  std::string rows = p.op(name + "_rows", "transpose " + x + " {perm = [0, 2, 1, 3]}");
  return p.op(name + "_joined",
              "reshape " + rows + " {shape = " + listText({s.batch, s.seq, s.hidden}) + "}");
}

std::string languageModule(ModelWriter& p, const std::string& logits) {
  const ModelSpec& s = p.spec();
  if (s.mode == ModelMode::Forward)
    return p.module(logits, "logits", typeText(dtypeName(s.dtype), {s.batch, s.seq, s.vocab}));
  std::string losses = p.op("losses", "cross_entropy " + widened(p, "logits", logits) + ", %labels");
  return p.module(p.op("loss", "mean " + losses), "loss", typeText(lossDType(s), {}));
}

} // namespace dtc
