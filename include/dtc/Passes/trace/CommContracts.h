#pragma once
// Communication contracts (IR/CommContract.h), checked against the collectives that remain after
// optimize-collectives.
//
// A contract applies to the ops from its function's own text; "grad: …" to those of its gradient, including
// recomputation. For the function that takes a gradient both belong to it. Each call is counted separately,
// including nested calls and regions; a collective in a loop counts once. all_slice moves no bytes, and
// counts only if a contract names it.
#include "dtc/Passes/collectives/OptimizeCollectives.h"
#include "dtc/Passes/trace/TraceCollectives.h"

namespace dtc {

[[nodiscard]] bool hasCommContracts(const Module&);

// For local text. A violated contract is an error at the contract, with notes for its collectives and, if
// `unpropagated` is given, for the reason of each and the annotations involved. Afterwards the contracts of
// inlined calls, and the call attributes of the ops, are removed.
[[nodiscard]] bool checkCommContracts(Module&, const OptimizeCollectivesOptions&, const Unpropagated*,
                                      Diagnostics&);

// The pass: optimizeCollectives(), then checkCommContracts().
[[nodiscard]] bool optimizeCollectivesPass(Module&, const PassOptions&, Diagnostics&);

// A contract, and the collectives that it counts.
struct ContractCount {
  std::string of;       // "@layer", "@layer (call 2)"
  std::string contract; // "all_reduce(tp) <= 1"
  SourceRange location;
  int64_t limit = 0, found = 0;
  bool exactly = false; // found must equal limit; otherwise at most limit
};
// All contracts on the functions of a traced program, in program order.
[[nodiscard]] std::vector<ContractCount> countContracts(const CollectiveTrace&);

} // namespace dtc
