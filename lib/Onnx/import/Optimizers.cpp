// Steps of optimizers, of the domain ai.onnx.preview.training.
#include "import/OnnxContext.h"

namespace dtc::onnx {

namespace {

// One tensor that is optimized: its value, its gradient with the penalty of the norm, and the optimizer's state.
struct Optimized {
  Expr x, gradient;
  std::vector<Expr> states;
};

// Operands: R (the rate), T (the count of updates), all X, all G, then each state of all. The step returns the new
// x and the new states; results are in the order of the operands.
template <class Step> ImportResults optimized(OnnxContext& c, size_t states, Step step) {
  const std::vector<Expr> all = c.operands(2);
  const size_t kinds = 2 + states, count = all.size() / kinds;
  if (count == 0 || all.size() % kinds) c.fail("has a wrong number of operands");
  for (const Expr& x : all)
    if (!x.valid()) c.fail("has an operand that is absent");
  const double norm = c.real("norm_coefficient", 0);
  std::vector<Expr> results((1 + states) * count);
  for (size_t i = 0; i < count; ++i) {
    Optimized o{all[i], all[i] * norm + all[count + i], {}};
    for (size_t s = 0; s < states; ++s) o.states.push_back(all[(2 + s) * count + i]);
    const DType d = o.x.dtype();
    const std::vector<Expr> next = step(o, reshapeTo(c.in(0), {}).as(d), reshapeTo(c.in(1), {}).as(d));
    for (size_t s = 0; s < next.size(); ++s) results[s * count + i] = next[s];
  }
  return results;
}

ImportResults adagrad(OnnxContext& c) {
  const double decay = c.real("decay_factor", 0), epsilon = c.real("epsilon", 1e-6);
  return optimized(c, 1, [&](const Optimized& o, Expr rate, Expr count) {
    const Expr squares = o.states[0] + o.gradient * o.gradient;
    const Expr step = rate / (count * decay + 1.0) * o.gradient / (sqrt(squares) + epsilon);
    return std::vector<Expr>{o.x - step, squares};
  });
}

ImportResults adam(OnnxContext& c) {
  const double alpha = c.real("alpha", 0.9), beta = c.real("beta", 0.999), epsilon = c.real("epsilon", 1e-6);
  const double after = 1 - c.real("norm_coefficient_post", 0);
  return optimized(c, 2, [&](const Optimized& o, Expr rate, Expr count) {
    const Expr mean = o.states[0] * alpha + o.gradient * (1 - alpha);
    const Expr squares = o.states[1] * beta + o.gradient * o.gradient * (1 - beta);
    const DType d = o.x.dtype();
    const Expr biased = sqrt(1.0 - pow(c.scalar(beta, d), count)) / (1.0 - pow(c.scalar(alpha, d), count));
    const Expr adjusted = select(gt(count, 0.0), rate * biased, rate);
    return std::vector<Expr>{(o.x - adjusted * mean / (sqrt(squares) + epsilon)) * after, mean, squares};
  });
}

ImportResults momentum(OnnxContext& c) {
  const double alpha = c.real("alpha"), beta = c.real("beta");
  const std::string mode = c.text("mode", "");
  if (mode != "standard" && mode != "nesterov") c.fail("has the unsupported mode '" + mode + "'");
  return optimized(c, 1, [&](const Optimized& o, Expr rate, Expr count) {
    const DType d = o.x.dtype();
    const Expr scale = select(gt(count, 0.0), c.scalar(beta, d), c.scalar(1, d));
    const Expr next = o.states[0] * alpha + scale * o.gradient;
    const Expr direction = mode == "nesterov" ? o.gradient + next * alpha : next;
    return std::vector<Expr>{o.x - rate * direction, next};
  });
}

constexpr OnnxRow kOptimizerRows[] = {{"ai.onnx.preview.training.Adagrad", adagrad, 1},
                                      {"ai.onnx.preview.training.Adam", adam, 1},
                                      {"ai.onnx.preview.training.Momentum", momentum, 1}};

} // namespace

std::span<const OnnxRow> optimizerRows() { return kOptimizerRows; }

} // namespace dtc::onnx
