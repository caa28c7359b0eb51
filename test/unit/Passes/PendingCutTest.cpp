// The minimum cut of pending values against enumeration of all closures, on random small graphs.
#include "../../../lib/Passes/propagate/PendingCut.h"
#include <gtest/gtest.h>
#include <random>

namespace dtc {
namespace {

// Cost of an assignment: each pending value that some user (or the outside) needs reduced pays once; -1 if not allowed.
int64_t costOf(const std::vector<PendingNode>& nodes, uint32_t mask) {
  int64_t cost = 0;
  for (uint32_t v = 0; v < nodes.size(); ++v) {
    bool pending = mask >> v & 1;
    if (nodes[v].source && !pending) return -1;
    if (!pending) continue;
    for (uint32_t o : nodes[v].operands)
      if (!(mask >> o & 1)) return -1;
    bool reduce = nodes[v].mustReduce || nodes[v].users.empty();
    for (uint32_t u : nodes[v].users) reduce = reduce || !(mask >> u & 1);
    if (reduce) cost += nodes[v].bytes;
  }
  return cost;
}

std::vector<PendingNode> randomGraph(std::mt19937& rng, uint32_t n) {
  std::vector<PendingNode> nodes(n);
  for (uint32_t v = 0; v < n; ++v) {
    nodes[v].bytes = 1 + rng() % 20;
    nodes[v].mustReduce = rng() % 4 == 0;
    for (uint32_t o = 0; o < v; ++o)
      if (rng() % 3 == 0) nodes[v].operands.push_back(o), nodes[o].users.push_back(v);
    nodes[v].source = nodes[v].operands.empty();
  }
  return nodes;
}

TEST(PendingCut, IsTheCheapestClosure) {
  std::mt19937 rng(7);
  for (int round = 0; round < 300; ++round) {
    auto nodes = randomGraph(rng, 2 + round % 9);
    int64_t best = -1;
    for (uint32_t mask = 0; mask < 1u << nodes.size(); ++mask)
      if (int64_t c = costOf(nodes, mask); c >= 0 && (best < 0 || c < best)) best = c;
    uint32_t chosen = 0;
    auto pending = pendingByMinimumCut(nodes);
    for (uint32_t v = 0; v < nodes.size(); ++v) chosen |= static_cast<uint32_t>(pending[v]) << v;
    ASSERT_EQ(costOf(nodes, chosen), best) << "round " << round;
  }
}

TEST(PendingCut, ReducesEarlyWhereItCostsTheSame) {
  std::vector<PendingNode> chain(2);
  chain[0] = {.bytes = 8, .source = true, .users = {1}};
  chain[1] = {.bytes = 8, .operands = {0}};
  EXPECT_EQ(pendingByMinimumCut(chain), (std::vector<bool>{true, false}));
}

TEST(PendingCut, SumsBeforeReducing) { // two sums pending alike: one reduction of their sum instead of two
  std::vector<PendingNode> two(3);
  two[0] = {.bytes = 8, .source = true, .users = {2}};
  two[1] = {.bytes = 8, .source = true, .users = {2}};
  two[2] = {.bytes = 8, .operands = {0, 1}};
  EXPECT_EQ(pendingByMinimumCut(two), (std::vector<bool>{true, true, true}));
}

TEST(PendingCut, LongChainsNeedNoStack) {
  std::vector<PendingNode> chain(200000);
  for (uint32_t v = 0; v < chain.size(); ++v) {
    chain[v].bytes = 5;
    chain[v].source = v == 0;
    if (v > 0) chain[v].operands = {v - 1};
    if (v + 1 < chain.size()) chain[v].users = {v + 1};
  }
  EXPECT_TRUE(pendingByMinimumCut(chain)[0]);
}

} // namespace
} // namespace dtc
