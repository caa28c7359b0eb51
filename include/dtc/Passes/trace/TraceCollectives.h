#pragma once
// Traces the collectives of the local program back to the ops of the global program that need them.
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/collectives/OptimizeCollectives.h"
#include "dtc/Passes/propagate/Propagate.h"

namespace dtc {

struct TracedCollective {
  OpId op; // in `local`
  FuncId function;
  // The ops of `propagated` that it was created for: `reshard`s, or ops that communicate internally. Several
  // if collectives were merged.
  std::vector<OpId> sources;
  // The executions per call of the function: 1, or the iteration count of the enclosing loops; nothing if
  // that is unknown at compile time. Of a conditional, the branch that takes longer is taken (Branches.h).
  std::optional<int64_t> count;
  int64_t counted = 1; // as `count`, but an unknown iteration count counts once: for sums
  // The cost of one execution, on the device that receives most. Nothing if a size is unknown.
  std::optional<CollectivePrice> price;
  size_t position = 0; // in program order, with all_slice
};

struct CollectiveTrace {
  Module propagated, local;                  // `local` after optimize-collectives
  PropagationReport report;                  // empty if the input was already propagated
  std::vector<TracedCollective> collectives; // in program order
  std::vector<std::string> assumed;          // symbols of the entry that are kNominalSymbol in `local`
  std::vector<TracedCollective> slices;      // each all_slice, which moves no bytes
};

// `global` is a global or propagated program without calls and gradients. Nothing after an error was
// reported.
[[nodiscard]] std::optional<CollectiveTrace> traceCollectives(const Module& global, const PropagateOptions&,
                                                              const OptimizeCollectivesOptions&, Diagnostics&,
                                                              FuncId entry);

// The ops of `propagated` that an op of CollectiveTrace::local was created for; empty if none is known.
[[nodiscard]] std::vector<OpId> sourcesOf(const Module& local, OpId);

// The collectives of local text alone: `sources` are empty. Each branch of a conditional counts as taken; of
// `countedCollectivesOf`, the one that takes longer.
[[nodiscard]] std::vector<TracedCollective> collectivesOf(const Module& local, const NominalMachine&);
[[nodiscard]] std::vector<TracedCollective> countedCollectivesOf(Module& local, const NominalMachine&);

} // namespace dtc
