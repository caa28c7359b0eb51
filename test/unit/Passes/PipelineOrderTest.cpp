// Pipeline schedules against their closed forms, with equal stages and free messages.
#include "dtc/Passes/analysis/PipelineOrder.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <map>

namespace dtc {
namespace {

using enum PipelinePhase;

PipelineShape shapeOf(int devices, int chunks, int microbatches, double forward, double backward) {
  PipelineShape s;
  s.devices = devices, s.chunks = chunks, s.microbatches = microbatches;
  const auto stages = static_cast<size_t>(s.stages());
  s.seconds[0].assign(stages, forward / chunks);
  s.seconds[1].assign(stages, backward / chunks);
  s.seconds[2].assign(stages, 0);
  return s;
}

void expectComplete(const PipelineShape& s, const std::vector<std::vector<PipelineAction>>& order,
                    int phases) {
  std::map<std::tuple<PipelinePhase, int, int>, int> times;
  for (size_t d = 0; d < order.size(); ++d)
    for (const PipelineAction& a : order[d]) {
      ++times[{a.phase, a.stage, a.microbatch}];
      EXPECT_EQ(a.stage % s.devices, static_cast<int>(d));
    }
  EXPECT_EQ(times.size(), static_cast<size_t>(phases * s.stages() * s.microbatches));
  for (const auto& [action, count] : times) EXPECT_EQ(count, 1);
}

TEST(PipelineOrder, HasTheBubbleOfItsClosedForm) {
  using enum PipelineSchedule;
  for (PipelineSchedule schedule : {GPipe, OneFOneB, Interleaved})
    for (int p : {2, 3, 4, 8})
      for (int m : {p, 2 * p, 4 * p})
        for (double backward : {1.0, 2.0, 2.7}) {
          const int chunks = schedule == Interleaved ? 3 : 1;
          const PipelineShape s = shapeOf(p, chunks, m, 1, backward);
          const auto order = pipelineOrder(schedule, s);
          expectComplete(s, order, 2);
          EXPECT_NEAR(bubbleOf(order), *closedFormBubble(schedule, s), 1e-9)
              << pipelineWordOf(schedule) << " p=" << p << " m=" << m << " B/F=" << backward;
        }
}

// Qi et al. 2023, table 2: ZB-H1 waits (p-1)(F+B-W) per step, where a backward part is split into B and W, and keeps
// the activations of p micro-batches.
TEST(PipelineOrder, ZeroBubbleWaitsAThirdOf1F1B) {
  for (int p : {2, 4, 8})
    for (int m : {2 * p, 4 * p}) {
      PipelineShape s = shapeOf(p, 1, m, 1, 1);
      s.seconds[2].assign(static_cast<size_t>(p), 1);
      s.splitsWeights = true;
      const auto order = pipelineOrder(PipelineSchedule::ZeroBubble, s);
      expectComplete(s, order, 3);
      const double waits = p - 1, busy = 3.0 * m;
      EXPECT_NEAR(bubbleOf(order), waits / (busy + waits), 1e-9) << "p=" << p << " m=" << m;
      for (const auto& actions : order) {
        int kept = 0, most = 0;
        for (const PipelineAction& a : actions) {
          kept += a.phase == Forward ? 1 : a.phase == Weights ? -1 : 0;
          most = std::max(most, kept);
        }
        EXPECT_LE(most, p);
      }
    }
}

// With other times, the best of a few list schedules; one micro-batch more may be kept.
TEST(PipelineOrder, ZeroBubbleOfUnequalTimes) {
  for (int p : {2, 4, 8})
    for (auto [backward, weights] : {std::pair(1.3, 0.7), {1.1, 0.9}, {0.9, 1.1}, {2.0, 1.0}}) {
      PipelineShape s = shapeOf(p, 1, 4 * p, 1, backward);
      s.seconds[2].assign(static_cast<size_t>(p), weights);
      s.splitsWeights = true;
      const auto order = pipelineOrder(PipelineSchedule::ZeroBubble, s);
      expectComplete(s, order, 3);
      const PipelineShape merged = shapeOf(p, 1, 4 * p, 1, backward + weights);
      EXPECT_LT(bubbleOf(order), bubbleOf(pipelineOrder(PipelineSchedule::OneFOneB, merged))) << "p=" << p;
    }
}

// The micro-batches between their forward and backward parts, whose activations a device keeps.
TEST(PipelineOrder, KeepsAsManyMicroBatchesAsTheScheduleSays) {
  const auto inFlight = [](const std::vector<PipelineAction>& actions) {
    int now = 0, most = 0;
    for (const PipelineAction& a : actions) {
      now += a.phase == Forward ? 1 : a.phase == Backward ? -1 : 0;
      most = std::max(most, now);
    }
    return most;
  };
  const PipelineShape s = shapeOf(4, 1, 12, 1, 2);
  for (int d = 0; d < 4; ++d) {
    EXPECT_EQ(inFlight(pipelineOrder(PipelineSchedule::GPipe, s)[static_cast<size_t>(d)]), 12);
    EXPECT_EQ(inFlight(pipelineOrder(PipelineSchedule::OneFOneB, s)[static_cast<size_t>(d)]), 4 - d);
  }
}

TEST(PipelineOrder, OfInferenceHasNoBackwardParts) {
  PipelineShape s = shapeOf(3, 1, 5, 1, 0);
  s.hasBackward = false;
  const auto order = pipelineOrder(PipelineSchedule::OneFOneB, s);
  expectComplete(s, order, 1);
  EXPECT_NEAR(bubbleOf(order), 2.0 / 7, 1e-9);
}

TEST(PipelineOrder, FindsOrdersThatWouldWaitForever) {
  const PipelineShape s = shapeOf(2, 1, 1, 1, 1);
  std::vector<std::vector<PipelineAction>> order = {{{Backward, 0, 0}, {Forward, 0, 0}},
                                                    {{Forward, 1, 0}, {Backward, 1, 0}}};
  EXPECT_FALSE(setPipelineTimes(s, order));
}

} // namespace
} // namespace dtc
