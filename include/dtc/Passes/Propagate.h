#pragma once
// propagate: gives every value of a global module a closed sharding and makes every change of sharding an op.
//
// Projects dims to factors (Projection.h), moves axes along factors to a fixed point (user priority, then op priority, then
// basic before aggressive, as in Shardy, https://openxla.org/shardy/propagation), decides where pending values are reduced
// by a minimum cut over bytes (PendingCut.h), and puts a `reshard` wherever what an op gives differs from what is wanted.
// Runs after autodiff, so that gradients get their shardings from the same rules, and before partition, which needs them.
#include "dtc/IR/Homomorphism.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Sharding/Machine.h"
#include "dtc/Sharding/Projection.h"

namespace dtc {

// What settles conflicts (sharding.md, "How shardings are found").
enum class PropagationPolicy : uint8_t {
  Shardy,   // Shardy's order and tie-breaks
  Dtensor,  // forward only, op by op, least redistribution
  Cost,     // Shardy's, then local alternatives within two ops, by whole price
  Explicit, // an error that lists the choices
};
[[nodiscard]] std::optional<PropagationPolicy> parsePolicy(std::string_view name);

struct PropagateOptions {
  PropagationPolicy policy = PropagationPolicy::Shardy;
  NominalMachine machine; // of Cost
  std::optional<DType>
      reduceDType; // a sum may be moved past a convert to this narrower dtype, and past no other
  NonFinite nonFinite = NonFinite::Promised; // which rows let pending values through
};

// Why a dim of a value is cut: the axes came from `from` through factor `factor` of op `via`; or from an annotation.
struct ShardingReason {
  enum Kind : uint8_t {
    Annotation,       // written on the value
    ResultAnnotation, // written on the function's result that the value is returned as
    Propagated,
    Cheapest, // what the cheapest form of `via` gives, where two factors wanted one axis
    ByPrice,  // policy cost: so `via` and its neighbours cost less together
  } kind = Propagated;
  ValueId value;
  uint16_t dim = 0;
  PartList parts; // the list that the dim had from then on
  OpId via;       // Propagated: invalid where a region's or a function's boundary carried it
  ValueId from;   // Propagated
  std::string factor;
  double secondsBefore = 0,
         secondsAfter = 0; // ByPrice: of all that the choice touched, on the nominal machine
};

// An op that could not run on its tensors as they are: how it runs, and how it could have.
struct FormChoice {
  std::string cuts;   // "m over dp, k over tp"
  std::string moves;  // "all_gather of %x", or "" where nothing moves
  int64_t bytes = 0;  // received per device
  double seconds = 0; // on the nominal machine
  bool taken = false;
};
struct FormDecision {
  OpId op;
  std::vector<FormChoice> choices; // the one that was taken first
};

// Why a reshard stands where it stands.
struct ReshardReason {
  enum Kind : uint8_t {
    Reduce,   // `cause` produced a pending value, and `needs` (or a boundary) must have it reduced
    Operand,  // `needs` runs on operands cut otherwise
    Result,   // what `cause` gives is not what its result's sharding says
    Boundary, // a return, yield, bind or constraint asks for it
  } kind = Operand;
  OpId reshard;
  OpId cause;        // producer; may be invalid
  OpId needs;        // consumer; may be invalid
  int64_t bytes = 0; // estimated bytes received per device
};

struct PropagationReport {
  std::vector<ShardingReason> shardings; // in the order they were found
  std::vector<ReshardReason> reshards;   // in program order
  std::vector<FormDecision> decisions;   // likewise
  std::vector<uint32_t>
      variable; // by value: values that share a sharding (carried ones) have the same number
};

[[nodiscard]] bool propagate(Module&, Diagnostics&, PropagationReport* report = nullptr,
                             const PropagateOptions& = {});
// An op that cannot run on the shardings that are written.
struct Misfit {
  SourceRange loc;  // of the op; else of the value that is returned or yielded otherwise
  std::string what; // "'sum' takes %x as @m{_}, but @m{a} is written"
};
// Of text in which every value has a closed sharding: the first op that cannot run on what is written (people may write
// any shardings); nothing where each can, as propagate leaves text.
[[nodiscard]] std::optional<Misfit> firstMisfit(const Module&);
[[nodiscard]] bool propagatePass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo propagateInfo();

} // namespace dtc
