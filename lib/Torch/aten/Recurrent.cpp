// LSTM, GRU and plain recurrent networks: one loop over time per layer and direction.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

namespace dtc {
namespace aten::recurrent {
namespace {

enum class Cell : uint8_t { Lstm, Gru, Tanh, Relu };

struct Weights {
  Expr input, hidden, inputBias, hiddenBias, projection;
};

// x Wᵀ + b
Expr dense(Expr x, Expr w, Expr b) {
  const Expr y = ops::matmul(x, swapped(w, 0, 1));
  return b.valid() ? y + b : y;
}

// Columns [i * width, (i + 1) * width) of the last dim.
Expr gate(Expr x, int64_t i, int64_t width) {
  return sliceOf(x, static_cast<int64_t>(x.rank()) - 1, i * width, (i + 1) * width);
}

// The next state of a cell; `x` is the input's part, with its bias.
std::vector<Expr> step(Cell cell, Expr x, const std::vector<Expr>& state, const Weights& w, int64_t width) {
  const Expr h = dense(state[0], w.hidden, w.hiddenBias);
  if (cell == Cell::Tanh) return {ops::tanh(x + h)};
  if (cell == Cell::Relu) return {ops::relu(x + h)};
  if (cell == Cell::Gru) {
    const Expr r = ops::sigmoid(gate(x, 0, width) + gate(h, 0, width));
    const Expr z = ops::sigmoid(gate(x, 1, width) + gate(h, 1, width));
    const Expr n = ops::tanh(gate(x, 2, width) + r * gate(h, 2, width));
    return {(1.0 - z) * n + z * state[0]};
  }
  const Expr all = x + h;
  const Expr i = ops::sigmoid(gate(all, 0, width)), f = ops::sigmoid(gate(all, 1, width));
  const Expr g = ops::tanh(gate(all, 2, width)), o = ops::sigmoid(gate(all, 3, width));
  const Expr c = f * state[1] + i * g;
  Expr y = o * ops::tanh(c);
  if (w.projection.valid()) y = ops::matmul(y, swapped(w.projection, 0, 1));
  return {y, c};
}

Weights bound(Builder& in, const Weights& w) {
  const auto at = [&](Expr e) { return e.valid() ? Expr(in, e) : e; };
  return {at(w.input), at(w.hidden), at(w.inputBias), at(w.hiddenBias), at(w.projection)};
}

struct Layer {
  Expr y;                  // [time, batch, width]
  std::vector<Expr> state; // the last ones
};

Layer layer(ImportContext& c, Cell cell, Expr x, const std::vector<Expr>& start, const Weights& w,
            bool reverse) {
  const int64_t time = staticDims(c.b, {x.dims().at(0)})[0];
  const int64_t gates = cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1;
  const int64_t width = staticDims(c.b, {w.input.dims().at(0)})[0] / gates;
  const Expr inputs = dense(x, w.input, w.inputBias);
  std::vector<Expr> out = ops::forLoop(
      c.b, int64_t(0), time, ops::Values(start), [&](Builder& in, Expr i, std::span<const ValueId> carried) {
        const Expr all(in, inputs), at = reverse ? time - 1 - i : i;
        Dims one = all.dims();
        one.at(0) = 1;
        const Expr now = withoutDim(ops::dynamic_slice(all, {at, int64_t(0), int64_t(0)}, one), 0);
        std::vector<Expr> state;
        for (ValueId v : carried) state.emplace_back(in, v);
        std::vector<Expr> next = step(cell, now, state, bound(in, w), width);
        next.push_back(next[0]);
        return std::vector<ValueId>(next.begin(), next.end());
      });
  Layer result;
  result.y = reverse ? ops::flip(out.back(), std::vector<int64_t>{0}) : out.back();
  out.pop_back();
  result.state = std::move(out);
  return result;
}

template <Cell cell> ImportResults network(ImportContext& c) {
  Expr x = c.tensor("input");
  const bool lstm = cell == Cell::Lstm;
  if (c.has("batch_sizes")) c.fail("has packed sequences");
  if (c.flag("train", false) && c.real("dropout", 0) > 0)
    c.fail("has dropout between layers: export model.eval()");
  const std::vector<Expr> starts = lstm ? c.tensors("hx") : std::vector<Expr>{c.tensor("hx")};
  const std::vector<Expr> params = c.tensors("params");
  const bool first = c.flag("batch_first", false), biases = c.flag("has_biases", true);
  const int64_t layers = c.integer("num_layers", 1), directions = c.flag("bidirectional", false) ? 2 : 1;
  const bool single = x.rank() == 2;
  if (single) x = withDim(x, first ? 0 : 1);
  if (first) x = swapped(x, 0, 1);
  if (starts.size() != (lstm ? 2u : 1u) || layers < 1) c.fail("has the wrong number of states or layers");
  std::vector<std::vector<Expr>> last(starts.size());
  size_t at = 0;
  const size_t perLayer = params.size() / static_cast<size_t>(layers * directions);
  const auto next = [&] { return params.at(at++); };
  for (int64_t l = 0; l < layers; ++l) {
    std::vector<Expr> ways;
    for (int64_t d = 0; d < directions; ++d) {
      const size_t end = at + perLayer;
      Weights w{next(), next(), {}, {}, {}};
      if (biases) w.inputBias = next(), w.hiddenBias = next();
      if (at < end) w.projection = next();
      const int64_t k = l * directions + d;
      std::vector<Expr> start;
      for (const Expr& s : starts) {
        const Expr all = single ? withDim(s, 1) : s;
        start.push_back(withoutDim(sliceOf(all, 0, k, k + 1), 0));
      }
      Layer made = layer(c, cell, x, start, w, d == 1);
      ways.push_back(made.y);
      for (size_t s = 0; s < last.size(); ++s) last[s].push_back(made.state.at(s));
    }
    x = concatOf(c.b, ways, 2);
  }
  if (first) x = swapped(x, 0, 1);
  std::vector<Expr> out{reshapeTo(x, resultDims(c))};
  for (size_t s = 0; s < last.size(); ++s)
    out.push_back(reshapeTo(ops::stack(c.b, last[s], int64_t(0)), resultDims(c, s + 1)));
  return out;
}

template <Cell cell> ImportResults single(ImportContext& c) {
  const Expr x = c.tensor("input");
  const std::vector<Expr> state = cell == Cell::Lstm ? c.tensors("hx") : std::vector<Expr>{c.tensor("hx")};
  const Weights w{c.tensor("w_ih"), c.tensor("w_hh"), c.optional("b_ih"), c.optional("b_hh"), {}};
  const int64_t gates = cell == Cell::Lstm ? 4 : cell == Cell::Gru ? 3 : 1;
  if (state.empty() || (cell == Cell::Lstm && state.size() < 2)) c.fail("has the wrong number of states");
  return step(cell, dense(x, w.input, w.inputBias), state, w,
              staticDims(c.b, {w.input.dims().at(0)})[0] / gates);
}

const ImportRow kRows[] = {
    {"aten.lstm", network<Cell::Lstm>},         {"aten.gru", network<Cell::Gru>},
    {"aten.rnn_tanh", network<Cell::Tanh>},     {"aten.rnn_relu", network<Cell::Relu>},
    {"aten.lstm_cell", single<Cell::Lstm>},     {"aten.gru_cell", single<Cell::Gru>},
    {"aten.rnn_tanh_cell", single<Cell::Tanh>}, {"aten.rnn_relu_cell", single<Cell::Relu>},
};

} // namespace
} // namespace aten::recurrent

ImportRows torchRecurrentRows() { return aten::recurrent::kRows; }

} // namespace dtc
