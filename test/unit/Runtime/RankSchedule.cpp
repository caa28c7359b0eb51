// Ranks that do not issue the same collectives in the same order are found before a run.
#include "dtc/IR/verify/RankSchedule.h"

#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Runtime/run/Executable.h"

#include <gtest/gtest.h>

using namespace dtc;

namespace {

const std::vector<int64_t> kRow0 = {0, 1}, kRow1 = {2, 3}, kColumn0 = {0, 2}, kColumn1 = {1, 3};

// A 2 x 2 mesh: both rows meet as 0 and 1, both columns as 2 and 3.
RankRendezvous row(int64_t coordinate, const char* what = "all_reduce of f32") {
  return {coordinate < 2 ? 0U : 1U, coordinate < 2 ? kRow0 : kRow1, what, OpId(7)};
}
RankRendezvous column(int64_t coordinate, const char* what = "all_gather of f32") {
  return {coordinate % 2 == 0 ? 2U : 3U, coordinate % 2 == 0 ? kColumn0 : kColumn1, what, OpId(8)};
}

std::vector<RankSchedule> allAlike() {
  std::vector<RankSchedule> ranks;
  for (int64_t p = 0; p < 4; ++p) ranks.push_back({row(p), column(p)});
  return ranks;
}

} // namespace

TEST(RankSchedule, SameOrderEverywhereGoesThrough) { EXPECT_FALSE(validateRanks(allAlike())); }

TEST(RankSchedule, NoRanksAndNoRendezvous) {
  EXPECT_FALSE(validateRanks({}));
  EXPECT_FALSE(validateRanks(std::vector<RankSchedule>(3)));
}

// One rank that goes to its column first keeps the others waiting, but they get there; two make a ring that nobody leaves.
TEST(RankSchedule, AnotherOrder) {
  std::vector<RankSchedule> ranks = allAlike();
  std::swap(ranks[3][0], ranks[3][1]);
  EXPECT_FALSE(validateRanks(ranks));
  std::swap(ranks[0][0], ranks[0][1]);
  const auto problem = validateRanks(ranks);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, RankMismatch::Waits);
  EXPECT_EQ(problem->coordinate, 0);
  EXPECT_EQ(problem->op, OpId(8));
  EXPECT_EQ(problem->other, 2);
  EXPECT_EQ(problem->otherOp, OpId(7));
}

TEST(RankSchedule, OneRankLeavesOneOut) {
  std::vector<RankSchedule> ranks = allAlike();
  ranks[2].pop_back();
  const auto problem = validateRanks(ranks);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->coordinate, 0);
  EXPECT_EQ(problem->other, 2);
  EXPECT_FALSE(problem->otherOp.valid()) << "it is at its end";
}

TEST(RankSchedule, OneRankMeansAnotherCollective) {
  std::vector<RankSchedule> ranks = allAlike();
  ranks[1][0].what = "reduce_scatter of f32";
  const auto problem = validateRanks(ranks);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, RankMismatch::Differs);
  EXPECT_EQ(problem->coordinate, 1);
}

TEST(RankSchedule, OneRankIsNotOfItsGroup) {
  std::vector<RankSchedule> ranks = allAlike();
  ranks[1][0].coordinates = kColumn0;
  const auto problem = validateRanks(ranks);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, RankMismatch::Stranger);
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
  EXPECT_EQ(loaded.error().message,
            "part.dt:5:8: 'cond': %p may differ between device 0 and device 1, which share a rendezvous at "
            "part.dt:6:10: 'all_reduce': deadlock");
}

// --- Programs whose devices differ ---

namespace {

// A mesh of three devices with a function each; the axes connect two of them, or all.
std::string threeFunctions(const char* first, const char* second, const char* third) {
  std::string text = "mesh @m = [a=3]\n";
  const char* bodies[] = {first, second, third};
  for (int i = 0; i < 3; ++i)
    text += "spmd func @f" + std::to_string(i) +
            "(%x: f32[4] of f32[12] @m{a}) -> (%y: f32[4] of f32[12] @m{a}) {" +
            (i ? "program = @f0, " : "") + "devices = [" + std::to_string(i) + "]} {\n" + bodies[i] +
            "  return %x\n}\n";
  return text;
}

Module parsed(const std::string& text) {
  Module m(standardOps());
  Diagnostics diags;
  EXPECT_TRUE(parseModule({"ranks.dt", text}, standardOps(), m, diags));
  return m;
}

constexpr const char* kSum = "  %s = all_reduce %x {axes = [a]}\n";
constexpr const char* kMax = "  %m = all_reduce %x {axes = [a], op = \"max\"}\n";

} // namespace

TEST(RankReader, FunctionsShareTheNumbersOfTheirRendezvous) {
  const std::string both = std::string(kSum) + kMax;
  const Module m = parsed(threeFunctions(both.c_str(), both.c_str(), both.c_str()));
  RankReader reader(m, m.findFunction("f0"));
  ASSERT_FALSE(reader.read());
  ASSERT_EQ(reader.ranks().size(), 3U);
  for (const RankSchedule& rank : reader.ranks()) {
    ASSERT_EQ(rank.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(rank[i].number, reader.ranks()[0][i].number);
      EXPECT_EQ(rank[i].what, reader.ranks()[0][i].what);
    }
    EXPECT_NE(rank[0].what, rank[1].what);
  }
  EXPECT_FALSE(validateRanks(reader.ranks()));
}

TEST(RankReader, AnotherOrderDiffers) {
  const std::string there = std::string(kSum) + kMax, here = std::string(kMax) + kSum;
  const Module m = parsed(threeFunctions(there.c_str(), there.c_str(), here.c_str()));
  RankReader reader(m, m.findFunction("f0"));
  ASSERT_FALSE(reader.read());
  const auto problem = validateRanks(reader.ranks());
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->kind, RankMismatch::Differs);
}

// A loop with a shared collective is a rendezvous at its begin and end: two loops are not one.
TEST(RankReader, LoopsMatchOneToOne) {
  const char* const once =
      "  %l = for %i in 0..2 (%c = %x) {\n    %s = all_reduce %c {axes = [a]}\n    yield %s\n  }\n";
  const std::string twice = std::string(once) +
                            "  %k = for %i in 0..2 (%c = %l) {\n    %s = all_reduce %c {axes = "
                            "[a]}\n    yield %s\n  }\n";
  const Module same = parsed(threeFunctions(once, once, once));
  RankReader one(same, same.findFunction("f0"));
  ASSERT_FALSE(one.read());
  EXPECT_EQ(one.ranks()[1].size(), 3U) << "begin, collective, end";
  EXPECT_FALSE(validateRanks(one.ranks()));
  const Module other = parsed(threeFunctions(once, twice.c_str(), once));
  RankReader two(other, other.findFunction("f0"));
  ASSERT_FALSE(two.read());
  EXPECT_TRUE(validateRanks(two.ranks()));
}

TEST(DevicePrograms, FollowTheListOfTheMesh) {
  const Module m = parsed("mesh @m = [a=2] {devices = [9, 4]}\n"
                          "spmd func @f(%x: f32[4] of f32[8] @m{a}) -> () {devices = [4]} {\n  return\n}\n"
                          "spmd func @g(%x: f32[4] of f32[8] @m{a}) -> () {program = @f, devices = [9]} {\n"
                          "  return\n}\n");
  const DevicePrograms programs = programsOf(m, m.findFunction("f"));
  EXPECT_TRUE(programs.differ());
  EXPECT_EQ(programs.at(0), m.findFunction("g"));
  EXPECT_EQ(programs.at(1), m.findFunction("f"));
  EXPECT_EQ(programs.coordinatesOf(0), std::vector<int64_t>{1});
  EXPECT_EQ(entryOfProgram(m, m.findFunction("g")), m.findFunction("f"));
}
