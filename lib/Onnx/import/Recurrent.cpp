// RNN, GRU and LSTM: a loop over time for each direction.
#include "dtc/Ops/Loop.h"
#include "import/OnnxContext.h"

#include <algorithm>

namespace dtc::onnx {

namespace {

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;

  [[nodiscard]] Expr operator()(Expr x) const {
    if (name == "Tanh") return tanh(x);
    if (name == "Sigmoid") return sigmoid(x);
    if (name == "Relu") return relu(x);
    if (name == "Affine") return x * alpha + beta;
    if (name == "LeakyRelu") return leaky_relu(x, {.slope = alpha});
    if (name == "ThresholdedRelu") return select(ge(x, alpha), x, 0.0);
    if (name == "ScaledTanh") return tanh(x * beta) * alpha;
    if (name == "HardSigmoid") return clamp(x * alpha + beta, 0.0, 1.0);
    if (name == "Elu") return select(gt(x, 0.0), x, expm1(min(x, 0.0)) * alpha);
    if (name == "Softsign") return x / (ops::abs(x) + 1.0);
    return softplus(x);
  }
};

// Known activations with the defaults of alpha and beta, and whether the node's lists have one for them.
struct ActivationKind {
  std::string_view name;
  double alpha, beta;
  bool hasAlpha, hasBeta;
};
constexpr ActivationKind kActivations[] = {
    {"Tanh", 0, 0, false, false},        {"Sigmoid", 0, 0, false, false},
    {"Relu", 0, 0, false, false},        {"Affine", 1, 0, true, true},
    {"LeakyRelu", 0.01, 0, true, false}, {"ThresholdedRelu", 1, 0, true, false},
    {"ScaledTanh", 1, 1, true, true},    {"HardSigmoid", 0.2, 0.5, true, true},
    {"Elu", 1, 0, true, false},          {"Softsign", 0, 0, false, false},
    {"Softplus", 0, 0, false, false},
};

std::vector<Activation> activations(OnnxContext& c, size_t count, std::vector<std::string> names) {
  if (c.is<std::vector<std::string>>("activations"))
    names = c.as<std::vector<std::string>>("activations", "a list of strings");
  std::vector<double> alphas, betas;
  if (c.has("activation_alpha")) alphas = c.reals("activation_alpha");
  if (c.has("activation_beta")) betas = c.reals("activation_beta");
  if (names.size() < count)
    c.fail("has " + std::to_string(names.size()) + " activations, but needs " + std::to_string(count));
  std::vector<Activation> out;
  size_t a = 0, b = 0;
  for (const std::string& name : names) {
    const auto same = [&](const ActivationKind& k) { // names are not case-sensitive
      return std::ranges::equal(k.name, name,
                                [](char x, char y) { return std::tolower(x) == std::tolower(y); });
    };
    const auto* kind = std::ranges::find_if(kActivations, same);
    if (kind == std::end(kActivations)) c.fail("has the unknown activation '" + name + "'");
    Activation& made = out.emplace_back(Activation{std::string(kind->name), kind->alpha, kind->beta});
    if (kind->hasAlpha && a < alphas.size()) made.alpha = alphas[a++];
    if (kind->hasBeta && b < betas.size()) made.beta = betas[b++];
  }
  return out;
}

// One direction.
struct Direction {
  Expr inputs;                       // [time, batch, gates * hidden]: x Wᵀ + Wb
  Expr recurrent, bias;              // [gates * hidden, hidden], [gates * hidden]
  Expr peepholes;                    // [3 * hidden], or absent
  std::vector<Expr> starts;          // of the states, [batch, hidden]
  std::vector<Activation> functions; // f, g, h
  bool reverse = false;
};

// The next states from those before, and the gates' inputs of this step. All are bound to the loop's Builder.
struct Step {
  Expr x, recurrent, bias, peepholes;
  std::vector<Expr> states;
  const std::vector<Activation>& f;
  int64_t hidden;
  std::optional<double> clip;
  bool linearBeforeReset, inputForget;

  [[nodiscard]] Expr part(Expr v, int64_t gate) const {
    return sliceOf(v, static_cast<int64_t>(v.rank()) - 1, gate * hidden, (gate + 1) * hidden);
  }
  [[nodiscard]] Expr rows(Expr v, int64_t first, int64_t last) const {
    return sliceOf(v, 0, first * hidden, last * hidden);
  }
  [[nodiscard]] Expr clipped(Expr v) const { return clip ? clamp(v, -*clip, *clip) : v; }
  [[nodiscard]] Expr activated(size_t i, Expr v) const { return f[i](clipped(v)); }
};

std::vector<Expr> rnnStep(const Step& s) {
  return {s.activated(0, s.x + matmul(s.states[0], s.recurrent, {.transpose_b = true}) + s.bias)};
}

std::vector<Expr> gruStep(const Step& s) {
  const Expr h = s.states[0];
  const Expr both = matmul(h, s.rows(s.recurrent, 0, 2), {.transpose_b = true}) + s.rows(s.bias, 0, 2);
  const Expr z = s.activated(0, s.part(s.x, 0) + s.part(both, 0)),
             r = s.activated(0, s.part(s.x, 1) + s.part(both, 1));
  const Expr weights = s.rows(s.recurrent, 2, 3), bias = s.rows(s.bias, 2, 3);
  const Expr candidate = s.linearBeforeReset ? r * (matmul(h, weights, {.transpose_b = true}) + bias)
                                             : matmul(r * h, weights, {.transpose_b = true}) + bias;
  const Expr g = s.activated(1, s.part(s.x, 2) + candidate);
  return {(1.0 - z) * g + z * h};
}

std::vector<Expr> lstmStep(const Step& s) {
  const Expr h = s.states[0], cell = s.states[1];
  const Expr all = s.x + matmul(h, s.recurrent, {.transpose_b = true}) + s.bias;
  const auto gate = [&](int64_t i, int64_t peephole, Expr state) {
    const Expr v = s.part(all, i);
    return s.peepholes.valid() ? v + s.part(s.peepholes, peephole) * state : v;
  };
  const Expr i = s.activated(0, gate(0, 0, cell));
  const Expr f = s.inputForget ? 1.0 - i : s.activated(0, gate(2, 2, cell));
  const Expr next = f * cell + i * s.activated(1, s.part(all, 3));
  const Expr o = s.activated(0, gate(1, 1, next));
  return {o * s.activated(2, next), next};
}

struct Kind {
  int64_t gates;
  size_t functions; // per direction
  std::vector<std::string> defaults;
  std::vector<Expr> (*step)(const Step&);
};

class Recurrence {
public:
  Recurrence(OnnxContext& c, Kind kind, size_t states) : c_(c), kind_(std::move(kind)), states_(states) {}

  ImportResults run() {
    const std::string direction = c_.text("direction", "forward");
    batchFirst_ = c_.integer("layout", 0) != 0;
    x_ = batchFirst_ ? swapped(c_.in(0), 0, 1) : c_.in(0);
    if (x_.rank() != 3 || c_.in(1).rank() != 3 || c_.in(2).rank() != 3)
      c_.fail("has operands that are not of rank 3");
    steps_ = c_.shapeOf(x_).at(0);
    hidden_ = c_.shapeOf(c_.in(2)).at(2);
    const size_t count = direction == "bidirectional" ? 2 : 1;
    const auto all = activations(c_, kind_.functions * count, repeated(kind_.defaults, count));
    std::vector<Expr> outputs;
    std::vector<std::vector<Expr>> last(states_);
    for (size_t d = 0; d < count; ++d) {
      const std::vector<Activation> own(all.begin() + static_cast<int64_t>(d * kind_.functions),
                                        all.begin() + static_cast<int64_t>((d + 1) * kind_.functions));
      std::vector<Expr> results = one(static_cast<int64_t>(d), own, d == 1 || direction == "reverse");
      outputs.push_back(withDim(results.back(), 1));
      for (size_t s = 0; s < states_; ++s) last[s].push_back(withDim(results[s], 0));
    }
    const Expr y = concatOf(c_.b, outputs, 1); // [time, directions, batch, hidden]
    std::vector<Expr> results{batchFirst_ ? permuted(y, std::vector<int64_t>{2, 0, 1, 3}) : y};
    for (const auto& states : last) {
      const Expr state = concatOf(c_.b, states, 0);
      results.push_back(batchFirst_ ? swapped(state, 0, 1) : state);
    }
    return results;
  }

private:
  static std::vector<std::string> repeated(const std::vector<std::string>& list, size_t times) {
    std::vector<std::string> out;
    for (size_t i = 0; i < times; ++i) out.insert(out.end(), list.begin(), list.end());
    return out;
  }

  // Row d of an operand with a first dim of directions.
  Expr row(Expr v, int64_t d) const { return withoutDim(sliceOf(v, 0, d, d + 1), 0); }

  Direction direction(int64_t d) {
    Direction out;
    const Expr w = row(c_.in(1), d);
    out.recurrent = row(c_.in(2), d);
    out.inputs = matmul(x_, w, {.transpose_b = true});
    const int64_t rows = kind_.gates * hidden_;
    out.bias = filled(c_.b, x_.dtype(), {rows}, 0);
    if (c_.has(3)) {
      const Expr b = row(c_.in(3), d);
      out.inputs = out.inputs + sliceOf(b, 0, 0, rows);
      out.bias = sliceOf(b, 0, rows, 2 * rows);
    }
    for (size_t s = 0; s < states_; ++s) {
      const int operand = 5 + static_cast<int>(s);
      if (!c_.has(operand)) {
        out.starts.push_back(filled(c_.b, x_.dtype(), {x_.dims().at(1), hidden_}, 0));
        continue;
      }
      const Expr start = c_.in(operand);
      out.starts.push_back(row(batchFirst_ ? swapped(start, 0, 1) : start, d));
    }
    if (states_ == 2 && c_.has(7)) out.peepholes = row(c_.in(7), d);
    return out;
  }

  // The last states, then the outputs [time, batch, hidden].
  std::vector<Expr> one(int64_t number, const std::vector<Activation>& functions, bool reverse) {
    const Direction d = direction(number);
    const Expr lengths = c_.has(4) ? withDim(c_.in(4).as(DType::I32), 1) : Expr();
    std::optional<double> clip;
    if (c_.has("clip")) clip = c_.real("clip");
    const auto body = [&](Builder& in, Expr index, std::span<const ValueId> carried) {
      const auto bound = [&](Expr v) { return v.valid() ? Expr(in, v) : Expr(); };
      const Expr t = reverse ? (steps_ - 1) - index : index;
      const Expr inputs = bound(d.inputs);
      Dims window = inputs.dims();
      window[0] = 1;
      const Expr zero(in, in.literal(0, DType::I32));
      const Expr x = withoutDim(dynamic_slice(inputs, {t, zero, zero}, window), 0);
      Step step{x,
                bound(d.recurrent),
                bound(d.bias),
                bound(d.peepholes),
                {},
                functions,
                hidden_,
                clip,
                c_.integer("linear_before_reset", 0) != 0,
                c_.integer("input_forget", 0) != 0};
      for (ValueId v : carried) step.states.emplace_back(in, v);
      std::vector<Expr> next = kind_.step(step);
      Expr y = next[0];
      if (lengths.valid()) { // a sequence that has ended keeps its states
        const Expr valid = gt(bound(lengths), t);
        for (size_t i = 0; i < next.size(); ++i) next[i] = select(valid, next[i], step.states[i]);
        y = select(valid, y, 0.0);
      }
      std::vector<ValueId> out(next.begin(), next.end());
      out.push_back(y);
      return out;
    };
    std::vector<Expr> results = forLoop(c_.b, 0, steps_, Values(d.starts), body);
    if (reverse) results.back() = flip(results.back(), {0});
    return results;
  }

  OnnxContext& c_;
  Kind kind_;
  size_t states_;
  bool batchFirst_ = false;
  Expr x_;
  int64_t steps_ = 0, hidden_ = 0;
};

ImportResults rnn(OnnxContext& c) { return Recurrence(c, {1, 1, {"Tanh"}, rnnStep}, 1).run(); }
ImportResults gru(OnnxContext& c) { return Recurrence(c, {3, 2, {"Sigmoid", "Tanh"}, gruStep}, 1).run(); }
ImportResults lstm(OnnxContext& c) {
  return Recurrence(c, {4, 3, {"Sigmoid", "Tanh", "Tanh"}, lstmStep}, 2).run();
}

constexpr OnnxRow kRecurrentRows[] = {{"RNN", rnn, 7}, {"GRU", gru, 7}, {"LSTM", lstm, 7}};

} // namespace

std::span<const OnnxRow> recurrentRows() { return kRecurrentRows; }

} // namespace dtc::onnx
