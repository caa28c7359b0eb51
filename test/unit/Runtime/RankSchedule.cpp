// Ranks that do not issue the same collectives in the same order are found before a run.
#include "dtc/Runtime/RankSchedule.h"

#include "dtc/IR/Text.h"
#include "dtc/Ops/Ops.h"
#include "dtc/Passes/StandardPipeline.h"
#include "dtc/Runtime/CpuBackend.h"
#include "dtc/Runtime/Executable.h"

#include <gtest/gtest.h>

using namespace dtc;

namespace {

const std::vector<int64_t> kRow0 = {0, 1}, kRow1 = {2, 3}, kColumn0 = {0, 2}, kColumn1 = {1, 3};

// A 2 x 2 mesh: both rows meet as 0 and 1, both columns as 2 and 3.
RankMeeting row(int64_t place, const char* what = "all_reduce of f32") {
  return {place < 2 ? 0U : 1U, place < 2 ? kRow0 : kRow1, what, OpId(7)};
}
RankMeeting column(int64_t place, const char* what = "all_gather of f32") {
  return {place % 2 == 0 ? 2U : 3U, place % 2 == 0 ? kColumn0 : kColumn1, what, OpId(8)};
}

std::vector<RankSchedule> allAlike() {
  std::vector<RankSchedule> ranks;
  for (int64_t p = 0; p < 4; ++p) ranks.push_back({row(p), column(p)});
  return ranks;
}

} // namespace

TEST(RankSchedule, SameOrderEverywhereGoesThrough) { EXPECT_FALSE(problemOfRanks(allAlike())); }

TEST(RankSchedule, NoRanksAndNoMeetings) {
  EXPECT_FALSE(problemOfRanks({}));
  EXPECT_FALSE(problemOfRanks(std::vector<RankSchedule>(3)));
}

// One rank that goes to its column first keeps the others waiting, but they get there; two make a ring that nobody leaves.
TEST(RankSchedule, AnotherOrder) {
  std::vector<RankSchedule> ranks = allAlike();
  std::swap(ranks[3][0], ranks[3][1]);
  EXPECT_FALSE(problemOfRanks(ranks));
  std::swap(ranks[0][0], ranks[0][1]);
  const auto problem = problemOfRanks(ranks);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, RankProblem::Waits);
  EXPECT_EQ(problem->place, 0);
  EXPECT_EQ(problem->op, OpId(8));
  EXPECT_EQ(problem->other, 2);
  EXPECT_EQ(problem->otherOp, OpId(7));
}

TEST(RankSchedule, OneRankLeavesOneOut) {
  std::vector<RankSchedule> ranks = allAlike();
  ranks[2].pop_back();
  const auto problem = problemOfRanks(ranks);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->place, 0);
  EXPECT_EQ(problem->other, 2);
  EXPECT_FALSE(problem->otherOp.valid()) << "it is at its end";
}

TEST(RankSchedule, OneRankMeansAnotherCollective) {
  std::vector<RankSchedule> ranks = allAlike();
  ranks[1][0].what = "reduce_scatter of f32";
  const auto problem = problemOfRanks(ranks);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, RankProblem::Differs);
  EXPECT_EQ(problem->place, 1);
}

TEST(RankSchedule, OneRankIsNotOfItsGroup) {
  std::vector<RankSchedule> ranks = allAlike();
  ranks[1][0].places = kColumn0;
  const auto problem = problemOfRanks(ranks);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, RankProblem::Stranger);
}

// The verifier refuses this text; the check at load does not rely on that.
TEST(RankSchedule, LoadingRefusesDevicesThatPart) {
  const char* const text = R"(mesh @m = [a=2]
spmd func @main(%x: f32[4] of f32[8] @m{a}) -> (%y: f32[4] of f32[8] @m{a}) {
  %i = axis_index {axes = [a]} : i32[]
  %p = eq %i, 0
  %y = cond %p {
    %n = all_reduce %x {axes = [a]}
    yield %n
  } {
    yield %x
  }
  return %y
}
)";
  Module m(standardOps());
  Diagnostics diags;
  ASSERT_TRUE(parseModule({"part.dt", text}, standardOps(), m, diags));
  ASSERT_TRUE(runPipeline(m, standardPipeline(Level::Local, 1, "").lower, diags, {}));
  ThreadPool pool(1);
  CpuJit jit;
  auto backend = makeCpuBackend(jit, pool, 2, {}, 1);
  auto loaded = Executable::load(m, m.findFunction("main"), *backend, pool, {});
  ASSERT_FALSE(loaded);
  EXPECT_EQ(
      loaded.error().message,
      "part.dt:5:8: 'cond': %p may send device 0 and device 1 different ways, but they meet in part.dt:6:10: "
      "'all_reduce': one would wait forever");
}
