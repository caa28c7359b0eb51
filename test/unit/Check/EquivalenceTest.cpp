// checkEquivalence: equal programs pass on every level, and what differs is found.
#include "dtc/Check/run/Equivalence.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Ops/record/Ops.h"

#include <gtest/gtest.h>

namespace dtc {
namespace {

Module parsed(std::string text) {
  Module m(standardOps());
  Diagnostics diags;
  SourceText source{"test.dt", std::move(text)};
  EXPECT_TRUE(parseModule(source, standardOps(), m, diags)) << renderDiagnostics(diags, source, false);
  return m;
}

EquivalenceReport compare(const char* before, const char* after) {
  Module a = parsed(before), b = parsed(after);
  auto report = checkEquivalence(a, b);
  EXPECT_TRUE(report.ok()) << (report ? "" : report.error().message);
  return report ? *report : EquivalenceReport{};
}

constexpr const char* kGlobal = R"(
mesh @m = [a=3]
func @f(%x: f32[4, 7], %w: f32[7, 5]) -> (%y: f32[4, 5]) {
  %y = matmul %x, %w
  return %y
})";

TEST(Equivalence, APartitionedProgramIsEqual) {
  EquivalenceReport report = compare(kGlobal, R"(
mesh @m = [a=3]
spmd func @f(%x: f32[4, 7/a] of f32[4, 7] @m{_, a}, %w: f32[7/a, 5] of f32[7, 5] @m{a, _})
    -> (%y: f32[4, 5] of f32[4, 5] @m{_, _}) {
  %0 = matmul %x, %w : f32[4, 5]
  %y = all_reduce %0 {axes = [a]} : f32[4, 5]
  return %y
})");
  EXPECT_EQ(report.functions, 1);
  EXPECT_TRUE(report.differences.empty()) << report.differences[0];
}

TEST(Equivalence, APendingResultCountsAsItsSum) {
  EquivalenceReport report = compare(kGlobal, R"(
mesh @m = [a=3]
spmd func @f(%x: f32[4, 7/a] of f32[4, 7] @m{_, a}, %w: f32[7/a, 5] of f32[7, 5] @m{a, _})
    -> (%y: f32[4, 5] of f32[4, 5] @m{_, _ | sum(a)}) {
  %y = matmul %x, %w : f32[4, 5]
  return %y
})");
  EXPECT_TRUE(report.differences.empty()) << report.differences[0];
}

TEST(Equivalence, AWrongReductionIsFound) {
  EquivalenceReport report = compare(kGlobal, R"(
mesh @m = [a=3]
spmd func @f(%x: f32[4, 7/a] of f32[4, 7] @m{_, a}, %w: f32[7/a, 5] of f32[7, 5] @m{a, _})
    -> (%y: f32[4, 5] of f32[4, 5] @m{_, _}) {
  %0 = matmul %x, %w : f32[4, 5]
  %y = all_reduce %0 {axes = [a], op = "max"} : f32[4, 5]
  return %y
})");
  ASSERT_EQ(report.differences.size(), 1u);
  EXPECT_TRUE(report.differences[0].starts_with("@f, result %y: ")) << report.differences[0];
}

TEST(Equivalence, SmallerIntegersWhereLargerOnesAreOutOfRange) {
  const char* pick = R"(
func @pick(%t: f32[3, 2], %i: i32[4]) -> (%y: f32[4, 2]) {
  %y = index_select %t, %i {dim = 0}
  return %y
})";
  EXPECT_TRUE(compare(pick, pick).differences.empty());
}

TEST(Equivalence, SymbolsAreBound) {
  const char* before = "func @f(%x: f32[B, 3]) -> (%y: f32[B, 3]) { %y = neg %x return %y }";
  const char* after = "func @f(%x: f32[B, 3]) -> (%y: f32[B, 3]) { %y = abs %x return %y }";
  EXPECT_TRUE(compare(before, before).differences.empty());
  EXPECT_EQ(compare(before, after).differences.size(), 1u);
}

TEST(Equivalence, NothingLeftToCompareIsAnError) {
  Module a = parsed("func @f(%x: f32[2]) -> (%y: f32[2]) { return %x }");
  Module b = parsed("func @g(%x: f32[2]) -> (%y: f32[2]) { return %x }");
  EXPECT_FALSE(checkEquivalence(a, b).ok());
}

} // namespace
} // namespace dtc
