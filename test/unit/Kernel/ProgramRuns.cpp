#include "ProgramRuns.h"
#include "dtc/Check/run/Compare.h"
#include "dtc/Eval/Eval.h"
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"
#include "dtc/Runtime/backend/cpu/CpuBackend.h"
#include "dtc/Runtime/backend/emu/CudaEmuBackend.h"
#include "dtc/Runtime/run/Executable.h"
#include <cstring>
#include <gtest/gtest.h>

namespace dtc {

static bool sameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes().size() == b.bytes().size() &&
         (a.bytes().empty() || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0);
}

static std::string valuesText(const Tensor& t) {
  std::string text;
  for (int64_t i = 0; i < std::min<int64_t>(t.numElements(), 64); ++i)
    text += std::to_string(isFloat(t.dtype()) ? t.getFloat(i) : static_cast<double>(t.getInt(i))) + " ";
  return text;
}

void expectLikeEvaluator(const ProgramRun& run, const std::string& name) {
  Module m(standardOps());
  Diagnostics diags;
  const SourceText source{"program.dt", run.text};
  ASSERT_TRUE(parseModule(source, standardOps(), m, diags) && verifyModule(m, diags))
      << renderDiagnostics(diags, source, false) << run.text;
  StandardPipeline pipeline = standardPipeline(levelOf(m), {.optLevel = run.optLevel,
                                                            .fixedReductionOrder = run.fixedOrder,
                                                            .target = name == "cpu" ? "cpu" : "sm_90a"});
  ASSERT_TRUE(runPipeline(m, pipeline.reference, diags))
      << renderDiagnostics(diags, source, false) << run.text;
  std::vector<std::vector<Tensor>> want;
  for (Precision p : {Precision::R64, Precision::Rd}) {
    EvalOptions options;
    options.precision = p;
    auto w = evaluate(m, m.findFunction("main"), run.arguments, options);
    ASSERT_TRUE(w) << w.error().message << run.text;
    want.push_back(std::move(*w));
  }
  for (const auto* steps : {&pipeline.propagate, &pipeline.lower})
    ASSERT_TRUE(runPipeline(m, *steps, diags)) << renderDiagnostics(diags, source, false) << run.text;

  ThreadPool pool(2);
  CpuJit jit;
  auto backend = name == "cpu" ? makeCpuBackend(jit, pool, 6, {}, 1) : makeCudaEmuBackend(jit);
  auto loaded = Executable::load(m, m.findFunction("main"), *backend, pool, {});
  ASSERT_TRUE(loaded) << loaded.error().message << run.text;
  for (size_t i = 0; i < run.arguments.size(); ++i)
    ASSERT_TRUE((*loaded)->setArgument(i, run.arguments[i])) << run.text;
  const Status ran = (*loaded)->run();
  ASSERT_TRUE(ran) << ran.error().message << run.text;
  for (size_t i = 0; i < want[1].size(); ++i) {
    auto got = (*loaded)->result(i);
    ASSERT_TRUE(got) << got.error().message;
    if (run.exact) {
      EXPECT_TRUE(sameBits(*got, want[1][i])) << "result " << i << " on " << name << ": " << valuesText(*got)
                                              << "\nnot " << valuesText(want[1][i]) << "\n"
                                              << run.text;
      continue;
    }
    const CompareReport report = compareTensors(*got, want[0][i], want[1][i]);
    EXPECT_TRUE(report.pass) << "result " << i << " on " << name << ": " << report.reason << "\n" << run.text;
  }
}

} // namespace dtc
