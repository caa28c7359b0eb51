#pragma once
// Where pending values are reduced (sharding.md): {pending, reduced} over the values of a region is a
// closure problem, solved exactly by a minimum cut over bytes (Picard 1976; the cut by Dinic 1970).
#include <cstdint>
#include <span>
#include <vector>

namespace dtc {

// One value that may be pending.
struct PendingNode {
  int64_t bytes = 0;              // cost of reducing it
  bool source = false;            // produced pending by an op whose sharded factor is merged: always pending
  bool mustReduce = false;        // some use needs it reduced, whatever the decision
  std::vector<uint32_t> operands; // nodes that must be pending for this one to be
  std::vector<uint32_t> users;    // nodes whose ops read this value and could take it pending
};

// For each node: whether it is pending. On equal cost, values are reduced as early as possible.
[[nodiscard]] std::vector<bool> pendingByMinimumCut(std::span<const PendingNode> nodes);

// The latest possible reduction: pending wherever all operands that must be pending are.
[[nodiscard]] std::vector<bool> pendingWhereverPossible(std::span<const PendingNode>);

} // namespace dtc
