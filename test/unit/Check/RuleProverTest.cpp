// The rule prover finds what is wrong and what is missing, and nothing else.
#include "dtc/Check/rules/RuleProver.h"
#include "dtc/IR/infer/RuleText.h"
#include "dtc/Ops/record/Ops.h"
#include <algorithm>

namespace dtc::test {
namespace {

// The standard ops with one record changed.
OpRegistry with(std::string_view op, void (*change)(OpRecord&)) {
  OpRegistry out;
  for (size_t k = 0; k < standardOps().size(); ++k) {
    OpRecord r = standardOps()[static_cast<OpKind>(k)];
    if (r.name == op) change(r);
    out.add(std::move(r));
  }
  return out;
}

bool speaksOf(const std::vector<RuleFinding>& findings, std::string_view text) {
  return std::any_of(findings.begin(), findings.end(), [&](const RuleFinding& f) { return f.text == text; });
}

TEST(RuleProver, FindsARowThatIsWrong) {
  OpRegistry ops = with("tanh", [](OpRecord& r) { r.through = {{ThroughRow::Linear}}; });
  RuleReport report = proveRules(ops, {{"tanh"}});
  EXPECT_TRUE(speaksOf(report.wrong, "tanh f32[5, 3] | P(sum) -> P(sum)"));
  EXPECT_TRUE(speaksOf(report.missing, "tanh f32[5, 3] | P(max) -> P(max)"));
}

TEST(RuleProver, FindsAFactorKindThatIsWrong) {
  OpRegistry ops = with("softmax", [](OpRecord& r) { r.rule = pointwiseRule; });
  RuleReport report = proveRules(ops, {{"softmax"}});
  EXPECT_TRUE(speaksOf(report.wrong, "softmax f32[5, 3] {dims = [1]} | S(1) -> S(1)"));
  EXPECT_FALSE(speaksOf(report.wrong, "softmax f32[5, 3] {dims = [1]} | S(0) -> S(0)"));
}

TEST(RuleProver, FindsALocalOpWithoutItsOffset) {
  OpRegistry ops = with("iota", [](OpRecord& r) { r.offsetOperand = -1; });
  RuleReport report = proveRules(ops, {{"iota"}});
  EXPECT_TRUE(speaksOf(report.wrong, "iota {dim = 0} : f32[5, 3] | -> S(0)"));
  EXPECT_FALSE(speaksOf(report.wrong, "iota {dim = 0} : f32[5, 3] | -> S(1)"));
}

TEST(RuleProver, FindsAMeanOverShardsWithoutTheGlobalCount) {
  OpRegistry ops = with("mean", [](OpRecord& r) { r.localize = nullptr; });
  EXPECT_TRUE(speaksOf(proveRules(ops, {{"mean"}}).wrong, "mean f32[5, 3] | S(0) -> P(sum)"));
}

TEST(RuleProver, FindsABiasThatIsAddedByEveryDevice) {
  OpRegistry ops = with("linear", [](OpRecord& r) { r.ruleText = "[.. i], [o i], [o] -> [.. o]"; });
  EXPECT_TRUE(speaksOf(proveRules(ops, {{"linear"}}).wrong,
                       "linear f32[4, 3], f32[5, 3], f32[5] | S(1), S(1), R -> P(sum)"));
}

TEST(RuleProver, FindsADecreasingFunctionThatIsSaidToIncrease) {
  OpRegistry ops = with("neg", [](OpRecord& r) {
    for (Through& t : r.through) t.swap = false;
  });
  EXPECT_TRUE(speaksOf(proveRules(ops, {{"neg"}}).wrong, "neg f32[5, 3] | P(max) -> P(max)"));
}

TEST(RuleProver, FindsAMaxOfInfinities) {
  OpRegistry ops = with("add", [](OpRecord& r) {
    r.through.push_back({ThroughRow::Monotone, 0b01});
    r.throughWhen = nullptr;
  });
  EXPECT_TRUE(speaksOf(proveRules(ops, {{"add"}}).wrong, "add f32[5, 3], f32[5, 3] | P(max), R -> P(max)"));
}

TEST(RuleProver, FindsARowOfOneOfSeveralResults) {
  OpRegistry ops = with("cummax", [](OpRecord& r) { r.through = {{ThroughRow::LatticeMin, 1, false, 1u}}; });
  const RuleReport report = proveRules(ops, {{"cummax"}});
  EXPECT_TRUE(std::ranges::any_of(report.wrong, [](const RuleFinding& f) {
    return f.text.find("P(min) -> P(min), _") != std::string::npos;
  }));
}

TEST(RuleProver, OfStrictInfinities) {
  const RuleReport strict = proveRules(standardOps(), {.only = {"mul"}, .nonFinite = NonFinite::Strict});
  EXPECT_TRUE(strict.wrong.empty() && strict.missing.empty());
  // A row that holds for finite factors alone is wrong there, if it is said to be of another kind.
  OpRegistry ops = with("mul", [](OpRecord& r) {
    for (Through& t : r.through)
      if (t.row == ThroughRow::Bilinear) t.row = ThroughRow::Choosing;
  });
  EXPECT_FALSE(proveRules(ops, {.only = {"mul"}, .nonFinite = NonFinite::Strict}).wrong.empty());
}

TEST(RuleMutation, ChangesAreReported) {
  for (const char* op : {"sub", "sum", "linear", "cummax"}) {
    const RuleReport report = proveRules(standardOps(), {.only = {op}, .mutate = true});
    EXPECT_GT(report.mutants, 40) << op;
    EXPECT_EQ(report.mutants,
              report.caught + static_cast<int64_t>(report.silent.size() + report.sound.size()));
    for (const auto* list : {&report.silent, &report.sound})
      for (const RuleFinding& f : *list)
        EXPECT_TRUE(f.why.find("left out") == std::string::npos &&
                    f.why.find("without join") == std::string::npos)
            << op << ": " << f.why;
  }
}

std::string judged(std::string_view claim, NonFinite nonFinite = NonFinite::Promised) {
  auto v = judgeClaims(claim, standardOps(), nonFinite);
  if (v.size() == 1 && v.front().malformed) return std::to_string(v.front().begin) + ": " + v.front().why;
  return v.size() != 1 ? "no claim" : v.front().holds ? "true" : "false";
}

TEST(RuleClaims, AreJudged) {
  EXPECT_EQ(judged("neg | P(max) -> P(min)"), "true");
  EXPECT_EQ(judged("neg | P(max) -> P(max)"), "false");
  EXPECT_EQ(judged("add | P(sum), 1.0 -> P(sum)"), "false");
  EXPECT_EQ(judged("matmul | Shard(1), Shard(0) -> Partial(sum)"), "true");
  EXPECT_EQ(judged("reshape f32[2, 4] {shape = [8]} | S(1) -> S(0, 2)"), "true");
  EXPECT_EQ(judged("sum {dims = [0]} | S(1) -> S(0)"), "true");
  EXPECT_EQ(judged("or | P(any), P(any) -> P(any) // lattice"), "true");
  EXPECT_EQ(judged("no_such_op | R -> R"), "false");
  EXPECT_EQ(judged("neg | Q -> R"), "6: 'Q' is not a placement: R, S(0), S(0, 2) or P(sum)");
}

TEST(RuleClaims, OfInfinities) {
  EXPECT_EQ(judged("mul f32[4], f32[4] | P(sum), R -> P(sum)"), "true");
  EXPECT_EQ(judged("mul f32[4], f32[4] | P(sum), R -> P(sum)", NonFinite::Strict), "false");
  EXPECT_EQ(judged("mul f32[4], 2.0 | P(sum) -> P(sum)", NonFinite::Strict), "true");
  EXPECT_EQ(judged("add f32[4], f32[4] | P(max), R -> P(max)"), "false");
  EXPECT_EQ(judged("div f32[3], 0.0 | P(max) -> P(sum)"), "false"); // the exception is of sums
}

} // namespace
} // namespace dtc::test
