#pragma once
// Plans for changes of sharding: a shortest path over the basic collectives with the machine's costs
// (sharding.md). The price of a reshard is the price of its plan. Plans are pure values; partition turns
// the steps into ops.
#include "dtc/Sharding/CommDType.h"
#include "dtc/Sharding/Machine.h"

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

// A position in the local tensor: dim `dim` viewed as [before, size, after…], row-major. `before` is the
// product of the unsharded factors that are major to it (1 unless the list is strided), and `blocks` the size
// of the factor that is sharded or gathered, or 0 for the rest of the dim.
struct StepSlot {
  int dim = 0;
  int64_t before = 1;
  int64_t blocks = 0;
  friend bool operator==(const StepSlot&, const StepSlot&) = default;
};

struct ReshardStep {
  StepKind kind = StepKind::AllGather;
  std::vector<AxisRef> axes;          // major to minor, as the collective's attribute
  PendingKind op = PendingKind::None; // of AllReduce, ReduceScatter, MakePending
  // Where shards are gathered (AllGather, AllToAll), and where they are split (AllSlice, ReduceScatter,
  // AllToAll).
  StepSlot concat, split;
  std::vector<std::pair<int64_t, int64_t>> pairs; // Permute: from, to; row-major indices along `axes`
  Sharding result;                                // canonical
  int64_t bytesReceived = 0;                      // per device, for the largest shard
  double latencySeconds = 0;
  double price = 0; // seconds on the nominal machine
};

struct ReshardPlan {
  std::vector<ReshardStep> steps; // empty: no change
  double price = 0;               // seconds
  int64_t bytesReceived = 0;      // per device
  int64_t peakBytes = 0;          // per device: max over the steps of operand plus result
};

inline constexpr int64_t kNominalSymbol = 1024; // the assumed size of a symbol

// A global size as the planner sees it: a symbolic one has a nominal size and is divisible by its
// coefficient.
struct PlannedSize {
  int64_t size = 1;
  int64_t divisor = 1; // of the actual size; for a static size the size itself
};
[[nodiscard]] std::vector<PlannedSize> plannedSizes(std::span<const Dim> globalShape, const DimTable&);
[[nodiscard]] std::vector<PlannedSize> plannedSizes(std::span<const int64_t> globalShape);

struct ReshardOptions {
  int maxExpansions = 400;  // states expanded per memory bound …
  int maxComplete = 2000;   // … and by the exhaustive search over all steps, whose result is a shortest path
  int maxCompleteAtoms = 6; // the exhaustive search is skipped for more sub-axes than these
};

// How a step views local dim `dim`: the products of sizes, ascending, at which it is split into factors,
// major to minor. With {2, 8} a local dim of 16 is viewed as [2, 4, 2]; the slot with `before` blocks is the
// factor that begins there. {} if the dim is not split.
[[nodiscard]] std::vector<int64_t> viewSplits(const ReshardStep&, int dim);

// `from` and `to` must be closed, valid on the shape, and on the same mesh. A plan never holds more than the
// larger of the two shards if a path within that bound exists; otherwise the bound is doubled until one
// exists.
[[nodiscard]] ReshardPlan planReshard(const Sharding& from, const Sharding& to, const Mesh&,
                                      std::span<const PlannedSize> shape, DType dtype,
                                      const NominalMachine& = {}, const ReshardOptions& = {});

// Seconds and received bytes of one collective over `axes`, with operands of `inBytes` and results of
// `outBytes` per device. An `all_slice` is a copy (localWork has the same price), `make_pending` is free.
struct CollectivePrice {
  int64_t bytesReceived = 0;
  double latencySeconds = 0, seconds = 0;
  bool differs = false; // other devices receive less
};
[[nodiscard]] CollectivePrice priceOf(StepKind, std::span<const AxisRef> axes, int64_t inBytes,
                                      int64_t outBytes, const Mesh&, const NominalMachine&);

} // namespace dtc
