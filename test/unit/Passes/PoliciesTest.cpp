// Every policy gives valid programs that compute what the program computed: random small ones.
#include "dtc/Check/run/Equivalence.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/collectives/OptimizeCollectives.h"
#include "dtc/Passes/partition/Partition.h"
#include "dtc/Passes/propagate/Propagate.h"

#include <gtest/gtest.h>
#include <random>

namespace dtc {
namespace {

// Programs over matrices of 6x6 and 5x6 on a mesh of 2x3, with shardings on some arguments, values and results.
class ProgramGenerator {
public:
  explicit ProgramGenerator(unsigned seed) : random_(seed) {}

  std::string text() {
    std::string args, body;
    for (int i = 0; i < 3; ++i)
      args += (i ? ", " : "") + define() + ": f32[6, 6]" + (pick(4) ? sharding(true) : "");
    const int count = 4 + pick(6);
    for (int i = 0; i < count; ++i) body += "  " + statement() + "\n";
    const std::string a = value(), b = value();
    return "mesh @m = [a=2, b=3]\n\nfunc @main(" + args + ") -> (%r: f32[6, 6]" +
           (pick(2) ? sharding(false) : "") + ", %s: f32[6, 6]) {\n" + body + "  return " + a + ", " + b +
           "\n}\n";
  }

private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string define() { return "%v" + std::to_string(values_++); }
  std::string value() { return "%v" + std::to_string(pick(values_)); }
  std::string sharding(bool pending) {
    static const char* const shardings[] = {"{a, _}", "{_, a}", "{b, _}",      "{_, b}",      "{a, b}",
                                            "{b, a}", "{_, _}", "{(a, b), _}", "{_, (a, b)}", "{?, a}"};
    static const char* const sums[] = {"{_, _ | sum(a)}", "{b, _ | sum(a)}", "{_, _ | max(b)}"};
    return std::string(" @m") + (pending && pick(5) == 0 ? sums[pick(3)] : shardings[pick(10)]);
  }
  std::string statement() {
    const std::string x = value(), y = value(), result = define();
    const std::string written = pick(6) == 0 ? " :" + sharding(false) : "";
    switch (pick(9)) {
    case 0: return result + " = add " + x + ", " + y + written;
    case 1: return result + " = mul " + x + ", " + y + written;
    case 2:
    case 3: return result + " = matmul " + x + ", " + y + written;
    case 4: return result + " = neg " + x + written;
    case 5: return result + " = tanh " + x + written;
    case 6: return result + " = transpose " + x + " {perm = [1, 0]}" + written;
    case 7: return result + " = max " + x + ", " + y + written;
    default: return result + " = softmax " + x + " {dims = [1]}" + written;
    }
  }
  std::mt19937 random_;
  int values_ = 0;
};

bool parse(const std::string& text, Module& m, Diagnostics& diags) {
  return parseModule({"random.dt", text}, standardOps(), m, diags) && verifyModule(m, diags);
}

std::string said(const Diagnostics& diags, const std::string& text) {
  return renderDiagnostics(diags, {"random.dt", text}, false) + text;
}

class Policies : public testing::TestWithParam<PropagationPolicy> {};

TEST_P(Policies, GiveValidProgramsOfTheSameMeaning) {
  PropagateOptions options;
  options.policy = GetParam();
  int done = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const std::string text = ProgramGenerator(seed).text();
    Diagnostics diags;
    Module before(standardOps());
    ASSERT_TRUE(parse(text, before, diags)) << said(diags, text);
    Module after = before;
    PropagationReport report;
    if (!propagate(after, diags, &report, options)) {
      ASSERT_EQ(GetParam(), PropagationPolicy::Explicit) << said(diags, text);
      for (const Diagnostic& d : diags.all()) EXPECT_TRUE(std::string(d.kind->id).starts_with("explicit-"));
      continue;
    }
    ++done;
    ASSERT_TRUE(verifyModule(after, diags)) << said(diags, text) << printModule(after);
    auto propagated = checkEquivalence(before, after);
    ASSERT_TRUE(propagated) << propagated.error().message << text;
    EXPECT_TRUE(propagated->differences.empty()) << propagated->differences[0] << "\n"
                                                 << text << printModule(after);
    ASSERT_TRUE(partition(after, diags) && optimizeCollectives(after, diags)) << said(diags, text);
    ASSERT_TRUE(verifyModule(after, diags)) << said(diags, text) << printModule(after);
    auto local = checkEquivalence(before, after);
    ASSERT_TRUE(local) << local.error().message << text;
    EXPECT_TRUE(local->differences.empty()) << local->differences[0] << "\n" << text << printModule(after);
  }
  if (GetParam() != PropagationPolicy::Explicit) EXPECT_EQ(done, 60);
  EXPECT_GT(done, 2);
}

INSTANTIATE_TEST_SUITE_P(All, Policies,
                         testing::Values(PropagationPolicy::Shardy, PropagationPolicy::Dtensor,
                                         PropagationPolicy::Cost, PropagationPolicy::Explicit));

} // namespace
} // namespace dtc
