// The memory plan of programs of many shapes: no two buffers that live together overlap, and the arena is at most 5 %
// larger than the most that lives at once.
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/memory/PlanMemory.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace dtc;

namespace {

// A scheduled function as it is made, statement by statement; every value is one of f32[size].
struct Text {
  std::string args, results, body, yields;
  std::vector<int> sizes; // of %v0, %v1, …

  int argument(int size) {
    args += (args.empty() ? "" : ", ") + std::string("%v") + std::to_string(sizes.size()) + ": " + type(size);
    sizes.push_back(size);
    return static_cast<int>(sizes.size()) - 1;
  }
  // A value that reads others, never in place.
  int value(const std::vector<int>& reads, int size) {
    std::string binds, sums;
    for (size_t i = 0; i < reads.size(); ++i) {
      binds += (i ? ", %p" : "%p") + std::to_string(i) + " = %v" + std::to_string(reads[i]);
      sums += "    %s" + std::to_string(i) + " = sum %p" + std::to_string(i) + " : f32[]\n";
    }
    body += "  %v" + std::to_string(sizes.size()) + " = fused (" + binds + ") {kind = \"reduce\"} {\n" +
            sums + "    %y = broadcast %s0 {shape = [" + std::to_string(size) + "]} : " + type(size) +
            "\n    yield %y\n  } : " + type(size) + "\n";
    sizes.push_back(size);
    return static_cast<int>(sizes.size()) - 1;
  }
  void result(int v) {
    results += (results.empty() ? "" : ", ") + type(sizes[static_cast<size_t>(v)]);
    yields += (yields.empty() ? " %v" : ", %v") + std::to_string(v);
  }
  [[nodiscard]] std::string str() const {
    return "spmd func @main(" + args + ") -> (" + results + ") {\n" + body + "  return" + yields + "\n}\n";
  }
  static std::string type(int size) { return "f32[" + std::to_string(size) + "]"; }
};

std::optional<MemoryPlan> planOf(const Text& text) {
  Module m(standardOps());
  Diagnostics diags;
  SourceText source{"plan.dt", text.str()};
  EXPECT_TRUE(parseModule(source, standardOps(), m, diags)) << renderDiagnostics(diags, source, false);
  return makeMemoryPlan(m, m.findFunction("main"), diags);
}

bool together(const MemoryPlan::Buffer& a, const MemoryPlan::Buffer& b) {
  for (auto x : a.live)
    for (auto y : b.live)
      if (x.first <= y.last && y.first <= x.last) return true;
  return false;
}

void expectApart(const MemoryPlan& plan) {
  std::vector<const MemoryPlan::Buffer*> byOffset;
  for (const MemoryPlan::Buffer& b : plan.buffers) {
    EXPECT_EQ(b.offset % kBufferAlignment, 0);
    EXPECT_LE(b.offset + b.bytes, plan.arenaBytes);
    byOffset.push_back(&b);
  }
  std::sort(byOffset.begin(), byOffset.end(), [](auto a, auto b) { return a->offset < b->offset; });
  for (size_t i = 0; i < byOffset.size(); ++i)
    for (size_t j = i + 1;
         j < byOffset.size() && byOffset[j]->offset < byOffset[i]->offset + byOffset[i]->bytes; ++j)
      EXPECT_FALSE(byOffset[j]->bytes > 0 && together(*byOffset[i], *byOffset[j]))
          << "%" << byOffset[i]->value.index << " and %" << byOffset[j]->value.index;
}

double expectGood(const Text& text) {
  auto plan = planOf(text);
  EXPECT_TRUE(plan);
  if (!plan) return 0;
  expectApart(*plan);
  EXPECT_GE(plan->arenaBytes, plan->lowerBound);
  double ratio = static_cast<double>(plan->arenaBytes) / static_cast<double>(plan->lowerBound);
  EXPECT_LE(ratio, 1.05);
  return ratio;
}

// Values of all sizes, each read now and then for a while.
Text randomProgram(uint32_t seed, int ops, int mostRead, bool fewSizes) {
  std::mt19937 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Text t;
  for (int i = 0; i < 3; ++i) t.argument(16 + below(2000));
  for (int i = 0; i < ops; ++i) {
    std::vector<int> reads;
    for (int k = 0; k < 1 + below(3); ++k) {
      int back = 1 + (below(4) ? below(4) : below(mostRead));
      reads.push_back(std::max(0, static_cast<int>(t.sizes.size()) - back));
    }
    t.value(reads, fewSizes ? 1024 << below(4) : 16 + below(below(8) ? 1000 : 20000));
  }
  t.result(static_cast<int>(t.sizes.size()) - 1);
  return t;
}

// Forwards through layers that keep something for the way back, backwards through them, then all weights.
Text trainStep(uint32_t seed, int layers) {
  std::mt19937 random(seed);
  auto around = [&](int n) { return n + static_cast<int>(random() % static_cast<uint32_t>(n / 4)); };
  Text t;
  std::vector<int> weights, gradients;
  std::vector<std::vector<int>> kept;
  for (int i = 0; i < layers; ++i) weights.push_back(t.argument(around(4000)));
  int x = t.argument(1000);
  for (int w : weights) {
    int h = t.value({x, w}, around(4000)), big = t.value({h}, around(16000)),
        a = t.value({big, h}, around(3000));
    kept.push_back({x, h, a});
    x = t.value({a, x}, 1000);
  }
  int d = t.value({x}, 1000);
  for (size_t i = weights.size(); i-- > 0;) {
    int da = t.value({d, kept[i][2]}, around(3000)), big = t.value({da, kept[i][1]}, around(16000));
    gradients.push_back(t.value({big, kept[i][0]}, t.sizes[static_cast<size_t>(weights[i])]));
    d = t.value({big, weights[i]}, 1000);
  }
  for (size_t i = 0; i < weights.size(); ++i)
    t.result(
        t.value({weights[i], gradients[weights.size() - 1 - i]}, t.sizes[static_cast<size_t>(weights[i])]));
  return t;
}

TEST(MemoryPlan, ComesWithinFivePercentOfTheBound) {
  double worst = 0;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    for (double r :
         {expectGood(randomProgram(seed, 120, 40, false)), expectGood(randomProgram(seed, 400, 12, false)),
          expectGood(randomProgram(seed, 300, 100, true)), expectGood(trainStep(seed, 12))})
      worst = std::max(worst, r);
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(MemoryPlan, DoesSoForManyOps) {
  double random = expectGood(randomProgram(7, 20000, 30, false)), train = expectGood(trainStep(7, 2000));
  RecordProperty("ratios", std::to_string(random) + " " + std::to_string(train));
}

} // namespace
