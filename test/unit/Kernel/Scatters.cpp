// Scatters on GPUs: the blocks fill the device where the data allow it, most of their threads have elements of a
// row, accesses are as wide as rows allow, and nothing spills.
#include "KernelCases.h"
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Passes/split/Split.h"
#include <algorithm>
#include <cstdio>
#include <deque>

namespace dtc {
namespace {

struct ScatterShape {
  int64_t rows, width, updates;
};

std::string scatterOf(const std::string& dtype, const ScatterShape& s, const std::string& reduce) {
  const std::string width = std::to_string(s.width), updates = std::to_string(s.updates);
  const std::string x = dtype + "[" + std::to_string(s.rows) + ", " + width + "]";
  return "spmd func @main(%x: " + x + ", %i: i32[" + updates + "], %u: " + dtype + "[" + updates + ", " +
         width + "]) -> (" + x +
         ") {\n  %y = scatter_slices %x, %i, %u {update_window_dims = [1], inserted_window_dims = [0], "
         "scatter_dims_to_operand_dims = [0], index_vector_dim = 1, reduce = \"" +
         reduce + "\"}\n  return %y\n}\n";
}

// `modules` keeps them all: a set recognizes regions of one module by its address.
void addKernel(KernelSet& set, std::deque<Module>& modules, const std::string& text) {
  Module& m = modules.emplace_back(standardOps());
  Diagnostics diags;
  ASSERT_TRUE(parseModule({"test.dt", text}, standardOps(), m, diags)) << text;
  ASSERT_TRUE(splitPass(m, {}, diags) && fusePass(m, {}, diags));
  for (OpId o : std::vector<OpId>(m[m[m.order.back()].body].ops))
    if (m.record(o).regions == RegionKind::Fused) ASSERT_TRUE(set.add(m, o).ok()) << text;
}

// The template arguments of the kernel's call.
struct ScatterBlocks {
  int64_t threads = 0, across = 0, pack = 0;
};

ScatterBlocks scatterBlocks(const std::string& cuda) {
  ScatterBlocks b;
  char last[8] = {}, type[8] = {};
  long long threads = 0, across = 0, pack = 0;
  const size_t at = cuda.find("dtc_block_scatter<");
  if (at != std::string::npos &&
      std::sscanf(cuda.c_str() + at, "dtc_block_scatter<%lld, %lld, %7[a-z], %7[a-z0-9], %lld>", &threads,
                  &across, last, type, &pack) == 5)
    b = {threads, across, pack};
  return b;
}

TEST(Scatters, BlocksFillTheDevice) {
  const Target target = targetNamed("sm_90a")->withoutLibraries();
  std::deque<Module> modules;
  for (const char* dtype : {"f32", "bf16", "i8", "f64"})
    for (const ScatterShape& s : std::vector<ScatterShape>{{50304, 768, 8192},
                                                           {32000, 1024, 8192},
                                                           {16, 768, 8192},
                                                           {1000000, 1, 10},
                                                           {1000000, 3, 100000},
                                                           {1, 65536, 4096},
                                                           {128256, 4096, 16384},
                                                           {4096, 8, 65536},
                                                           {2048, 100, 2048}}) {
      KernelSet set({.target = target});
      addKernel(set, modules, scatterOf(dtype, s, "max"));
      ASSERT_EQ(set.kernels().size(), 1u);
      const KernelSource& k = set.kernels()[0];
      const ScatterBlocks b = scatterBlocks(k.cuda);
      ASSERT_GT(b.threads, 0) << k.cuda;
      EXPECT_EQ(b.threads, k.threadsPerBlock);
      // A warp on every multiprocessor, if there is an element for each of its threads.
      const int64_t blocks = k.blocks({}), elements = s.rows * s.width;
      if (elements >= 2 * 132 * 64) EXPECT_GE(blocks, 132) << k.schedule;
      const int64_t packs = (s.width + b.pack - 1) / b.pack, strips = (packs + b.across - 1) / b.across;
      EXPECT_GE(2 * packs, strips * b.across) << k.schedule;
      // 16 bytes an access, except where narrower ones are needed to fill the device.
      const int64_t bytes = dtypeBytes(k.buffers[0].dtype), widest = std::min<int64_t>(16 / bytes, 8);
      if (s.width % widest == 0 && elements >= 264 * 256 * widest) EXPECT_EQ(b.pack, widest) << k.schedule;
      EXPECT_EQ(k.cuda.find(" % n"), std::string::npos) << k.cuda;
    }
}

TEST(Scatters, NothingSpills) {
  Nvrtc nvrtc;
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  KernelSet set({.target = targetNamed("sm_90a")->withoutLibraries()});
  std::deque<Module> modules;
  for (const char* dtype : {"f32", "bf16", "f16", "f64", "i8", "i64"})
    for (const char* reduce : {"max", "set"})
      addKernel(set, modules, scatterOf(dtype, {50304, 1024, 8192}, reduce));
  std::vector<SourceUnit> units;
  for (const KernelSource& k : set.kernels()) units.push_back({k.name, k.cuda});
  ASSERT_EQ(units.size(), 12u);
  for (const char* name : {"sm_80", "sm_90a"}) {
    auto binaries = nvrtc.compile(units, name, CudaImage::Cubin);
    ASSERT_TRUE(binaries.ok()) << binaries.error().message;
    for (size_t i = 0; i < units.size(); ++i) {
      const KernelUsage& usage = (*binaries)[i].usage[0];
      EXPECT_EQ(usage.spillStoreBytes + usage.spillLoadBytes, 0) << name << "\n" << units[i].text;
      EXPECT_LE(usage.sharedBytes, 48 << 10) << units[i].text;
    }
  }
}

} // namespace
} // namespace dtc
