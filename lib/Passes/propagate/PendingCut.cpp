#include "propagate/PendingCut.h"
#include <algorithm>
#include <limits>
#include <queue>

namespace dtc {

namespace {

constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

class FlowGraph {
public:
  explicit FlowGraph(uint32_t nodes) : first_(nodes, kNone) {}

  void edge(uint32_t from, uint32_t to, int64_t capacity) {
    edges_.push_back({to, first_[from], capacity});
    first_[from] = static_cast<uint32_t>(edges_.size() - 1);
    edges_.push_back({from, first_[to], 0});
    first_[to] = static_cast<uint32_t>(edges_.size() - 1);
  }

  void maximize(uint32_t source, uint32_t sink) {
    while (layer(source, sink)) {
      next_ = first_;
      while (augment(source, sink)) {}
    }
  }

  // After maximize: the nodes reachable from the source in the residual graph, the smallest source side of
  // all minimum cuts.
  [[nodiscard]] bool reached(uint32_t node) const { return level_[node] != kNone; }

private:
  static constexpr uint32_t kNone = ~0u;
  struct Edge {
    uint32_t to, next;
    int64_t capacity;
  };

  bool layer(uint32_t source, uint32_t sink) {
    level_.assign(first_.size(), kNone);
    level_[source] = 0;
    std::queue<uint32_t> work;
    work.push(source);
    while (!work.empty()) {
      uint32_t n = work.front();
      work.pop();
      for (uint32_t e = first_[n]; e != kNone; e = edges_[e].next)
        if (edges_[e].capacity > 0 && level_[edges_[e].to] == kNone) {
          level_[edges_[e].to] = level_[n] + 1;
          work.push(edges_[e].to);
        }
    }
    return level_[sink] != kNone;
  }

  // One augmenting path along the layers, found iteratively (a chain of ops may be 100,000 long).
  bool augment(uint32_t source, uint32_t sink) {
    std::vector<uint32_t> path;
    uint32_t n = source;
    while (n != sink) {
      uint32_t& e = next_[n];
      while (e != kNone && (edges_[e].capacity <= 0 || level_[edges_[e].to] != level_[n] + 1))
        e = edges_[e].next;
      if (e != kNone) {
        path.push_back(e);
        n = edges_[e].to;
        continue;
      }
      if (path.empty()) return false;
      n = edges_[path.back() ^ 1].to; // a dead end: back up, and do not visit it again
      next_[n] = edges_[next_[n]].next;
      path.pop_back();
    }
    int64_t flow = kInfinite;
    for (uint32_t e : path) flow = std::min(flow, edges_[e].capacity);
    for (uint32_t e : path) edges_[e].capacity -= flow, edges_[e ^ 1].capacity += flow;
    return true;
  }

  std::vector<Edge> edges_; // each edge is followed by its reverse: e ^ 1
  std::vector<uint32_t> first_, next_, level_;
};

} // namespace

// Two flow nodes per value v: "v is pending" (2v) and "v is nowhere reduced" (2v+1); source side = true.
// Cutting 2v -> 2v+1 means that v is reduced once, for all its users.
std::vector<bool> pendingByMinimumCut(std::span<const PendingNode> nodes) {
  auto count = static_cast<uint32_t>(nodes.size());
  uint32_t source = 2 * count, sink = source + 1;
  FlowGraph graph(sink + 1);
  for (uint32_t v = 0; v < count; ++v) {
    const PendingNode& node = nodes[v];
    graph.edge(2 * v, 2 * v + 1, std::max<int64_t>(node.bytes, 1));
    if (node.source) graph.edge(source, 2 * v, kInfinite);
    if (node.mustReduce || node.users.empty()) graph.edge(2 * v + 1, sink, kInfinite);
    for (uint32_t u : node.users) graph.edge(2 * v + 1, 2 * u, kInfinite);
    for (uint32_t o : node.operands) graph.edge(2 * v, 2 * o, kInfinite);
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
