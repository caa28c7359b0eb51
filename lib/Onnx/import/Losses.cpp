// Losses over classes, dim 1.
#include "import/OnnxContext.h"

namespace dtc::onnx {

namespace {

// -weight[target] * logs[target], and its mean or sum.
Expr negativeLogLikelihood(OnnxContext& c, Expr logs, Expr target, Expr weight) {
  if (logs.rank() < 2) c.fail("has an operand that is not [n, classes, …]");
  const bool ignores = c.has("ignore_index");
  const Expr labels = target.as(DType::I64);
  const Expr ignored = ignores ? eq(labels, c.integer("ignore_index")) : Expr();
  const Expr safe = ignores ? select(ignored, 0, labels) : labels;
  const Expr picked = withoutDim(gather(logs, withDim(safe, 1), {.dim = 1}), 1);
  Expr factor;
  if (weight.valid()) {
    const Expr flat = reshapeTo(safe, {elementsOf(c.b, safe.dims())});
    factor = reshapeTo(index_select(weight, flat, {.dim = 0}), safe.dims());
    if (ignores) factor = select(ignored, 0.0, factor);
  } else if (ignores) {
    factor = select(ignored, filled(c.b, logs.dtype(), {}, 0), filled(c.b, logs.dtype(), {}, 1));
  }
  const Expr loss = factor.valid() ? -picked * factor : -picked;
  const std::string reduction = c.text("reduction", "mean");
  if (reduction == "none") return loss;
  if (reduction == "sum") return sum(loss);
  if (reduction != "mean") c.fail("has the unsupported reduction '" + reduction + "'");
  return factor.valid() ? sum(loss) / sum(factor) : mean(loss);
}

ImportResults nllLoss(OnnxContext& c) { return negativeLogLikelihood(c, c.in(0), c.in(1), c.optional(2)); }

ImportResults softmaxCrossEntropy(OnnxContext& c) {
  const Expr logs = log_softmax(c.in(0), {1});
  return {negativeLogLikelihood(c, logs, c.in(1), c.optional(2)), logs};
}

constexpr OnnxRow kLossesRows[] = {{"NegativeLogLikelihoodLoss", nllLoss},
                                   {"SoftmaxCrossEntropyLoss", softmaxCrossEntropy}};

} // namespace

std::span<const OnnxRow> lossRows() { return kLossesRows; }

} // namespace dtc::onnx
