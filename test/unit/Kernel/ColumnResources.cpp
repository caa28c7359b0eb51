// Kernels of columns, by themselves and beside rows, keep their numbers in registers on each GPU that dtc names. Skipped where NVRTC is
// not installed.
#include "KernelCases.h"
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Passes/split/Split.h"

namespace dtc {
namespace {

class ColumnResources : public testing::TestWithParam<const char*> {};

// The gradient of a norm and of its weight and bias, as fuse makes one kernel of them; `sum` alone: reductions of columns.
std::string columnsProgram(const std::string& dtype, int64_t width, bool alone) {
  const std::string n = std::to_string(width), wide = dtype + "[2048, " + n + "]",
                    row = dtype + "[" + n + "]";
  const std::string keep = " {dims = [1], keepdim = true}\n";
  if (alone)
    return "spmd func @main(%x: " + wide + ") -> (%s: " + row + ", %m: " + row +
           ") {\n  %s = sum %x {dims = [0]}\n  %m = max %x {dims = [0]}\n  return %s, %m\n}\n";
  return "spmd func @main(%x: " + wide + ", %dy: " + wide + ", %w: " + row + ") -> (%dx: " + wide +
         ", %dw: " + row + ", %db: " + row + ") {\n  %xx = mul %x, %x\n  %v = mean %xx" + keep +
         "  %e = add %v, 1e-5\n  %r = rsqrt %e\n  %n = mul %x, %r\n  %g = mul %dy, %w\n  %gn = mul %g, %n\n  "
         "%c = mean %gn" +
         keep + "  %nc = mul %n, %c\n  %d = sub %g, %nc\n  %dx = mul %r, %d\n  %p = mul %dy, %n\n" +
         "  %dw = sum %p {dims = [0]}\n  %db = sum %dy {dims = [0]}\n  return %dx, %dw, %db\n}\n";
}

TEST_P(ColumnResources, SomeScheduleDoesNotSpill) {
  Nvrtc nvrtc;
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  std::deque<Module> modules;
  KernelSet set({.target = targetNamed("sm_90a")->withoutLibraries(), .otherSchedules = true});
  for (const char* dtype : {"f32", "bf16", "f64"})
    for (int64_t width : {136, 4096, 16384})
      for (bool alone : {false, true}) {
        if (dtype == std::string_view("f64") && width != 4096) continue;
        const std::string text = columnsProgram(dtype, width, alone);
        Module& m = modules.emplace_back(standardOps());
        Diagnostics diags;
        ASSERT_TRUE(parseModule({"test.dt", text}, standardOps(), m, diags)) << text;
        ASSERT_TRUE(splitPass(m, {}, diags) && fusePass(m, {}, diags));
        size_t kernels = 0;
        for (OpId o : std::vector<OpId>(m[m[m.order.back()].body].ops))
          if (m.record(o).regions == RegionKind::Fused) {
            ASSERT_TRUE(set.add(m, o).ok()) << text;
            ++kernels;
          }
        EXPECT_EQ(kernels, alone ? 4u : 3u) << text; // parts of both columns, and their sums
      }
  std::vector<SourceUnit> units; // every schedule of each: a run takes the first that does not spill
  std::vector<std::pair<size_t, int>> of;
  for (size_t i = 0; i < set.kernels().size(); ++i) {
    const KernelSource& k = set.kernels()[i];
    units.push_back({k.name, k.cuda}), of.emplace_back(i, k.threadsPerBlock);
    for (const CudaSchedule& s : k.otherCuda)
      units.push_back({k.name, s.cuda}), of.emplace_back(i, s.threadsPerBlock);
  }
  auto binaries = nvrtc.compile(units, GetParam(), CudaImage::Cubin);
  ASSERT_TRUE(binaries.ok()) << binaries.error().message;
  std::vector<bool> fits(set.kernels().size());
  for (size_t u = 0; u < units.size(); ++u) {
    const KernelUsage& usage = (*binaries)[u].usage[0];
    const auto [kernel, threads] = of[u];
    if (usage.spillStoreBytes + usage.spillLoadBytes == 0 && usage.registers * threads <= 65536)
      fits[kernel] = true;
  }
  for (size_t i = 0; i < fits.size(); ++i) EXPECT_TRUE(fits[i]) << set.kernels()[i].cuda;
}

INSTANTIATE_TEST_SUITE_P(Of, ColumnResources, testing::Values("sm_80", "sm_90a", "sm_100"));

} // namespace
} // namespace dtc
