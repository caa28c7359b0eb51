#include "propagate/PendingCut.h"
#include "analysis/MinimumCut.h"
#include <algorithm>

namespace dtc {

// Two flow nodes per value v: "v is pending" (2v) and "v is nowhere reduced" (2v+1); source side = true.
// Cutting 2v -> 2v+1 means that v is reduced once, for all its users.
std::vector<bool> pendingByMinimumCut(std::span<const PendingNode> nodes) {
  auto count = static_cast<uint32_t>(nodes.size());
  uint32_t source = 2 * count, sink = source + 1;
  MinimumCut graph(sink + 1);
  for (uint32_t v = 0; v < count; ++v) {
    const PendingNode& node = nodes[v];
    graph.edge(2 * v, 2 * v + 1, std::max<int64_t>(node.bytes, 1));
    if (node.source) graph.edge(source, 2 * v, MinimumCut::kInfinite);
    if (node.mustReduce || node.users.empty()) graph.edge(2 * v + 1, sink, MinimumCut::kInfinite);
    for (uint32_t u : node.users) graph.edge(2 * v + 1, 2 * u, MinimumCut::kInfinite);
    for (uint32_t o : node.operands) graph.edge(2 * v, 2 * o, MinimumCut::kInfinite);
  }
  graph.maximize(source, sink);
  std::vector<bool> pending(count);
  for (uint32_t v = 0; v < count; ++v) pending[v] = graph.reached(2 * v);
  return pending;
}

// The largest closed set: removes nodes that cannot be pending, then those that require them.
std::vector<bool> pendingWhereverPossible(std::span<const PendingNode> nodes) {
  std::vector<bool> pending(nodes.size(), true);
  std::vector<std::vector<uint32_t>> needs(nodes.size());
  std::vector<uint32_t> leaving;
  for (uint32_t v = 0; v < nodes.size(); ++v) {
    for (uint32_t o : nodes[v].operands) needs[o].push_back(v);
    if (!nodes[v].source && nodes[v].operands.empty()) leaving.push_back(v), pending[v] = false;
  }
  while (!leaving.empty()) {
    const uint32_t v = leaving.back();
    leaving.pop_back();
    for (uint32_t u : needs[v])
      if (pending[u] && !nodes[u].source) pending[u] = false, leaving.push_back(u);
  }
  return pending;
}

} // namespace dtc
