#pragma once
// Communication contracts (IR/CommContract.h): counted among the collectives that are left after optimize-collectives.
//
// A contract speaks of the ops that came from its function's own text; "grad: …" of those of the gradient that somebody takes
// of it, with what the gradient computes again. For the function that takes a gradient both are its own. Each call is
// counted by itself, with what the function calls in turn and the blocks of its regions; a collective in a loop counts once.
// all_slice moves nothing, and counts only where a contract names it.
#include "dtc/Passes/OptimizeCollectives.h"
#include "dtc/Passes/TraceCollectives.h"

namespace dtc {

[[nodiscard]] bool hasCommContracts(const Module&);

// Of local text. What breaks a contract is an error at the contract, with the collectives and, where `unpropagated` is
// given, the reasons of each and the annotations that are involved. Contracts of calls that were inlined are done with
// then: they and the ops' memory of the calls are taken away.
[[nodiscard]] bool checkCommContracts(Module&, const OptimizeCollectivesOptions&, const Unpropagated*,
                                      Diagnostics&);

// A contract, and what it counts.
struct ContractCount {
  std::string of;       // "@layer", "@layer (call 2 of it)"
  std::string contract; // "all_reduce(tp) <= 1"
  SourceRange place;
  int64_t limit = 0, found = 0;
  bool exactly = false; // found must be limit, else no more than that
};
// All that stand on the functions of a traced program, in their order.
[[nodiscard]] std::vector<ContractCount> countContracts(const CollectiveTrace&);

} // namespace dtc
