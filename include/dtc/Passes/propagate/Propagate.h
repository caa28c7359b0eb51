#pragma once
// propagate: assigns a closed sharding to every value of a global module, and inserts a `reshard` at every
// change of sharding.
//
// Projects dims to factors (Projection.h), propagates axes along factors to a fixed point (user priority,
// then op priority, then basic before aggressive, as in Shardy, https://openxla.org/shardy/propagation),
// decides by a minimum cut over bytes (PendingCut.h) where pending values are reduced, and inserts a
// `reshard` wherever a value's sharding differs from the required one. Runs after autodiff, so that gradients
// get their shardings from the same rules, and before partition, which needs the shardings.
#include "dtc/IR/Homomorphism.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Sharding/Machine.h"
#include "dtc/Sharding/Projection.h"

namespace dtc {

// How conflicts are resolved (sharding.md, "How shardings are found").
enum class PropagationPolicy : uint8_t {
  Shardy,   // Shardy's order and tie-breaks
  Dtensor,  // forward only, op by op, minimum redistribution
  Cost,     // Shardy's, then local alternatives within two ops, by total price
  Explicit, // an error that lists the choices
};
[[nodiscard]] std::optional<PropagationPolicy> parsePolicy(std::string_view name);

struct PropagateOptions {
  PropagationPolicy policy = PropagationPolicy::Shardy;
  NominalMachine machine;                    // of Cost
  std::optional<DType> reduceDType;          // a sum may move past a convert to this narrower dtype only
  NonFinite nonFinite = NonFinite::Promised; // which rows let pending values through
  bool wholeAxisResults = false;             // results of functions are sharded evenly and by whole axes only
};

// Why a dim of a value is sharded: propagated from `from` through factor `factor` of op `via`, or annotated.
struct ShardingReason {
  enum Kind : uint8_t {
    Annotation,       // written on the value
    ResultAnnotation, // written on the function's result that returns the value
    Propagated,
    Cheapest, // from the cheapest form of `via`, after two factors competed for an axis
    ByPrice,  // policy cost: lowers the price of `via` and its neighbors together
  } kind = Propagated;
  ValueId value;
  uint16_t dim = 0;
  PartList parts; // the dim's list from then on
  OpId via;       // Propagated: invalid if a region's or a function's boundary
  ValueId from;   // Propagated
  std::string factor;
  double secondsBefore = 0,
         secondsAfter = 0; // ByPrice: of all affected ops, on the nominal machine
};

// An op that could not run on its tensors as sharded: the chosen form, and the alternatives.
struct FormChoice {
  std::string shardings; // "m over dp, k over tp"
  std::string moves;     // "all_gather of %x", or "" without communication
  int64_t bytes = 0;     // received per device
  double seconds = 0;    // on the nominal machine
  bool taken = false;
};
struct FormDecision {
  // What decided: the bytes that a device receives, as estimated; the sharding of most bytes of a contraction's tensors,
  // which stays; or the time with computation and memory traffic (policy cost).
  enum Why : uint8_t { Bytes, Votes, Time } why = Bytes;
  OpId op;
  std::vector<FormChoice> choices; // the chosen one first
};

// The reason of a reshard.
struct ReshardReason {
  enum Kind : uint8_t {
    Reduce,   // `cause` produced a pending value, and `needs` (or a boundary) requires it reduced
    Operand,  // `needs` requires another sharding of its operand
    Result,   // `cause` produces another sharding than its result is to have
    Boundary, // required by a return, yield, bind or constraint
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
// An op that cannot run on the annotated shardings.
struct Misfit {
  SourceRange loc;  // of the op; otherwise of the returned or yielded value
  std::string what; // "'sum' takes %x as @m{_}, but @m{a} is written"
};
// For text in which every value has a closed sharding: the first op that cannot run on the annotated
// shardings (users may write any); nothing if every op can, as after propagate.
[[nodiscard]] std::optional<Misfit> firstMisfit(const Module&);
[[nodiscard]] bool propagatePass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
