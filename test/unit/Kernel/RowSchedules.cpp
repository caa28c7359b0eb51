// Rows on GPUs, under every schedule that there is for them: registers, shared memory, clusters, plain loops.
#include "KernelCases.h"
#include "dtc/Passes/split/Split.h"
#include <set>

namespace dtc {
namespace {

std::string program(const std::string& dtype, const std::string& rows, int64_t n, const std::string& op) {
  const std::string x = dtype + "[" + rows + ", " + std::to_string(n) + "]";
  const bool norm = op == "layer_norm", entropy = op == "cross_entropy";
  return "spmd func @main(%x: " + x + (norm ? ", %w: " + dtype + "[" + std::to_string(n) + "]" : "") +
         (entropy ? ", %t: i32[" + rows + "]" : "") + ") -> (" + (entropy ? dtype + "[" + rows + "]" : x) +
         ") {\n  %y = " + op + " %x" + (norm ? ", %w" : "") + (entropy ? ", %t" : "") +
         (entropy ? "" : " {dims = [1]}") + "\n  return %y\n}\n";
}

class Rows : public testing::TestWithParam<const char*> {};

TEST_P(Rows, EveryScheduleGivesTheReference) {
  KernelCases cases({.target = targetNamed("sm_90a")->withoutLibraries(), .otherSchedules = true});
  std::deque<Module> modules;
  std::set<std::string> words;
  for (const char* op : {"softmax", "layer_norm", "cross_entropy"})
    for (int64_t n : {1, 31, 33, 1000, 4097, 9216, 16384}) {
      if (n == 1 && op == std::string_view("cross_entropy")) continue; // random labels are below 31
      const std::string text = program(GetParam(), n < 1000 ? "37" : n < 5000 ? "5" : "1", n, op);
      Module& m = modules.emplace_back(standardOps());
      Diagnostics diags;
      ASSERT_TRUE(parseModule({"test.dt", text}, standardOps(), m, diags)) << text;
      ASSERT_TRUE(splitPass(m, {}, diags) && fusePass(m, {}, diags));
      cases.add(m, m.order.back(), randomArguments(m, m.order.back()), text);
    }
  for (const KernelSource& k : cases.kernels().kernels()) {
    words.insert(k.schedule);
    for (const CudaSchedule& s : k.otherCuda) words.insert(s.schedule);
  }
  std::string all;
  for (const std::string& w : words) all += w + "\n";
  for (const char* part : {"rows per block", "blocks of", "in registers", "in shared memory"})
    EXPECT_NE(all.find(part), std::string::npos) << part << " is not among\n" << all;
  cases.runOnEmulator();
}

INSTANTIATE_TEST_SUITE_P(DTypes, Rows, testing::Values("f32", "bf16"));

} // namespace
} // namespace dtc
