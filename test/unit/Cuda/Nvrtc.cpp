// NVRTC: CUDA text to PTX and cubin without a GPU. Skipped where NVRTC is not installed.
#include "dtc/Cuda/Nvrtc.h"
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace dtc {
namespace {

// What kernels use of the device header, so that all of it goes through NVRTC.
const char* kKernel = R"(
extern "C" __global__ void __launch_bounds__(128) everything(const bf16* b, const f8e4m3* e, const f64* d, f32* y, f16* h, i32* i, i64* l, u8* u) {
  __shared__ f32 sums[128];
  const i32 t = threadIdx.x;
  f32 x = dtc_load(b + t) + dtc_load(e + t) + dtc_convert<f8e5m2>(d[t]);
  x = dtc_gelu(x) + dtc_gelu_tanh(x) + dtc_silu(x) + dtc_softplus(x) + dtc_log1p(x) + dtc_expm1(x) + dtc_rem(x, 2.0f) + dtc_mod(x, 3.0f) + dtc_floor_div(x, 2.0f);
  x += dtc_max(x, 1.0f) + dtc_min(x, 2.0f) + dtc_round(x) + dtc_sign(x) + dtc_relu(x) + dtc_leaky_relu(x, 0.1f) + dtc_pow(x, 2.0f);
  sums[t] = x;
  __syncthreads();
  for (i32 s = 64; s > 0; s >>= 1) {
    if (t < s) sums[t] = dtc_add(sums[t], sums[t + s]);
    __syncthreads();
  }
  y[t] = sums[0] + __shfl_xor_sync(0xffffffffu, x, 16);
  dtc_store(h + t, y[t]);
  i[t] = dtc_convert<i32>(x) + dtc_div(i[t], i[t + 1]) + dtc_mod(i[t], 3) + dtc_shl(i[t], 5) + dtc_shr(i[t], 40) + dtc_pow_int(i[t], 3);
  l[t] = dtc_convert<i64>(d[t]) + dtc_floor_div(l[t], l[t + 1]) + dtc_abs(l[t]) + dtc_mul(l[t], l[t]);
  u[t] = dtc_convert<u8>(x) + dtc_mul(u[t], u[t]);
}
)";

TEST(Nvrtc, CompilesTheDeviceHeaderForEveryGeneration) {
  JitConfig config;
  config.useCache = false;
  Nvrtc nvrtc(config);
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  const SourceUnit unit{"everything", kKernel};
  for (const char* arch : {"sm_80", "sm_90", "sm_90a", "sm_100"}) {
    auto binaries = nvrtc.compile({&unit, 1}, arch, CudaImage::Cubin);
    ASSERT_TRUE(binaries.ok()) << binaries.error().message;
    EXPECT_EQ((*binaries)[0].image.substr(0, 4), "\177ELF");
    ASSERT_EQ((*binaries)[0].usage.size(), 1u) << (*binaries)[0].log;
    const KernelUsage& usage = (*binaries)[0].usage[0];
    EXPECT_EQ(usage.kernel, "everything");
    EXPECT_GT(usage.registers, 8);
    EXPECT_GE(usage.sharedBytes, 512); // newer generations keep 1 KiB for themselves
    EXPECT_EQ(usage.barriers, 1);
    EXPECT_EQ(usage.spillStoreBytes, 0);
  }
}

TEST(Nvrtc, IdenticalUnitsAreCompiledOnceAndPtxIsText) {
  JitConfig config;
  config.useCache = false;
  Nvrtc nvrtc(config);
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  const SourceUnit unit{"same", "extern \"C\" __global__ void same(f32* x) { x[threadIdx.x] = 1; }"};
  const SourceUnit units[] = {unit, unit, {"other", unit.text}};
  auto binaries = nvrtc.compile(units, "sm_90", CudaImage::Ptx);
  ASSERT_TRUE(binaries.ok()) << binaries.error().message;
  ASSERT_EQ(binaries->size(), 3u);
  EXPECT_NE((*binaries)[1].image.find(".target sm_90"), std::string::npos);
  EXPECT_EQ((*binaries)[0].image, (*binaries)[1].image);
}

TEST(Nvrtc, ErrorsCarryTheUnitsOwnLineNumbers) {
  JitConfig config;
  config.useCache = false;
  Nvrtc nvrtc(config);
  if (auto version = nvrtc.version(); !version) GTEST_SKIP() << version.error().message;
  const SourceUnit unit{"broken", "extern \"C\" __global__ void broken(f32* x) {\n  x[0] = nonsense;\n}"};
  auto binaries = nvrtc.compile({&unit, 1}, "sm_80", CudaImage::Cubin);
  ASSERT_FALSE(binaries.ok());
  EXPECT_EQ(binaries.error().kind, Error::Bug);
  EXPECT_NE(binaries.error().message.find("broken(2): error"), std::string::npos) << binaries.error().message;
}

TEST(Nvrtc, AnUnknownTargetIsAnErrorOfTheCommandLine) {
  JitConfig config;
  config.useCache = false;
  Nvrtc nvrtc(config);
  auto binaries = nvrtc.compile({}, "sm_1", CudaImage::Cubin);
  ASSERT_FALSE(binaries.ok());
  EXPECT_EQ(binaries.error().kind, Error::Usage);
}

TEST(Nvrtc, CubinsComeBackFromTheCacheWithTheirUsage) {
  JitConfig config;
  config.cacheDir =
      (std::filesystem::temp_directory_path() / ("dtc-nvrtc-" + std::to_string(getpid()))).string();
  const SourceUnit unit{"cached", "extern \"C\" __global__ void cached(f32* x) { x[threadIdx.x] = 2; }"};
  Nvrtc first(config);
  if (auto version = first.version(); !version) GTEST_SKIP() << version.error().message;
  auto cold = first.compile({&unit, 1}, "sm_90", CudaImage::Cubin);
  ASSERT_TRUE(cold.ok()) << cold.error().message;
  auto warm = Nvrtc(config).compile({&unit, 1}, "sm_90", CudaImage::Cubin);
  ASSERT_TRUE(warm.ok());
  EXPECT_EQ((*warm)[0].image, (*cold)[0].image);
  EXPECT_EQ((*warm)[0].usage[0].registers, (*cold)[0].usage[0].registers);
  std::filesystem::remove_all(config.cacheDir);
}

} // namespace
} // namespace dtc
