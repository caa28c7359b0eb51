#pragma once
// The training step of a model: the loss and its gradients, over micro-batches if there are several, and the update
// of every weight by an optimizer of the library (docs/optimizers.md).
#include "dtc/Model/Model.h"
#include "dtc/Ops/Expr.h"
#include <optional>

namespace dtc {

struct ModelArgument {
  ValueId value; // of the function that computes the loss
  bool isWeight = false;
  bool isHidden = false; // a weight of a block, no embedding
};

class TrainStep {
public:
  // `loss` is a function of `m` with these arguments, whose first result is the loss.
  TrainStep(const ModelSpec& spec, Module& m, FuncId loss, std::vector<ModelArgument> arguments);
  void write(); // the function @main

private:
  struct Weight {
    std::string name;
    size_t argument = 0; // of the loss
    bool isHidden = false;
    ShardingId
        stateSharding; // of its state, its update, and with micro-batches its gradient (ModelSpec::zero)
    Expr value, gradient;
    std::vector<Expr> state;
  };
  // A function of the library as the optimizer of one weight.
  struct Update {
    const ModelOptimizer* optimizer;
    const char* function;
  };

  [[nodiscard]] StrId id(std::string_view name) { return m_.strings.intern(name); }
  Expr named(const std::string& name, Expr);
  Expr argument(const std::string& name, TypeId, ShardingId);
  // The results of an op that calls a function by name; those of the library are in no module yet.
  std::vector<Expr> resultsOf(OpId, StrId callee, const std::vector<TypeId>& types, Builder&);
  std::vector<Expr> callLibrary(const char* function, const std::vector<ValueId>& operands,
                                const std::vector<TypeId>& types);
  [[nodiscard]] ShardingId stateShardingOf(ValueId weight, bool isHidden);
  Expr inStateSharding(Expr x, const Weight&, const std::string& prefix);
  void declareArguments();
  [[nodiscard]] std::vector<Expr> lossAndGradients(Builder&, const std::vector<Expr>& operands);
  [[nodiscard]] std::vector<Expr> overMicroBatches(const std::vector<Expr>& operands);
  [[nodiscard]] Expr reducedAfterLoop(Expr sum, const Weight&);
  void clip();
  [[nodiscard]] Update updateOf(const Weight&) const;
  void update(Weight&);
  void result(const std::string& name, Expr, ShardingId, bool carried);

  const ModelSpec& spec_;
  Module& m_;
  FuncId loss_, main_;
  std::vector<ModelArgument> given_;
  std::vector<OpId> ops_;
  std::optional<Builder> body_;
  std::vector<Expr> inputs_; // by argument of the loss; weights as the loss reads them
  std::vector<Weight> weights_;
  Expr step_;
};

} // namespace dtc
