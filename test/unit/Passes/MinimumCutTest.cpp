// The minimum cut against enumeration of all cuts, on random small graphs.
#include "../../../lib/Passes/analysis/MinimumCut.h"
#include <gtest/gtest.h>
#include <random>

namespace dtc {
namespace {

struct TestEdge {
  uint32_t from, to;
  int64_t capacity;
};

int64_t capacityOf(const std::vector<TestEdge>& edges, uint32_t sourceSide) {
  int64_t sum = 0;
  for (const TestEdge& e : edges)
    if ((sourceSide >> e.from & 1) && !(sourceSide >> e.to & 1)) sum += e.capacity;
  return sum;
}

TEST(MinimumCut, IsTheCheapestCut) {
  std::mt19937 rng(11);
  for (int round = 0; round < 200; ++round) {
    const uint32_t n = 3 + rng() % 7, source = n - 2, sink = n - 1;
    std::vector<TestEdge> edges;
    MinimumCut cut(n);
    for (uint32_t i = 0; i < 3 * n; ++i) {
      const TestEdge e{static_cast<uint32_t>(rng() % n), static_cast<uint32_t>(rng() % n),
                       static_cast<int64_t>(rng() % 20)};
      if (e.from == e.to) continue;
      edges.push_back(e);
      cut.edge(e.from, e.to, e.capacity);
    }
    cut.maximize(source, sink);
    uint32_t found = 0;
    for (uint32_t v = 0; v < n; ++v) found |= uint32_t(cut.reached(v)) << v;
    int64_t best = MinimumCut::kInfinite;
    for (uint32_t side = 0; side < 1u << n; ++side)
      if ((side >> source & 1) && !(side >> sink & 1)) best = std::min(best, capacityOf(edges, side));
    EXPECT_EQ(capacityOf(edges, found), best) << "round " << round;
  }
}

} // namespace
} // namespace dtc
