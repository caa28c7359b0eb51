#pragma once
// How each op runs once the sharding variables are solved: how its factors are cut, and which values stay pending.
#include "PropagationState.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/Sharding/Machine.h"

namespace dtc {

// One op's factors as it runs, and what follows for its operands and results.
struct OpForm {
  std::vector<PartList> factors;                           // of the relation's rule
  std::vector<std::vector<DimSharding>> operands, results; // dims each operand must have, each result gets
  std::vector<PendingAxis> reduced;                        // axes of cut factors that are summed over …
  std::vector<std::vector<PendingAxis>> reducedOn;         // … and of these what each result is pending on
  std::vector<PendingAxis> passed; // pending that goes through, if the minimum cut says so …
  std::vector<bool> takesPending;  // … in these operands (made pending where they are not)
  std::vector<std::vector<PendingAxis>>
      passedOn;            // what the results are then pending on: neg makes of max min
  std::vector<bool> joins; // operands that must be pending on `reduced` (bias of linear)
};

// What a form is charged for.
struct FormPricing {
  // Where factors of a contraction want one axis: what its operands are all cut along stays so, and the sum
  // is scattered where the result is cut otherwise; else, as in Shardy's insert-explicit-reshards, the factor that cuts most
  // bytes of the op's tensors so already has it. A weight that is cut for tensor parallelism stays so beside activations of
  // any size.
  bool votes = false;
  bool freeResults = false;    // a result dim that is still open costs nothing, however it comes out
  bool freeReductions = false; // nor does leaving a result pending
  // Set: the whole price in picoseconds, with what each device computes, reads and writes; else bytes received.
  const NominalMachine* machine = nullptr;
  // By variable: its tensors take whatever sharding the op has for them. Empty: none do.
  const std::vector<bool>* freeVars = nullptr;
};

struct PricedForm {
  OpForm form;
  int64_t price = 0; // as the pricing says
  int64_t moved = 0; // bytes received by each device, estimated
  size_t order = 0;  // in which it was met
};

// An open dim of `held` takes what an op gives, if that goes on from what the dim has.
void takeOpenDims(Sharding& held, const Sharding& given, const Mesh&);

// Are all tensors of the relation on one mesh, and none inside of a `local` region? (Across meshes only `reshard` goes, which has no forms; false for none.)
[[nodiscard]] bool onOneMesh(const PropagationState&, const Relation&);

// Chooses the factors' cuts: what all tensors agree on; where they differ, the combination that moves the fewest bytes, but for
// votes.
[[nodiscard]] OpForm chooseForm(const PropagationState&, const Relation&, const FormPricing&);

// The form in which every tensor of the relation has the sharding that its variable has; nothing where there is none.
[[nodiscard]] std::optional<OpForm> formAsWritten(const PropagationState&, const Relation&);

// All forms (at most 64), the cheapest first; those of one price in the order in which chooseForm prefers them.
[[nodiscard]] std::vector<PricedForm> pricedForms(const PropagationState&, const Relation&,
                                                  const FormPricing&);
[[nodiscard]] PricedForm cheapestForm(const PropagationState&, const Relation&, const FormPricing&);

// Decides for all ops' forms which results stay pending; clears `passed` of those that do not.
// `keepPending[v]`: value v is pending (source or passed) and at least one user takes it so;
// `needsReduced[v]`: at least one use needs it reduced.
struct PendingDecision {
  std::vector<bool> keepPending, needsReduced; // by value
};
struct PendingOptions {
  bool late = false; // instead of the minimum cut, whatever an op can take pending it takes so
  std::optional<DType> reduceDType;
  NonFinite nonFinite = NonFinite::Promised;
};
[[nodiscard]] PendingDecision decidePending(PropagationState&, std::vector<OpForm>& forms,
                                            const PendingOptions& = {});

[[nodiscard]] int64_t globalBytes(const Module&, ValueId); // a symbolic size counts as 128

} // namespace dtc
