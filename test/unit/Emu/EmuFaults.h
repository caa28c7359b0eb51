#pragma once
// Kernels with a fault put in on purpose, and how they are run.
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Emu/CudaEmu.h"
#include <gtest/gtest.h>
#include <numeric>

namespace dtc {

// k(out, in, n): two buffers of n floats; `out` is only written, unless the fault says otherwise.
struct Fault {
  const char* name;
  const char* wrong;
  const char* right;
  const char* error; // after "cuda-emu: kernel 'k': "
  Dim3 grid = {1, 1, 1}, block = {64, 1, 1};
  int n = 64;
  uint32_t sharedBytes = 0;
  bool outIsRead = false;
  bool outIsWhole = false; // all of it is to be written
};

#define KERNEL "extern \"C\" __global__ void k(f32* out, const f32* in, i32 n) {\n"
#define CLUSTER "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) k(f32* out, const f32* in, i32 n) {\n"

class EmuFault : public ::testing::TestWithParam<Fault> {
protected:
  static JitConfig uncached() {
    JitConfig config;
    config.useCache = false;
    return config;
  }
  // The error of a launch, "" where there is none; `out` must not have changed then.
  std::string run(const std::string& text) {
    const Fault& f = GetParam();
    const SourceUnit unit{"k", text};
    auto module = CudaEmu(jit_).compile({&unit, 1});
    EXPECT_TRUE(module.ok()) << module.error().message;
    if (!module) return "";
    if (auto version = nvrtc_.version(); version.ok()) { // a GPU's compiler takes both
      auto ptx = nvrtc_.compile({&unit, 1}, "sm_90a", CudaImage::Cubin);
      EXPECT_TRUE(ptx.ok()) << ptx.error().message;
    }
    const auto count = static_cast<size_t>(f.n);
    const std::unique_ptr<float, decltype(&std::free)> memory(
        static_cast<float*>(std::aligned_alloc(64, 2 * 64 * (count / 16 + 1) * 4)), &std::free);
    float *out = memory.get(), *in = out + (count + 15) / 16 * 16;
    std::fill(out, out + count, 7.0f);
    std::iota(in, in + count, 0.0f);
    int n = f.n;
    void* args[] = {&out, &in, &n};
    const EmuBuffer buffers[] = {{0, count * 4, f.outIsRead, true, f.outIsWhole},
                                 {1, count * 4, true, false}};
    const Status done = module->launch("k", {f.grid, f.block, f.sharedBytes, args, 3, buffers, nullptr});
    if (done.ok()) return "";
    EXPECT_EQ(out[0], 7.0f) << "a kernel that is wrong has written";
    EXPECT_EQ(done.error().kind, Error::Bug);
    return done.error().message;
  }
  CpuJit jit_{uncached()};
  Nvrtc nvrtc_{uncached()};
};

inline void expectNamed(const Fault& fault, const std::string& error) {
  EXPECT_NE(error.find("cuda-emu: kernel 'k': "), std::string::npos) << error;
  EXPECT_NE(error.find(fault.error), std::string::npos) << error;
}

} // namespace dtc
