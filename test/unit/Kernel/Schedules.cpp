// The schedules that -O3 chooses from: each another text, all the same bits.
#include "dtc/IR/text/Text.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Kernel/Kernel.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/fuse/Fuse.h"
#include "dtc/Passes/split/Split.h"
#include <cstring>
#include <gtest/gtest.h>

namespace dtc {
namespace {

using Function = void(void* const*, const int64_t*, int64_t, int64_t, void*);

struct AlignedBytes {
  explicit AlignedBytes(size_t n)
      : size((n + 63) / 64 * 64), data(static_cast<std::byte*>(std::aligned_alloc(64, size))) {}
  ~AlignedBytes() { std::free(data); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  size_t size;
  std::byte* data;
};

constexpr const char* kPrograms[] = {
    "spmd func @main(%x: f32[256, 1040]) -> (f32[256, 1040]) {\n  %y = softmax %x {dims = [1]}\n  return "
    "%y\n}\n",
    "spmd func @main(%x: bf16[512, 1040], %w: bf16[1040]) -> (bf16[512, 1040]) {\n"
    "  %y = rms_norm %x, %w {dims = [1]}\n  return %y\n}\n",
    "spmd func @main(%x: f32[262208]) -> (f32[262208]) {\n  %y = exp %x\n  return %y\n}\n",
};

TEST(Schedules, AllGiveTheSameBits) {
  for (const char* text : kPrograms) {
    Module m{standardOps()};
    Diagnostics diags;
    ASSERT_TRUE(parseModule({"test.dt", text}, standardOps(), m, diags));
    ASSERT_TRUE(splitPass(m, {}, diags) && fusePass(m, {}, diags));
    KernelSet set({.target = {.vectorBytes = vectorBytes(hostCpuLevel())}, .otherSchedules = true});
    forEachOp(m, m[m.order.back()].body, [&](OpId o) {
      if (m.record(o).regions == RegionKind::Fused) ASSERT_TRUE(set.add(m, o).ok());
    });
    ASSERT_EQ(set.kernels().size(), 1u);
    const KernelSource& k = set.kernels()[0];
    EXPECT_GE(k.otherCpp.size(), 1u) << k.cpp;
    std::vector<SourceUnit> units = {{k.name, k.cpp}};
    for (size_t i = 0; i < k.otherCpp.size(); ++i)
      units.push_back({k.name + "_" + std::to_string(i + 1), k.otherCpp[i]});
    JitConfig config;
    config.useCache = false;
    auto module = CpuJit(config).compile(units);
    ASSERT_TRUE(module.ok()) << module.error().message;

    const FuncArg& first = m[m.order.back()].args[0];
    const size_t bytes = static_cast<size_t>(*m.typeOf(first.value).numElements()) *
                         static_cast<size_t>(dtypeBytes(m.typeOf(first.value).dtype));
    AlignedBytes in(bytes), want(bytes), got(bytes), scratch(1 << 20);
    uint32_t state = 1;
    for (size_t i = 0; i < in.size; i += 2) { // bf16 of moderate size, and so f32
      state = state * 1664525 + 1013904223;
      const auto bits = static_cast<uint16_t>(0x3e00 + (state >> 23) + (state >> 31 << 15));
      std::memcpy(in.data + i, &bits, 2);
    }
    auto run = [&](const std::string& name, AlignedBytes& out) {
      std::vector<void*> buffers(k.buffers.size(), in.data);
      buffers.back() = out.data;
      const int64_t half = k.units({}) / 2;
      module->function<Function>(name)(buffers.data(), nullptr, 0, half, scratch.data);
      module->function<Function>(name)(buffers.data(), nullptr, half, k.units({}), scratch.data);
    };
    run(k.name, want);
    for (size_t i = 1; i < units.size(); ++i) {
      run(units[i].name, got);
      EXPECT_EQ(std::memcmp(want.data, got.data, bytes), 0) << units[i].text;
    }
  }
}

} // namespace
} // namespace dtc
