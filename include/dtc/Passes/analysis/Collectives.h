#pragma once
// What the ops of local text that move data between devices say: their axes, dims and reductions, and what one
// execution costs.
#include "dtc/IR/OpRecord.h"
#include "dtc/Sharding/Reshard.h"

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

// The cost of one execution of a collective. Nothing if a size is unknown.
[[nodiscard]] std::optional<CollectivePrice> priceOfCollective(const Module&, OpId, const Mesh&,
                                                               const NominalMachine&);
// A collective with messages: of the others, `all_slice` is a copy of a part of the operand (localWork).
[[nodiscard]] constexpr bool sendsMessages(CollectiveKind k) {
  return hasGroups(k) && k != CollectiveKind::AllSlice;
}
// The time of one execution of any op of local text on the nominal machine: a collective's price, else the roofline.
// 0 if a size is unknown.
[[nodiscard]] double nominalSeconds(Module&, OpId, const Mesh&);
// Attribute `axes` of a collective, major to minor.
[[nodiscard]] std::vector<AxisRef> collectiveAxes(const Module&, OpId);
// The step whose price it has; Permute for ops of one message per operand.
[[nodiscard]] StepKind stepOf(CollectiveKind);

} // namespace dtc
