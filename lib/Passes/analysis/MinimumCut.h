#pragma once
// A minimum cut of a directed graph (E. Dinic, "Algorithm for solution of a problem of maximum flow in networks
// with power estimation", 1970).
#include <cstdint>
#include <limits>
#include <vector>

namespace dtc {

class MinimumCut {
public:
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  explicit MinimumCut(uint32_t nodes) : first_(nodes, kNone) {}
  void edge(uint32_t from, uint32_t to, int64_t capacity);
  void maximize(uint32_t source, uint32_t sink);
  // After maximize: the nodes reachable from the source in the residual graph, the smallest source side of
  // all minimum cuts.
  [[nodiscard]] bool reached(uint32_t node) const { return level_[node] != kNone; }

private:
  static constexpr uint32_t kNone = ~0u;
  struct Edge {
    uint32_t to, next;
    int64_t capacity;
  };
  bool layer(uint32_t source, uint32_t sink);
  bool augment(uint32_t source, uint32_t sink);

  std::vector<Edge> edges_; // each edge is followed by its reverse: e ^ 1
  std::vector<uint32_t> first_, next_, level_;
};

} // namespace dtc
