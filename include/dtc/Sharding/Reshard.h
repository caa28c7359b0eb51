#pragma once
// Changes of sharding as plans: a shortest path over the basic collectives under a machine's prices (sharding.md §4). The
// price of a reshard is the price of its plan. Pure values: partition turns the steps into ops.
#include "dtc/Sharding/Machine.h"
#include "dtc/Sharding/Wire.h"

namespace dtc {

enum class StepKind : uint8_t {
  AllGather,
  AllSlice,
  AllToAll,
  ReduceScatter,
  AllReduce,
  Permute,
  MakePending
};
[[nodiscard]] std::string_view stepName(StepKind); // "all_gather", …, "make_pending"

// A place within the local tensor: dim `dim` seen as [before, size, after…], row-major; `before` is the product of the
// unsharded factors that are major to it (1 unless the list is strided), and `blocks` the size of the factor that is cut
// or grown, or 0 where it is all the rest of the dim.
struct StepSlot {
  int dim = 0;
  int64_t before = 1;
  int64_t blocks = 0;
  [[nodiscard]] bool wholeDim() const { return before == 1 && blocks == 0; }
  friend bool operator==(const StepSlot&, const StepSlot&) = default;
};

struct ReshardStep {
  StepKind kind = StepKind::AllGather;
  std::vector<AxisRef> axes;          // major to minor, as the collective's attribute
  PendingKind op = PendingKind::None; // of AllReduce, ReduceScatter, MakePending
  // Where pieces are put together (AllGather, AllToAll), and where they are cut (AllSlice, ReduceScatter, AllToAll).
  StepSlot concat, split;
  std::vector<std::pair<int64_t, int64_t>> pairs; // Permute: from, to; row-major indices along `axes`
  Sharding result;                                // canonical
  int64_t bytesReceived = 0;                      // per device, of the largest piece
  double latencySeconds = 0;
  double price = 0; // seconds on the nominal machine
};

struct ReshardPlan {
  std::vector<ReshardStep> steps; // empty: nothing to do
  double price = 0;               // seconds
  int64_t bytesReceived = 0;      // per device
  int64_t peakBytes = 0;          // per device: greatest sum of a step's operand and result
};

// A global size as the planner sees it: a symbolic one has a nominal size, and is known to be divisible by its coefficient.
struct PlannedSize {
  int64_t size = 1;
  int64_t divisor = 1; // of the true size; a static size is its own
};
[[nodiscard]] std::vector<PlannedSize> plannedSizes(std::span<const Dim> globalShape, const DimTable&);
[[nodiscard]] std::vector<PlannedSize> plannedSizes(std::span<const int64_t> globalShape);

struct ReshardOptions {
  int maxExpansions = 400;  // states looked into per memory bound …
  int maxComplete = 2000;   // … and by the search over all moves, which makes the price a shortest path
  int maxCompleteAtoms = 6; // more sub-axes than these: that search is left out
};

// How a step sees local dim `dim`: the products of sizes, ascending, at which it is split into factors, major to minor. With
// cuts {2, 8} a local dim of 16 is seen as [2, 4, 2]; the slot with `before` blocks is the factor that begins at that cut.
// {} where the dim is seen as it is.
[[nodiscard]] std::vector<int64_t> viewCuts(const ReshardStep&, int dim);

// From and to are valid on the shape, closed, and on the same mesh. Plans never hold more than the larger of the two
// pieces where a path below that bound exists; else the bound is doubled until one does.
[[nodiscard]] ReshardPlan planReshard(const Sharding& from, const Sharding& to, const Mesh&,
                                      std::span<const PlannedSize> shape, DType dtype,
                                      const NominalMachine& = {}, const ReshardOptions& = {});

// Seconds and received bytes of one collective over `axes`, on operands of `inBytes` and results of `outBytes` per device.
struct CollectivePrice {
  int64_t bytesReceived = 0;
  double latencySeconds = 0, seconds = 0;
};
[[nodiscard]] CollectivePrice priceOf(StepKind, std::span<const AxisRef> axes, int64_t inBytes,
                                      int64_t outBytes, const Mesh&, const NominalMachine&);

} // namespace dtc
