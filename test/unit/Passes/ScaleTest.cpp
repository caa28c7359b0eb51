// Compile time grows as the program does, and not with the number of devices. Measured in the processor's time, which a busy
// machine changes little, and with bounds that only another order of growth can pass.
#include "dtc/IR/text/Text.h"
#include "dtc/IR/verify/Verify.h"
#include "dtc/Model/Model.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/pipeline/Pipeline.h"

#include <algorithm>
#include <ctime>
#include <gtest/gtest.h>

namespace dtc {
namespace {

double secondsOfThisThread() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The least of three, from text to the text of one device's program.
double secondsFor(int64_t layers, const char* parallel) {
  ModelSpec wanted;
  wanted.family = "llama";
  wanted.layers = layers;
  wanted.mode = ModelMode::Train;
  wanted.parallel = *parseModelParallel(parallel);
  auto spec = modelSpec(wanted, "8b");
  EXPECT_TRUE(spec.ok());
  const std::string text = modelText(*spec);
  auto steps =
      parsePipeline("inline,autodiff,decompose,canonicalize,propagate,partition,optimize-collectives");
  EXPECT_TRUE(steps.ok());
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = secondsOfThisThread();
    Module m(standardOps());
    Diagnostics diags;
    EXPECT_TRUE(parseModule({"llama", text}, standardOps(), m, diags) && verifyModule(m, diags));
    Status done = runPipeline(m, *steps, diags, {});
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.error().message);
    EXPECT_GT(printModule(m).size(), text.size());
    least = std::min(least, secondsOfThisThread() - begin);
  }
  return least;
}

TEST(Scale, TenTimesTheLayersTakeNotMuchMoreThanTenTimesTheTime) {
  const double small = secondsFor(6, "dp=2,tp=2"), large = secondsFor(60, "dp=2,tp=2");
  EXPECT_LT(large, 30 * small) << small << " s for 6 layers, " << large << " s for 60";
}

TEST(Scale, TheNumberOfDevicesCostsNothing) {
  const double few = secondsFor(4, "dp=2,fsdp=2,cp=2,tp=2"), many = secondsFor(4, "dp=16,fsdp=16,cp=8,tp=8");
  EXPECT_LT(many, 4 * few) << few << " s for 16 devices, " << many << " s for 16,384";
}

} // namespace
} // namespace dtc
