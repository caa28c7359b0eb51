#pragma once
// The steps of optimize-collectives. Each works on the spmd functions of a module.
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/collectives/OptimizeCollectives.h"

namespace dtc {

// The op kinds that the steps use.
struct CollectiveKinds {
  explicit CollectiveKinds(const OpRegistry& ops)
      : allReduce(ops.find(CollectiveKind::AllReduce)), allGather(ops.find(CollectiveKind::AllGather)),
        allSlice(ops.find(CollectiveKind::AllSlice)), reduceScatter(ops.find(CollectiveKind::ReduceScatter)),
        allToAll(ops.find(CollectiveKind::AllToAll)) {}
  OpKind allReduce, allGather, allSlice, reduceScatter, allToAll;
};

// Attribute `axes`, major to minor.
[[nodiscard]] std::vector<AxisRef> axesOf(const Module&, OpId);
// A dim, normalized to be non-negative.
[[nodiscard]] int64_t dimOf(const Module&, OpId, std::string_view name = "dim");
// The reduction of an all_reduce or reduce_scatter: as written, or its default.
[[nodiscard]] AttrId reductionOf(Module&, OpId);

// For a p2p with operands of these sizes: the max bytes that a device receives from others; for another op:
// all bytes.
[[nodiscard]] int64_t maxReceivedBytes(const Module&, OpId, std::span<const int64_t> operandBytes);

// Hoists loop-invariant collectives before the loop, and moves the reduction of an accumulated sum after it.
void hoistCollectives(Module&, std::span<const FuncId> functions, Diagnostics&);
// One round of erasing, merging and combining; true if something changed. Each round leaves fewer or cheaper
// collectives.
[[nodiscard]] bool joinCollectives(Module&, std::span<const FuncId>, Diagnostics&);
// Buckets small collectives if the fixed costs saved exceed the copies.
void bucketCollectives(Module&, FuncId, const OptimizeCollectivesOptions&, Diagnostics&);

} // namespace dtc
