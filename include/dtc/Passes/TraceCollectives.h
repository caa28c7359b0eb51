#pragma once
// From the collectives of the program of one device back to the ops of the global program that need them.
#include "dtc/Passes/OptimizeCollectives.h"
#include "dtc/Passes/Propagate.h"
#include "dtc/Sharding/Reshard.h"

namespace dtc {

struct TracedCollective {
  OpId op; // in `local`
  FuncId function;
  // The ops of `propagated` that it was made for: `reshard`s, or ops that communicate by themselves. Several where one
  // message does for all.
  std::vector<OpId> sources;
  // How often it runs in one call of the function: 1, or the trips of the loops around it; nothing where those are not
  // known before the run. Of a branch: as if it were taken.
  std::optional<int64_t> count;
  // Of one run, on the device that receives most. Nothing where a size is not known.
  std::optional<CollectivePrice> price;
};

struct CollectiveTrace {
  Module propagated, local;                  // `local` after optimize-collectives
  PropagationReport report;                  // empty where the program came propagated
  std::vector<TracedCollective> collectives; // in program order; without all_slice, which moves nothing
};

// `global` is a global or propagated program without calls and gradients. Nothing after what is wrong was reported.
[[nodiscard]] std::optional<CollectiveTrace> traceCollectives(const Module& global, const PropagateOptions&,
                                                              const OptimizeCollectivesOptions&,
                                                              Diagnostics&);

// The collectives of local text by themselves: `sources` stay empty.
[[nodiscard]] std::vector<TracedCollective> collectivesOf(const Module& local, const NominalMachine&);

// What one run of a collective costs. Nothing where a size is not known.
[[nodiscard]] std::optional<CollectivePrice> priceOfCollective(const Module&, OpId, const Mesh&,
                                                               const NominalMachine&);
// Attribute `axes` of a collective, major to minor.
[[nodiscard]] std::vector<AxisRef> collectiveAxes(const Module&, OpId);
// "all_reduce", also of its start.
[[nodiscard]] std::string_view collectiveName(const Module&, OpId);

} // namespace dtc
