#include "TrainStep.h"

#include "dtc/Ops/Loop.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Ops/OpName.h"

#include <algorithm>
#include <cmath>

namespace dtc {

const std::vector<ModelOptimizer>& modelOptimizers() {
  static const std::vector<ModelOptimizer> table = {
      {"sgd", {}, 0.01, {}},
      {"momentum", {"m"}, 0.01, {0.9}},
      {"nesterov", {"m"}, 0.01, {0.9}},
      {"adam", {"m", "v"}, 0.001, {0.9, 0.999, 1e-8}, true},
      {"adamw", {"m", "v"}, 0.001, {0.9, 0.999, 1e-8, 0.01}, true},
      {"lion", {"m"}, 1e-4, {0.9, 0.99, 0.01}},
      {"muon", {"m"}, 0.02, {0.95, 0.01}},
  };
  return table;
}

static const ModelOptimizer& optimizerCalled(std::string_view name) {
  return *std::ranges::find(modelOptimizers(), name, &ModelOptimizer::name);
}

TrainStep::TrainStep(const ModelSpec& spec, Module& m, FuncId loss, std::vector<ModelArgument> arguments)
    : spec_(spec), m_(m), loss_(loss), given_(std::move(arguments)) {}

Expr TrainStep::named(const std::string& name, Expr x) {
  m_[x].name = id(name);
  return x;
}

Expr TrainStep::argument(const std::string& name, TypeId type, ShardingId sharding) {
  const ValueId v = m_.makeBlockArg(m_[main_].body, type, id(name));
  m_[v].sharding = sharding;
  m_[main_].args.emplace_back().value = v;
  return {*body_, v};
}

std::vector<Expr> TrainStep::resultsOf(OpId o, StrId callee, const std::vector<TypeId>& types, Builder& b) {
  m_[o].callee = callee;
  m_[o].parent = b.parent;
  m_.makeResults(o, types);
  b.out.push_back(o);
  std::vector<Expr> results;
  for (size_t i = 0; i < types.size(); ++i) results.emplace_back(b, m_.result(o, i));
  return results;
}

std::vector<Expr> TrainStep::callLibrary(const char* function, const std::vector<ValueId>& operands,
                                         const std::vector<TypeId>& types) {
  const OpId o = m_.makeOp(m_.registry->find(OpName("call")), operands, 0);
  return resultsOf(o, id(function), types, *body_);
}

// With ZeRO 1 and 2, dp shards one more dim than of the weight: the first that is unsharded, else the first one.
// Vectors are too small for sharding to pay off.
ShardingId TrainStep::stateShardingOf(ValueId weight, bool isHidden) {
  const ShardingId own = m_[weight].sharding;
  const size_t stacked = spec_.loop && isHidden ? 1 : 0; // the dim of blocks
  if (spec_.zero < 1 || spec_.zero > 2 || m_.typeOf(weight).rank() < 2 + stacked) return own;
  Sharding s = m_.shardings[own];
  auto dim = std::ranges::find_if(s.dims.begin() + static_cast<ptrdiff_t>(stacked), s.dims.end(),
                                  [](const DimSharding& d) { return d.parts.empty(); });
  if (dim == s.dims.end()) dim = s.dims.begin() + static_cast<ptrdiff_t>(stacked);
  dim->parts.push_back({AxisRef{id("dp")}, 0});
  return m_.shardings.intern(std::move(s));
}

// `x`, like the weight `w`, sharded as its state; x itself if that is the weight's own sharding.
Expr TrainStep::inStateSharding(Expr x, const Weight& w, const std::string& prefix) {
  if (w.stateSharding == m_[w.value].sharding) return x;
  const Expr y = ops::shard(x);
  m_[y].sharding = w.stateSharding;
  return named(prefix + w.name, y);
}

// Those of the loss, with master weights in f32, then the states, then the step.
void TrainStep::declareArguments() {
  for (size_t i = 0; i < given_.size(); ++i) {
    const Value like = m_[given_[i].value];
    const std::string name(m_.strings[like.name]);
    const bool master = given_[i].isWeight && spec_.masterWeights;
    Type type = m_.types[like.type];
    if (master) type.dtype = DType::F32;
    if (!given_[i].isWeight) type.dims[0] = Dim(type.dims[0].value() * spec_.microbatches);
    const Expr x = argument(name, m_.types.intern(std::move(type)), like.sharding);
    inputs_.push_back(x);
    if (given_[i].isWeight)
      weights_.push_back({name, i, given_[i].isHidden, stateShardingOf(x, given_[i].isHidden), x, {}, {}});
  }
  bool counts = false;
  for (Weight& w : weights_) {
    const ModelOptimizer& optimizer = *updateOf(w).optimizer;
    Type type = w.value.type();
    type.dtype = accumulationType(type.dtype);
    const TypeId state = m_.types.intern(std::move(type));
    for (const char* name : optimizer.state)
      w.state.push_back(argument(name + ("_" + w.name), state, w.stateSharding));
    counts |= optimizer.countsSteps;
  }
  if (counts) step_ = argument("step", m_.tensorType(DType::I32, std::vector<Dim>{}), {});
}

// The results of value_and_grad: the loss, and the gradient of each weight.
std::vector<Expr> TrainStep::lossAndGradients(Builder& b, const std::vector<Expr>& operands) {
  std::vector<TypeId> types = {m_[loss_].results[0].type};
  std::vector<int64_t> wrt;
  for (const Weight& w : weights_) {
    wrt.push_back(static_cast<int64_t>(w.argument));
    types.push_back(m_[given_[w.argument].value].type);
  }
  const std::vector<ValueId> values(operands.begin(), operands.end());
  const OpId o = m_.makeOp(m_.registry->find(OpName("value_and_grad")), values, 0,
                           {{id(AttributeName("wrt")), m_.attrs.integers(wrt)}});
  auto results = resultsOf(o, m_[loss_].name, types, b);
  named("loss", results[0]);
  for (size_t i = 0; i < weights_.size(); ++i) named("d_" + weights_[i].name, results[i + 1]);
  return results;
}

// With ZeRO 1, sums of micro-batches are of all rows, and reduced after the loop: the first constraint keeps
// propagation from sharding them in the loop.
Expr TrainStep::reducedAfterLoop(Expr sum, const Weight& w) {
  if (w.stateSharding == m_[w.value].sharding) return sum;
  const Expr all = ops::shard(sum);
  m_[all].sharding = m_[w.value].sharding;
  return inStateSharding(named("all_d_" + w.name, all), w, "mean_d_");
}

// The same, summed over the micro-batches in a loop and divided by their number. Micro-batch i has the rows i,
// i + n, … of the batch, so that every device has its share of each.
std::vector<Expr> TrainStep::overMicroBatches(const std::vector<Expr>& operands) {
  const int64_t n = spec_.microbatches;
  std::vector<Expr> split = operands;
  for (size_t i = 0; i < given_.size(); ++i) {
    if (given_[i].isWeight) continue;
    std::vector<Dim> shape = operands[i].dims();
    shape[0] = Dim(shape[0].value() / n);
    shape.insert(shape.begin() + 1, Dim(n));
    split[i] = named("split_" + std::string(m_.strings[m_[operands[i]].name]), reshape(operands[i], shape));
  }
  std::vector<Expr> starts;
  auto zero = [&](TypeId like) {
    Type type = m_.types[like];
    type.dtype = accumulationType(type.dtype);
    return Expr(*body_, body_->constant(0, m_.types.intern(std::move(type))));
  };
  starts.push_back(zero(m_[loss_].results[0].type));
  for (const Weight& w : weights_) starts.push_back(zero(m_[given_[w.argument].value].type));
  auto sums = ops::forLoop(*body_, 0, n, starts, [&](Builder& in, Expr i, auto carried) {
    m_[i].name = id("i");
    std::vector<Expr> own;
    for (size_t k = 0; k < split.size(); ++k)
      own.push_back(given_[k].isWeight ? Expr(in, split[k])
                                       : named("micro_" + std::string(m_.strings[m_[operands[k]].name]),
                                               index_select(Expr(in, split[k]), i, {.dim = 1})));
    std::vector<ValueId> next;
    const auto results = lossAndGradients(in, own);
    for (size_t k = 0; k < results.size(); ++k) {
      const Expr sum(in, carried[k]);
      Expr term = results[k].as(sum.dtype());
      if (k > 0 && spec_.zero == 2) term = inStateSharding(term, weights_[k - 1], "micro_d_");
      next.push_back(sum + term);
    }
    return next;
  });
  for (size_t k = 0; k < sums.size(); ++k) {
    const std::string name = k == 0 ? "loss" : "d_" + weights_[k - 1].name;
    sums[k] = named("sum_" + name, sums[k]);
    if (k > 0 && spec_.zero == 1) sums[k] = reducedAfterLoop(sums[k], weights_[k - 1]);
  }
  for (size_t k = 0; k < sums.size(); ++k) // afterwards: reductions without readers between them are combined
    sums[k] = named(k == 0 ? "loss" : "d_" + weights_[k - 1].name, sums[k] / static_cast<double>(n));
  return sums;
}

// Scales all gradients so that their global norm is at most --clip-norm.
void TrainStep::clip() {
  const TypeId scalar = m_.tensorType(DType::F32, std::vector<Dim>{});
  Expr sum;
  for (const Weight& w : weights_) {
    const Expr squares = named("square_" + w.name, callLibrary("square_sum", {w.gradient}, {scalar})[0]);
    sum = sum.valid() ? named("norm_" + w.name, sum + squares) : squares;
  }
  const Expr factor = named(
      "clip", callLibrary("clip_factor", {sum, body_->literal(spec_.clipNorm, DType::F32)}, {scalar})[0]);
  for (Weight& w : weights_)
    w.gradient =
        named("clipped_" + w.name, callLibrary("scaled", {w.gradient, factor}, {w.gradient.typeId()})[0]);
}

// Muon updates the matrices of the blocks, AdamW what is left.
TrainStep::Update TrainStep::updateOf(const Weight& w) const {
  const ModelOptimizer& o = optimizerCalled(spec_.optimizer);
  if (o.name != std::string_view("muon")) return {&o, o.name};
  if (!w.isHidden || w.value.rank() != 2) return {&optimizerCalled("adamw"), "adamw"};
  return {&o, w.value.dims()[0].value() > w.value.dims()[1].value() ? "muon_tall" : "muon"};
}

// Plain gradient descent is written out; other updates are calls of the library.
void TrainStep::update(Weight& w) {
  const auto [optimizer, function] = updateOf(w);
  const Expr old = inStateSharding(w.value, w, "own_");
  if (optimizer->name == std::string_view("sgd")) {
    const double rate = spec_.learningRate > 0 ? spec_.learningRate : optimizer->learningRate;
    const Expr step = named("step_" + w.name, w.gradient.as(w.value.dtype()) * rate);
    result(w.name, named("new_" + w.name, old - step), m_[w.value].sharding, true);
    return;
  }
  const bool isMain = optimizer->name == spec_.optimizer;
  std::vector<ValueId> operands = {old, w.gradient};
  std::vector<TypeId> types = {w.value.typeId()};
  for (const Expr& s : w.state) operands.push_back(s), types.push_back(s.typeId());
  if (optimizer->countsSteps) operands.push_back(step_);
  auto number = [&](double v) { operands.push_back(body_->literal(v, DType::F32)); };
  number(isMain && spec_.learningRate > 0 ? spec_.learningRate : optimizer->learningRate);
  for (double v : optimizer->more) number(v);
  if (optimizer->name == std::string_view("muon")) {
    const auto rows = static_cast<double>(w.value.dims()[0].value());
    number(std::sqrt(std::max(1.0, rows / static_cast<double>(w.value.dims()[1].value()))));
  }
  const auto results = callLibrary(function, operands, types);
  result(w.name, named("new_" + w.name, results[0]), m_[w.value].sharding, true);
  for (size_t i = 0; i < w.state.size(); ++i) w.state[i] = results[i + 1];
}

void TrainStep::result(const std::string& name, Expr value, ShardingId sharding, bool carried) {
  AttrList attrs;
  if (carried) attrs.push_back({id("carry"), m_.attrs.boolean(true)});
  m_[main_].results.push_back({id(name), value.typeId(), {}, sharding, std::move(attrs), {}});
  m_[m_[main_].body].yields.push_back(value);
}

void TrainStep::write() {
  main_ = FuncId(static_cast<uint32_t>(m_.functions.size()));
  Function& made = m_.functions.emplace_back();
  made.name = id("main");
  made.body = m_.makeBlock();
  m_[made.body].parentFunc = main_;
  m_.order.push_back(main_);
  Diagnostics diags;
  body_.emplace(m_, m_[main_].body, ops_, diags);
  declareArguments();
  std::vector<Expr> operands = inputs_;
  for (const Weight& w : weights_)
    if (spec_.masterWeights && w.value.dtype() != spec_.dtype)
      operands[w.argument] = named("low_" + w.name, w.value.as(spec_.dtype));
  auto results = spec_.microbatches > 1 ? overMicroBatches(operands) : lossAndGradients(*body_, operands);
  for (size_t i = 0; i < weights_.size(); ++i)
    weights_[i].gradient = inStateSharding(results[i + 1], weights_[i], "own_d_");
  result("loss", results[0], {}, false);
  if (spec_.clipNorm > 0) clip();
  for (Weight& w : weights_) update(w);
  for (Weight& w : weights_)
    for (size_t i = 0; i < w.state.size(); ++i) {
      const std::string name = updateOf(w).optimizer->state[i] + ("_" + w.name);
      result(name, named("new_" + name, w.state[i]), w.stateSharding, true);
    }
  if (step_.valid()) result("step", named("new_step", step_ + 1), {}, true);
  m_[m_[main_].body].ops = std::move(ops_);
}

} // namespace dtc
