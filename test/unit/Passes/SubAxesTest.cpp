// Sub-axes of one axis in any order, other axes between them, axes of size 1: the ops that merge dims, by every policy.
#include "dtc/Check/run/Equivalence.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/Pass.h"
#include "dtc/Passes/autodiff/Autodiff.h"
#include "dtc/Passes/collectives/OptimizeCollectives.h"
#include "dtc/Passes/partition/Partition.h"
#include "dtc/Passes/propagate/Propagate.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace dtc {
namespace {

struct SubAxesProgram {
  const char* name;
  const char* text; // `$` stands for a sharding of rank 2
};

const SubAxesProgram kPrograms[] = {
    {"sum", "func @main(%x: f32[8, 12] $) -> (f32[]) {\n  %s = sum %x\n  return %s\n}"},
    {"max", "func @main(%x: f32[8, 12] $) -> (f32[8]) {\n  %s = max %x {dims = [1]}\n  return %s\n}"},
    {"mean", "func @main(%x: f32[7, 12] $) -> (f32[12]) {\n  %s = mean %x {dims = [0]}\n  return %s\n}"},
    {"any", "func @main(%x: bool[8, 12] $) -> (bool[8]) {\n  %s = any %x {dims = [1]}\n  return %s\n}"},
    {"argmax", "func @main(%x: f32[8, 10] $) -> (i32[8]) {\n  %s = argmax %x {dim = 1}\n  return %s\n}"},
    {"softmax",
     "func @main(%x: f32[8, 12] $) -> (f32[8, 12]) {\n  %y = softmax %x {dims = [1]}\n  return %y\n}"},
    {"logsumexp", "func @main(%x: f32[8, 12] $) -> (f32[]) {\n  %y = logsumexp %x\n  return %y\n}"},
    {"cumsum", "func @main(%x: f32[8, 12] $) -> (f32[8, 12]) {\n  %y = cumsum %x {dim = 0}\n  return %y\n}"},
    {"matmul",
     "func @main(%x: f32[8, 12] $, %w: f32[12, 6] $) -> (f32[8, 6]) {\n  %y = matmul %x, %w\n  return %y\n}"},
    {"chain", "func @main(%x: f32[8, 8] $, %w: f32[8, 8] $) -> (%y: f32[8, 8] $) {\n  %h = matmul %x, %w\n  "
              "%t = neg %h\n"
              "  %u = matmul %t, %w\n  %y = add %u, %x\n  return %y\n}"},
    {"linear",
     "func @main(%x: f32[8, 12] $, %w: f32[6, 12] $, %b: f32[6]) -> (f32[8, 6]) {\n  %y = linear %x, %w, %b\n"
     "  return %y\n}"},
    {"conv", "func @main(%v: f32[8, 12] $, %w: f32[4, 4, 3]) -> (f32[2, 4, 10]) {\n  %x = reshape %v {shape "
             "= [2, 4, 12]}\n"
             "  %y = conv %x, %w\n  return %y\n}"},
    {"scatter",
     "func @main(%x: f32[8, 12] $, %i: i32[8, 12] $, %u: f32[8, 12] $) -> (f32[8, 12]) {\n  %j = mod %i, 8\n"
     "  %y = scatter %x, %j, %u {dim = 0, reduce = \"sum\"}\n  return %y\n}"},
    {"mean_gradient",
     "func @f(%x: f32[8, 12] $, %w: f32[12, 8] $) -> (f32[]) {\n  %h = matmul %x, %w\n  %t = tanh %h\n"
     "  %s = mean %t\n  return %s\n}\nfunc @main(%x: f32[8, 12] $, %w: f32[12, 8] $) -> (f32[], f32[8, 12], "
     "f32[12, 8]) {\n  %s, %dx, %dw = value_and_grad @f(%x, %w)\n  return %s, %dx, %dw\n}"},
    {"max_gradient",
     "func @f(%x: f32[8, 12] $) -> (f32[]) {\n  %m = max %x {dims = [1]}\n  %s = sum %m\n  return %s\n}\n"
     "func @main(%x: f32[8, 12] $) -> (f32[], f32[8, 12]) {\n  %s, %dx = value_and_grad @f(%x)\n"
     "  return %s, %dx\n}"},
};

class Shardings {
public:
  explicit Shardings(unsigned seed) : random_(seed) {
    static const std::vector<const char*> kMeshes[] = {
        {"a=4", "a:(1)2", "a:(2)2"},
        {"a=4, b=2", "a:(1)2", "a:(2)2", "b"},
        {"one=1, a=4, b=3", "a:(1)2", "one", "a:(2)2", "b"},
        {"a=8, one=1", "a:(1)2", "a:(2)2", "a:(4)2", "one"},
        {"a=6, b=2", "a:(1)3", "a:(3)2", "b"},
    };
    parts_ = kMeshes[pick(std::size(kMeshes))];
    mesh_ = parts_[0];
    parts_.erase(parts_.begin());
  }
  [[nodiscard]] const std::string& mesh() const { return mesh_; }

  // Each part on a dim or nowhere, in any order.
  std::string next() {
    std::ranges::shuffle(parts_, random_);
    std::string dims[2];
    for (const char* part : parts_)
      if (const size_t d = pick(5); d < 4)
        dims[d / 2] += (dims[d / 2].empty() ? "" : ", ") + std::string(part);
    std::string text;
    for (const std::string& d : dims) text += (text.empty() ? "" : ", ") + (d.empty() ? "_" : "(" + d + ")");
    return "@m{" + text + "}";
  }

private:
  size_t pick(size_t n) { return random_() % n; }
  std::mt19937 random_;
  std::vector<const char*> parts_;
  std::string mesh_;
};

std::string textOf(const SubAxesProgram& p, unsigned seed) {
  Shardings shardings(seed);
  std::string text = "mesh @m = [" + shardings.mesh() + "]\n";
  for (const char c : std::string_view(p.text)) text += c == '$' ? shardings.next() : std::string(1, c);
  return text + "\n";
}

std::string saidOf(const Diagnostics& diags, const std::string& text) {
  return renderDiagnostics(diags, {"subaxes.dt", text}, false) + text;
}

class SubAxes : public testing::TestWithParam<std::tuple<SubAxesProgram, PropagationPolicy>> {};

TEST_P(SubAxes, AnyOrder) {
  const auto& [program, policy] = GetParam();
  PropagateOptions options;
  options.policy = policy;
  for (unsigned seed = 0; seed < 16; ++seed) {
    const std::string text = textOf(program, seed);
    Diagnostics diags;
    Module before(standardOps());
    ASSERT_TRUE(parseModule({"subaxes.dt", text}, standardOps(), before, diags) &&
                verifyModule(before, diags))
        << saidOf(diags, text);
    Module after = before;
    ASSERT_TRUE(autodiffPass(after, {}, diags) && propagate(after, diags, nullptr, options))
        << saidOf(diags, text);
    const std::string propagated = printModule(after);
    ASSERT_TRUE(verifyModule(after, diags)) << saidOf(diags, text) << propagated;
    const auto misfit = firstMisfit(after);
    ASSERT_FALSE(misfit) << misfit->what << "\n" << text << propagated;
    Module again(standardOps());
    ASSERT_TRUE(parseModule({"again.dt", propagated}, standardOps(), again, diags))
        << saidOf(diags, propagated);
    ASSERT_EQ(printModule(again), propagated);
    ASSERT_TRUE(partition(after, diags) && optimizeCollectives(after, diags)) << saidOf(diags, propagated);
    ASSERT_TRUE(verifyModule(after, diags)) << saidOf(diags, text) << propagated << printModule(after);
    auto report = checkEquivalence(before, after);
    ASSERT_TRUE(report) << report.error().message << text;
    EXPECT_TRUE(report->differences.empty()) << report->differences[0] << "\n" << text << printModule(after);
  }
}

std::string nameOf(const testing::TestParamInfo<SubAxes::ParamType>& info) {
  static const char* const names[] = {"shardy", "dtensor", "cost"};
  return std::string(std::get<0>(info.param).name) + "_" +
         names[static_cast<size_t>(std::get<1>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(Ops, SubAxes,
                         testing::Combine(testing::ValuesIn(kPrograms),
                                          testing::Values(PropagationPolicy::Shardy,
                                                          PropagationPolicy::Dtensor,
                                                          PropagationPolicy::Cost)),
                         nameOf);

} // namespace
} // namespace dtc
