// Every op's generated kernel compiles for the GPUs that dtc names, and keeps its numbers in registers. Skipped where NVRTC is
// not installed; compiled kernels are kept in the cache, so that only changed ones cost.
#include "KernelCases.h"
#include "dtc/Cuda/FitKernels.h"
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Ops/record/Samples.h"
#include "dtc/Passes/split/Split.h"

namespace dtc {
namespace {

class Resources : public testing::TestWithParam<const char*> {};

TEST_P(Resources, NoKernelSpills) {
  Nvrtc nvrtc;
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  const OpRegistry& ops = standardOps();
  std::deque<OpSample> samples;
  KernelSet set({.target = targetNamed(GetParam())->withoutLibraries(), .otherSchedules = true});
  const bool all = GetParam() == std::string_view("sm_90a"); // narrow ones differ by conversions alone
  for (DType dtype : all ? std::vector{DType::F32, DType::BF16} : std::vector{DType::F32})
    for (OpKind k = 0; k < ops.size(); ++k) {
      const Lowering how = ops[k].lowering;
      if (how != Lowering::Loops && how != Lowering::Rows && how != Lowering::Library) continue;
      for (OpSample& s : opSamples(ops, k, dtype)) {
        Module& m = samples.emplace_back(std::move(s)).module;
        const FuncId f = samples.back().func;
        m[f].spmd = true;
        Diagnostics diags;
        ASSERT_TRUE(splitPass(m, {{{"parts", "false"}}}, diags) && fusePass(m, {{{"limit", "1"}}}, diags));
        for (OpId o : std::vector<OpId>(m[m[f].body].ops))
          if (m.record(o).regions == RegionKind::Fused)
            ASSERT_TRUE(set.add(m, o).ok()) << samples.back().text;
      }
    }
  ASSERT_GT(set.kernels().size(), 100u);
  auto fitted = fitKernels(nvrtc, set.kernels(), GetParam());
  ASSERT_TRUE(fitted.ok()) << fitted.error().message;
  for (const FittedKernel& k : *fitted) {
    EXPECT_FALSE(k.usage.kernel.empty()) << k.schedule.cuda;
    EXPECT_EQ(k.usage.spillStoreBytes + k.usage.spillLoadBytes, 0) << k.schedule.cuda;
    EXPECT_LE(k.usage.registers * k.schedule.threadsPerBlock, 65536) << k.schedule.cuda;
  }
}

// The text's kernels, `count` of them, each with a call of `function`: of each, the schedule that is used does not
// spill, and has no more static shared memory than a kernel gets unasked.
void expectNoSpills(const Nvrtc& nvrtc, const std::string& text, const PassOptions& split, size_t count,
                    const char* function, const std::string& target) {
  Module m(standardOps());
  Diagnostics diags;
  ASSERT_TRUE(parseModule({"test.dt", "mesh @m = [a=1]\n" + text}, standardOps(), m, diags));
  ASSERT_TRUE(splitPass(m, split, diags) && fusePass(m, {}, diags));
  KernelSet set({.target = targetNamed(target)->withoutLibraries(), .otherSchedules = true});
  for (FuncId f : m.order)
    for (OpId o : std::vector<OpId>(m[m[f].body].ops))
      if (m.record(o).regions == RegionKind::Fused) ASSERT_TRUE(set.add(m, o).ok());
  ASSERT_EQ(set.kernels().size(), count);
  auto fitted = fitKernels(nvrtc, set.kernels(), target);
  ASSERT_TRUE(fitted.ok()) << fitted.error().message;
  for (const FittedKernel& k : *fitted) {
    EXPECT_NE(k.schedule.cuda.find(function), std::string::npos) << k.schedule.cuda;
    EXPECT_EQ(k.usage.spillStoreBytes + k.usage.spillLoadBytes, 0) << k.schedule.cuda;
    EXPECT_LE(k.usage.sharedBytes, 48 << 10) << k.schedule.cuda;
  }
}

// Attention's tiles depend on the head: of the sizes that models have, with a mask and bounds, for many rows and few.
TEST_P(Resources, NoAttentionOfRealHeadsSpills) {
  Nvrtc nvrtc;
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  struct Head {
    const char* dtype;
    int size, rows;
  };
  constexpr Head heads[] = {{"bf16", 64, 300}, {"bf16", 64, 200}, {"bf16", 64, 1},  {"f16", 80, 300},
                            {"bf16", 96, 300}, {"f16", 128, 300}, {"f16", 128, 1},  {"bf16", 256, 200},
                            {"bf16", 256, 1},  {"f32", 64, 300},  {"f32", 96, 300}, {"f32", 128, 300},
                            {"f32", 256, 300}, {"f64", 64, 300}};
  std::string text;
  for (const Head& h : heads) {
    const std::string type = h.dtype, size = std::to_string(h.size), rows = std::to_string(h.rows);
    text +=
        "spmd func @" + type + "_" + size + "_" + rows + "(%q: " + type + "[2, 8, " + rows + ", " + size +
        "], %k: " + type + "[2, 2, 1000, " + size + "], %v: " + type + "[2, 2, 1000, " + size +
        "], %m: " + type + "[8, " + rows + ", 1000]) -> (%y: " + type + "[2, 8, " + rows + ", " + size +
        "], %l: " + (type == "f64" ? "f64" : "f32") + "[2, 8, " + rows +
        "]) {\n  %y, %l = attention %q, %k, %v, %m {causal = true, window = 100, lse = true}\n  return %y, "
        "%l\n}\n";
  }
  expectNoSpills(nvrtc, text, {}, std::size(heads), "dtc_attention", GetParam());
}

// And of attention's gradient, whose kernel only a GPU has.
TEST_P(Resources, NoGradientOfAttentionSpills) {
  Nvrtc nvrtc;
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  std::string text;
  struct Head {
    const char* dtype;
    int size;
  };
  constexpr Head heads[] = {{"bf16", 64}, {"bf16", 80},  {"bf16", 96}, {"bf16", 128},
                            {"f16", 192}, {"bf16", 256}, {"f32", 64},  {"f32", 80},
                            {"f32", 128}, {"f32", 256},  {"f64", 64},  {"f64", 128}};
  for (const Head& h : heads) {
    const std::string type = h.dtype, d = std::to_string(h.size), head = type + "[2, 8, 300, " + d + "]",
                      keys = type + "[2, 2, 500, " + d + "]",
                      rows = std::string(type == "f64" ? "f64" : "f32") + "[2, 8, 300]";
    text += "spmd func @" + type + "_" + d + "(%q: " + head + ", %k: " + keys + ", %v: " + keys +
            ", %l: " + rows + ", %e: " + rows + ", %y: " + head + ", %m: " + type +
            "[8, 300, 500]) -> (%a: " + head + ", %b: " + keys + ", %c: " + keys +
            ") {\n  %a, %b, %c = attention_grad %q, %k, %v, %l, %e, %y, %m {causal = true, window = 100}\n"
            "  return %a, %b, %c\n}\n";
  }
  expectNoSpills(nvrtc, text, {{{"target", "sm_90a"}}}, std::size(heads), "attention_gradient", GetParam());
}

TEST_P(Resources, NoGradientOfAMaskSpills) {
  Nvrtc nvrtc;
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  std::string text;
  constexpr std::pair<const char*, int> heads[] = {{"bf16", 64}, {"f16", 80}, {"bf16", 128}, {"bf16", 192},
                                                   {"f16", 256}, {"f32", 64}, {"f32", 128},  {"f32", 256},
                                                   {"f64", 64},  {"f64", 128}};
  for (const auto& [dtype, size] : heads) {
    const std::string type = dtype, d = std::to_string(size), head = type + "[2, 8, 300, " + d + "]",
                      keys = type + "[2, 2, 500, " + d + "]", mask = type + "[8, 300, 500]",
                      rows = std::string(type == "f64" ? "f64" : "f32") + "[2, 8, 300]";
    text += "spmd func @" + type + "_" + d + "(%q: " + head + ", %k: " + keys + ", %v: " + keys +
            ", %l: " + rows + ", %e: " + rows + ", %y: " + head + ", %m: " + mask + ") -> (%a: " + mask +
            ") {\n  %a = attention_grad_mask %q, %k, %v, %l, %e, %y, %m {causal = true, window = 100}\n"
            "  return %a\n}\n";
  }
  expectNoSpills(nvrtc, text, {{{"target", "sm_90a"}}}, std::size(heads), "mask_gradient", GetParam());
}

INSTANTIATE_TEST_SUITE_P(Of, Resources, testing::Values("sm_80", "sm_90a", "sm_100"));

} // namespace
} // namespace dtc
