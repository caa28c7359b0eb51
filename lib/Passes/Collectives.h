#pragma once
// The steps of optimize-collectives. Each works on the spmd functions of a module; private to lib/Passes.
#include "dtc/IR/Builder.h"
#include "dtc/Passes/OptimizeCollectives.h"

namespace dtc {

// The kinds that the steps know by name.
struct CollectiveKinds {
  explicit CollectiveKinds(const OpRegistry& ops)
      : allReduce(ops.find("all_reduce")), allGather(ops.find("all_gather")), allSlice(ops.find("all_slice")),
        reduceScatter(ops.find("reduce_scatter")), allToAll(ops.find("all_to_all")),
        constant(ops.find("constant")) {}
  OpKind allReduce, allGather, allSlice, reduceScatter, allToAll, constant;
};

// Attribute `axes`, major to minor.
[[nodiscard]] std::vector<AxisRef> axesOf(const Module&, OpId);
// A dim that may be written from either end, counted from 0.
[[nodiscard]] int64_t dimOf(const Module&, OpId, std::string_view name = "dim");
// The reduction of an all_reduce or reduce_scatter as it is written, or its default.
[[nodiscard]] AttrId reductionOf(Module&, OpId);

// What the device receives that receives most from others of a p2p whose operands are of so many bytes; of another op, all.
[[nodiscard]] int64_t mostReceived(const Module&, OpId, std::span<const int64_t> operandBytes);

// Moves collectives whose operands no trip changes before the loop, and the reduction of what a loop adds up after it.
void hoistCollectives(Module&, std::span<const FuncId> functions, Diagnostics&);
// One round of dropping, sharing and joining; true where something changed. Each round leaves fewer or cheaper ones.
[[nodiscard]] bool joinCollectives(Module&, std::span<const FuncId>, Diagnostics&);
// Many small messages become one, where the fixed costs saved are more than the copies.
void bucketCollectives(Module&, FuncId, const OptimizeCollectivesOptions&, Diagnostics&);

// The examples of the pass row, but for the first.
[[nodiscard]] std::vector<PassExample> optimizeCollectivesExamples();

} // namespace dtc
