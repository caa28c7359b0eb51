// What no plan of a reshard is below: the estimate that guides the search over all moves.
#include "ReshardState.h"
#include <algorithm>
#include <limits>

namespace dtc {
namespace {

// The pieces of one dim in two states, as shares of the dim: how much of its piece by `want` a device holds by `row` at
// most, of the device that holds least.
double heldShare(const PlanSpace& space, const PartRow& row, const PartRow& want) {
  auto cutBy = [&](const PartRow& r) {
    double k = 1;
    for (Part p : r)
      if (p >= 0) k *= static_cast<double>(space.sizeOf(p));
    return k;
  };
  size_t common = 0;
  while (common < row.size() && common < want.size() && row[common] == want[common]) ++common;
  const bool plain = std::all_of(row.begin(), row.end(), [](Part p) { return p >= 0; }) &&
                     std::all_of(want.begin(), want.end(), [](Part p) { return p >= 0; });
  // Where both lists go on differently, some device is cut to disjoint places by them.
  if (plain && common < row.size() && common < want.size()) return 0;
  return 1 / std::max(cutBy(row), cutBy(want));
}

// Is what is pending too much to be reduced? Reductions alone do that.
bool mustReduce(const PlanState& at, const PlanState& to) {
  return std::any_of(at.pending.begin(), at.pending.end(), [&](auto& p) {
    return std::find(to.pending.begin(), to.pending.end(), p) == to.pending.end();
  });
}

// Does an atom that cuts have to leave its place? Reductions and slices only add to the lists.
bool mustMove(const PlanState& at, const PlanState& to) {
  for (size_t d = 0; d < at.dims.size(); ++d) {
    const PartRow &row = at.dims[d], &want = to.dims[d];
    auto hasBlocks = [](const PartRow& list) {
      return std::any_of(list.begin(), list.end(), [](Part p) { return p < 0; });
    };
    const bool strided = hasBlocks(row) || hasBlocks(want);
    size_t met = 0; // of row's atoms: in strided lists others may come between them
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

// Does every usable atom that is not pending cut what is wanted, and no pending one?
bool alone(const PlanSpace& space, const PlanState& at, const PlanState& to) {
  for (size_t a = 0; a < space.atoms.size(); ++a) {
    const auto atom = static_cast<int>(a);
    const bool cuts = std::any_of(to.dims.begin(), to.dims.end(), [&](const PartRow& row) {
      return std::find(row.begin(), row.end(), atom) != row.end();
    });
    if (space.usable[a] && cuts == at.pendingOn(atom)) return false;
  }
  return true;
}

} // namespace

double lowerBound(const PlanSpace& space, const PlanState& at, const PlanState& to) {
  // Every cut is free, and so is making pending. What reduces moves no atom away, and what moves atoms reduces nothing: where both
  // must be done, these are two messages.
  const int messages = static_cast<int>(mustReduce(at, to)) + static_cast<int>(mustMove(at, to));
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
    // No element is known to anyone: each is received once; of a sum that all want, where no other devices can do a part of it for
    // these, 2(k-1)/k times (Patarasuk and Yuan 2009).
    const auto width = static_cast<double>(wireBytes(at.pending.front().second, space.dtype)) /
                       static_cast<double>(dtypeBytes(space.dtype));
    bytes = wanted * std::min(width, 1.0) * (alone(space, at, to) ? 2 * (reduced - 1) / reduced : 1);
  } else {
    double held = static_cast<double>(dtypeBytes(space.dtype));
    for (size_t d = 0; d < at.dims.size(); ++d)
      held *= heldShare(space, at.dims[d], to.dims[d]) * static_cast<double>(space.shape[d].size);
    // Uneven pieces: prices are those of the largest, shares are not.
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
