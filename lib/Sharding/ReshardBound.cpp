// A lower bound on the cost of any plan of a reshard: the heuristic of the exhaustive search.
#include "ReshardState.h"
#include <algorithm>
#include <limits>

namespace dtc {
// The shards of one dim in two states, as fractions of the dim: the max fraction of its shard by `want` that
// a device holds by `row`, for the device that holds the least.
static double heldShare(const PlanSpace& space, const PartRow& row, const PartRow& want) {
  auto shardedBy = [&](const PartRow& r) {
    double k = 1;
    for (Part p : r)
      if (p >= 0) k *= static_cast<double>(space.sizeOf(p));
    return k;
  };
  size_t common = 0;
  while (common < row.size() && common < want.size() && row[common] == want[common]) ++common;
  const bool plain = std::ranges::all_of(row, [](Part p) { return p >= 0; }) &&
                     std::ranges::all_of(want, [](Part p) { return p >= 0; });
  // If both lists continue with different axes, they assign disjoint parts to some device.
  if (plain && common < row.size() && common < want.size()) return 0;
  return 1 / std::max(shardedBy(row), shardedBy(want));
}

// Whether pending axes must be reduced; only reductions do that.
static bool mustReduce(const PlanState& at, const PlanState& to) {
  return std::ranges::any_of(at.pending, [&](auto& p) {
    return std::find(to.pending.begin(), to.pending.end(), p) == to.pending.end();
  });
}

// Whether a shard axis must leave its position. Reductions and slices only append to the lists.
static bool mustLeave(const PlanState& at, const PlanState& to) {
  for (size_t d = 0; d < at.dims.size(); ++d) {
    const PartRow &row = at.dims[d], &want = to.dims[d];
    auto hasBlocks = [](const PartRow& list) {
      return std::ranges::any_of(list, [](Part p) { return p < 0; });
    };
    const bool strided = hasBlocks(row) || hasBlocks(want);
    size_t met = 0; // counts row's atoms; strided lists may have others in between
    for (size_t i = 0; i < want.size(); ++i) {
      while (met < row.size() && row[met] < 0) ++met;
      if (met < row.size() && row[met] == want[i])
        ++met;
      else if (!strided && met < row.size())
        return true;
    }
    if (met < row.size()) return true;
  }
  return false;
}

// Whether every usable atom that is not pending shards the target, and no pending atom does.
static bool alone(const PlanSpace& space, const PlanState& at, const PlanState& to) {
  for (size_t a = 0; a < space.atoms.size(); ++a) {
    const auto atom = static_cast<int>(a);
    const bool sharded = std::ranges::any_of(
        to.dims, [&](const PartRow& row) { return std::find(row.begin(), row.end(), atom) != row.end(); });
    if (space.usable[a] && sharded == at.pendingOn(atom)) return false;
  }
  return true;
}

double lowerBound(const PlanSpace& space, const PlanState& at, const PlanState& to) {
  // Slices cost little, and making pending is free. Reductions move no atom, and steps that move atoms reduce nothing:
  // if both are needed, there are at least two messages.
  const int messages = static_cast<int>(mustReduce(at, to)) + static_cast<int>(mustLeave(at, to));
  if (messages == 0) return 0;
  double latency = std::numeric_limits<double>::infinity(), bandwidth = 0;
  for (const AxisRef& a : space.atoms) {
    latency = std::min(latency, space.machine.linkOf(a).latencySeconds);
    bandwidth = std::max(bandwidth, space.machine.linkOf(a).bytesPerSecond);
  }
  const auto wanted = static_cast<double>(space.localBytes(to));
  double bytes = 0, reduced = 1;
  for (const auto& p : at.pending) {
    if (std::find(to.pending.begin(), to.pending.end(), p) != to.pending.end()) continue;
    reduced *= static_cast<double>(space.sizeOf(p.first));
  }
  if (reduced > 1) {
    // Without prior data, each element is received once; for a sum that is wanted everywhere, if no other
    // devices can share the work, 2(k-1)/k times (Patarasuk and Yuan 2009).
    const auto width = static_cast<double>(commBytes(at.pending.front().second, space.dtype)) /
                       static_cast<double>(dtypeBytes(space.dtype));
    bytes = wanted * std::min(width, 1.0) * (alone(space, at, to) ? 2 * (reduced - 1) / reduced : 1);
  } else {
    double held = static_cast<double>(dtypeBytes(space.dtype));
    for (size_t d = 0; d < at.dims.size(); ++d)
      held *= heldShare(space, at.dims[d], to.dims[d]) * static_cast<double>(space.shape[d].size);
    // Uneven shards: costs are those of the largest shard, fractions are not.
    bytes = std::max(0.0, wanted - held - (wanted - held) * 1e-9);
    bool even = true;
    for (size_t d = 0; d < at.dims.size(); ++d)
      for (const PartRow* row : {&at.dims[d], &to.dims[d]})
        even = even && space.shape[d].size % std::max<int64_t>(1, space.productOf(*row)) == 0;
    if (!even) bytes /= 2;
  }
  return messages * (space.machine.launchSeconds + latency) + bytes / bandwidth;
}

} // namespace dtc
