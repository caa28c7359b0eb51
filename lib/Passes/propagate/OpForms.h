#pragma once
// The form of each op once the sharding variables are solved: the axes of its factors, and which values stay
// pending.
#include "dtc/IR/Homomorphism.h"
#include "dtc/Sharding/Machine.h"
#include "propagate/PropagationState.h"

namespace dtc {

// The factors of one op as it runs, and the resulting shardings of its operands and results.
struct OpForm {
  std::vector<PartList> factors; // of the relation's rule
  // required dims of each operand, dims of each result
  std::vector<std::vector<DimSharding>> operands, results;
  std::vector<PendingAxis> reduced; // axes of sharded factors that are summed over …
  // … and those of them on which each result is pending
  std::vector<std::vector<PendingAxis>> reducedOn;
  std::vector<PendingAxis> passed; // pending axes that pass through, if the minimum cut says so …
  std::vector<bool> takesPending;  // … in these operands (made pending if they are not)
  std::vector<std::vector<PendingAxis>> passedOn; // the pending axes of the results: neg turns max into min
  std::vector<bool> joins; // operands that must be pending on `reduced` (the bias of linear)
};

// What contributes to the price of a form.
struct FormPricing {
  // If factors of a contraction compete for an axis: axes that all its operands agree on stay, and the sum is
  // scattered if the result is sharded otherwise; else, as in Shardy's insert-explicit-reshards, the factor
  // that shards most bytes of the op's tensors wins. A weight sharded for tensor parallelism therefore stays
  // sharded next to activations of any size.
  bool votes = false;
  bool freeResults = false;    // a result dim that is still open is free, whatever its sharding
  bool freeReductions = false; // and so is leaving a result pending
  // If set: the full price in picoseconds, including each device's compute and memory traffic; otherwise
  // bytes received.
  const NominalMachine* machine = nullptr;
  // By variable: whether its tensors follow the op's sharding. Empty: none do.
  const std::vector<bool>* freeVars = nullptr;
};

struct PricedForm {
  OpForm form;
  int64_t price = 0;  // in the unit of the pricing
  int64_t moved = 0;  // bytes received by each device, estimated
  size_t order = 0;   // order of discovery
  bool voted = false; // by FormPricing::votes
};

// Gives an open dim of `held` the op's sharding, if that extends what the dim has.
void takeOpenDims(Sharding& held, const Sharding& given, const Mesh&);

// True if all tensors of the relation are on one mesh, and none is inside a `local` region. (Only `reshard`
// crosses meshes, and it has no forms: false for it.)
[[nodiscard]] bool onOneMesh(const PropagationState&, const Relation&);

// Chooses the sharding of the factors: the axes that all tensors agree on; on conflicts, the combination that
// moves the fewest bytes, except for votes.
[[nodiscard]] OpForm chooseForm(const PropagationState&, const Relation&, const FormPricing&);

// The form in which every tensor of the relation has its variable's sharding; nothing if there is none.
[[nodiscard]] std::optional<OpForm> formAsWritten(const PropagationState&, const Relation&);

// All forms (at most 64), cheapest first; ties in the order in which chooseForm prefers them.
[[nodiscard]] std::vector<PricedForm> pricedForms(const PropagationState&, const Relation&,
                                                  const FormPricing&);
[[nodiscard]] PricedForm cheapestForm(const PropagationState&, const Relation&, const FormPricing&);

// Decides for the forms of all ops which results stay pending; clears `passed` of the others.
// `keepPending[v]`: value v is pending (source or passed) and at least one user reads it pending;
// `needsReduced[v]`: at least one use needs it reduced.
struct PendingDecision {
  std::vector<bool> keepPending, needsReduced; // by value
};
struct PendingOptions {
  bool late = false; // instead of the minimum cut: reduce as late as possible
  std::optional<DType> reduceDType;
  NonFinite nonFinite = NonFinite::Promised;
};
[[nodiscard]] PendingDecision decidePending(PropagationState&, std::vector<OpForm>& forms,
                                            const PendingOptions& = {});

[[nodiscard]] int64_t globalBytes(const Module&, ValueId); // a symbolic size counts as 128

} // namespace dtc
