#pragma once
// The interpreter of both evaluators: every op runs on every device of a context before the next op does. A
// global program has one device and no mesh; `local` opens its own context.
#include "dtc/Eval/Eval.h"

#include "Env.h"
#include "EvaluateRule.h"

#include <unordered_map>

namespace dtc {

using TensorRef = std::shared_ptr<const Tensor>; // devices with equal values share them

struct Context {
  const Mesh* mesh = nullptr;
  int64_t numDevices = 1;
  int64_t numRunning = numDevices; // those that run the function
};
using DeviceSet = std::vector<int64_t>; // device coordinates, ascending: those that run the current block

// An op with everything that is the same on all devices and in all iterations of a loop.
struct PreparedOp {
  OpQuery query;
  std::vector<TypeId> resultTypes;
  bool concrete = true; // otherwise `rule` is not set: sizes must be bound first
  PreparedRule rule;
};

class Interpreter {
public:
  Interpreter(Module& m, const EvalOptions& options);

  // Binds symbols from the shapes of the arguments; args[d][i]. Sets the results of `devices`.
  [[nodiscard]] Status runFunction(FuncId f, const Context&, const DeviceSet& devices,
                                   std::span<const std::vector<TensorRef>> args,
                                   std::vector<std::vector<TensorRef>>& results);
  // A tensor as stored by the evaluator: with R64, floats as f64.
  [[nodiscard]] TensorRef hold(Tensor t) const;

  // --- for Control.cpp and Collectives.cpp ---
  struct OpRun { // one op on the devices that run it
    const Context& context;
    OpId op;
    const DeviceSet& devices;
  };
  Module& module() { return m_; }
  [[nodiscard]] const TensorRef& value(ValueId v, int64_t device) const { return values_[v.index][device]; }
  void setValue(ValueId v, int64_t device, TensorRef t);
  [[nodiscard]] Env envOf(const Context& c, int64_t device) const;
  [[nodiscard]] Status runBlock(const Context&, BlockId, const DeviceSet&);
  // Sets the values of symbols; returns the previous ones.
  std::vector<std::pair<StrId, int64_t>> swapSizes(std::vector<std::pair<StrId, int64_t>> sizes) {
    return std::exchange(symbols_, std::move(sizes));
  }
  [[nodiscard]] Status runAlone(const OpRun& run);          // the operands are set
  [[nodiscard]] Status runCollectiveHere(const OpRun& run); // on these devices, which are all of its groups
  // Called for each collective that sends, if set: other functions may share it.
  std::function<Status(const OpRun&)> collective;
  [[nodiscard]] Error errorAt(OpId op, std::string_view what) const;
  [[nodiscard]] DType heldDType(DType d) const { return dtc::heldDType(d, options_.precision); }
  [[nodiscard]] bool r64() const { return options_.precision == Precision::R64; }
  // The shape of a value's type on a device.
  [[nodiscard]] Result<std::vector<int64_t>> shapeOn(OpId op, ValueId v, const Context&,
                                                     int64_t device) const;

private:
  [[nodiscard]] Status runOp(const OpRun&);
  [[nodiscard]] Status runPlain(const OpRun&);
  [[nodiscard]] Status makeOperand(const OpRun&, ValueId v);
  [[nodiscard]] Status makeSize(const OpRun&, ValueId v);
  [[nodiscard]] Result<const PreparedOp*> prepare(OpId op);
  [[nodiscard]] Result<std::vector<Tensor>> runOn(const OpRun&, const PreparedOp&, int64_t device);
  void planReleases(BlockId block);
  void release(BlockId block, size_t position);
  void trace(const OpRun&) const;
  void amendCollective(const OpRun&);

  Module& m_;
  const EvalOptions& options_;
  std::vector<std::pair<StrId, int64_t>> symbols_;
  std::vector<std::vector<TensorRef>> values_; // [value][device]
  std::unordered_map<OpId, std::unique_ptr<PreparedOp>> prepared_;
  uint64_t nudges_ = 0; // number of perturbed tensors so far
  // values whose last use is op i of the block
  std::unordered_map<BlockId, std::vector<std::vector<ValueId>>> releases_;
};

// Control flow and calls (Control.cpp).
[[nodiscard]] Status runControl(Interpreter&, const Interpreter::OpRun&);
// Collectives and ops that return the device coordinate (Collectives.cpp).
[[nodiscard]] Status runCollective(Interpreter&, const Interpreter::OpRun&);

} // namespace dtc
