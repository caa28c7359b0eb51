// cuda-emu: CUDA text on the CPU, what it computes and what it refuses.
#include "dtc/Emu/CudaEmu.h"
#include "dtc/Cuda/Nvrtc.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

namespace dtc {
namespace {

class Emu : public ::testing::Test {
protected:
  EmuModule compile(const std::string& text) {
    const SourceUnit unit{"test", text};
    auto module = CudaEmu(jit_).compile({&unit, 1});
    EXPECT_TRUE(module.ok()) << module.error().message;
    // What runs here is what NVRTC takes.
    if (auto version = nvrtc_.version(); version.ok()) {
      auto ptx = nvrtc_.compile({&unit, 1}, "sm_80", CudaImage::Ptx);
      EXPECT_TRUE(ptx.ok()) << ptx.error().message;
    }
    return *module;
  }
  std::string errorOf(const std::string& text, Dim3 grid, Dim3 block) {
    std::vector<float> x(4096);
    float* p = x.data();
    void* args[] = {&p};
    auto status = compile(text).launch("k", grid, block, 0, args);
    EXPECT_FALSE(status.ok());
    return status.ok() ? "" : status.error().message;
  }
  static JitConfig uncached() {
    JitConfig config;
    config.useCache = false;
    return config;
  }
  CpuJit jit_{uncached()};
  Nvrtc nvrtc_{uncached()};
};

TEST_F(Emu, ThreadsSeeTheirIndexAndTheirArguments) {
  auto module = compile(R"(
struct Big { i64 a[5]; };
extern "C" __global__ void k(i32* out, u8 small, f64 wide, Big big) {
  const i32 block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const i32 thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread + small + (i32)wide + (i32)big.a[4];
})");
  std::vector<int> out(2 * 3 * 2 * 8 * 2 * 2, -1);
  int* p = out.data();
  unsigned char small = 7;
  double wide = 20.5;
  long long big[5] = {0, 0, 0, 0, 300};
  void* args[] = {&p, &small, &wide, big};
  auto status = module.launch("k", {2, 3, 2}, {8, 2, 2}, 0, args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (int i = 0; i < static_cast<int>(out.size()); ++i)
    ASSERT_EQ(out[static_cast<size_t>(i)], i / 32 * 1000 + i % 32 + 327);
}

// A block softmax: shuffles, static and dynamic shared memory, barriers in a loop.
const char* kSoftmax = R"(
DTC_FN f32 warpSum(f32 x) {
  for (i32 d = 16; d > 0; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
  return x;
}
DTC_FN f32 warpMax(f32 x) {
  for (i32 d = 16; d > 0; d >>= 1) x = dtc_max(x, __shfl_xor_sync(0xffffffffu, x, d));
  return x;
}
extern "C" __global__ void __launch_bounds__(128) softmax(const f32* __restrict__ x, f32* __restrict__ y, i32 n) {
  extern __shared__ f32 row[];
  __shared__ f32 partial[4];
  const i32 t = threadIdx.x, warp = t / 32;
  const f32* from = x + (i64)blockIdx.x * n;
  f32 m = -dtc_infinity<f32>();
  for (i32 i = t; i < n; i += 128) row[i] = from[i], m = dtc_max(m, row[i]);
  m = warpMax(m);
  if (t % 32 == 0) partial[warp] = m;
  __syncthreads();
  m = dtc_max(dtc_max(partial[0], partial[1]), dtc_max(partial[2], partial[3]));
  __syncthreads();
  f32 s = 0;
  for (i32 i = t; i < n; i += 128) row[i] = dtc_exp(row[i] - m), s += row[i];
  s = warpSum(s);
  if (t % 32 == 0) partial[warp] = s;
  __syncthreads();
  s = (partial[0] + partial[1]) + (partial[2] + partial[3]);
  for (i32 i = t; i < n; i += 128) y[(i64)blockIdx.x * n + i] = row[i] / s;
})";

TEST_F(Emu, ABlockSoftmaxIsRightFromSeveralThreadsAtOnce) {
  auto module = compile(kSoftmax);
  const int n = 333, rows = 9;
  std::vector<float> x(n * rows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7919 % 1000) * 0.01f;
  std::vector<std::vector<float>> results(3, std::vector<float>(x.size(), -1.0f));
  std::vector<std::thread> threads;
  for (auto& y : results)
    threads.emplace_back([&] {
      const float* from = x.data();
      float* to = y.data();
      int count = n;
      void* args[] = {&from, &to, &count};
      EXPECT_TRUE(module.launch("softmax", {rows, 1, 1}, {128, 1, 1}, n * sizeof(float), args).ok());
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  for (int r = 0; r < rows; ++r) {
    double sum = 0, most = -1e30;
    for (int i = 0; i < n; ++i) most = std::max<double>(most, x[static_cast<size_t>(r * n + i)]);
    for (int i = 0; i < n; ++i) sum += std::exp(x[static_cast<size_t>(r * n + i)] - most);
    for (int i = 0; i < n; ++i) {
      const double want = std::exp(x[static_cast<size_t>(r * n + i)] - most) / sum;
      ASSERT_NEAR(results[0][static_cast<size_t>(r * n + i)], want, 1e-6 * want);
    }
  }
}

TEST_F(Emu, ShufflesAndVotesFollowThePtxManual) {
  auto module = compile(R"(
extern "C" __global__ void k(f32* out) {
  const i32 t = threadIdx.x;
  const u32 all = 0xffffffffu;
  i64 wide = 1000000000000ll + t;
  f64 real = t * 0.5;
  f32* o = out + t * 12;
  o[0] = __shfl_up_sync(all, t, 3);
  o[1] = __shfl_down_sync(all, t, 3, 8);
  o[2] = __shfl_xor_sync(all, t, 5);
  o[3] = __shfl_sync(all, t, 9, 8);
  o[4] = (f32)(__shfl_sync(all, wide, 31) - 1000000000000ll);
  o[5] = (f32)__shfl_xor_sync(all, real, 1);
  o[6] = __ballot_sync(all, t % 3 == 0) == 0x49249249u;
  o[7] = __any_sync(all, t == 40 % 32) + 2 * __all_sync(all, t >= 0) + 4 * __all_sync(all, t > 0);
  if (t < 8) o[8] = __shfl_xor_sync(0xffu, t, 1);
  __syncwarp();
  o[9] = __syncthreads_count(t < 5) + 100 * __syncthreads_and(t < 100) + 1000 * __syncthreads_or(t == 77);
  o[10] = __shfl_up_sync(all, t, 1, 4);
})");
  std::vector<float> out(32 * 12);
  float* p = out.data();
  void* args[] = {&p};
  auto status = module.launch("k", {}, {32, 1, 1}, 0, args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (int t = 0; t < 32; ++t) {
    const float* o = &out[static_cast<size_t>(t) * 12];
    EXPECT_EQ(o[0], t < 3 ? t : t - 3);
    EXPECT_EQ(o[1], t % 8 + 3 < 8 ? t + 3 : t);
    EXPECT_EQ(o[2], t ^ 5);
    EXPECT_EQ(o[3], t / 8 * 8 + 1);
    EXPECT_EQ(o[4], 31);
    EXPECT_EQ(o[5], (t ^ 1) * 0.5f);
    EXPECT_EQ(o[6], 1);
    EXPECT_EQ(o[7], 3);
    if (t < 8) EXPECT_EQ(o[8], t ^ 1);
    EXPECT_EQ(o[9], 105);
    EXPECT_EQ(o[10], t % 4 == 0 ? t : t - 1);
  }
}

TEST_F(Emu, AtomicsVectorsAndAWarpThatIsNotFull) {
  auto module = compile(R"(
extern "C" __global__ void k(f32* sum, i32* most, f32* greatest, const f32* x, f32* y, bf16* b) {
  const i32 t = threadIdx.x;
  atomicAdd(sum, 0.5f);
  atomicMax(most, t);
  dtc_atomic_max(greatest, x[t]);
  const float4 v = *(const float4*)(x + 4 * t);
  *(float4*)(y + 4 * t) = make_float4(v.w, v.z, v.y, v.x);
  const auto p = dtc_load_pack<4>(x + 4 * t);
  dtc_pack<bf16, 4> q;
  for (i32 i = 0; i < 4; ++i) q.at[i] = dtc_to_memory<bf16>(p.at[i]);
  dtc_store_pack(b + 4 * t, q);
  if (t >= 32) y[4 * t] = __shfl_xor_sync(0xffffffffu, y[4 * t], 1); // 8 lanes of the second warp are there
})");
  const int n = 40;
  alignas(16) float x[4 * n], y[4 * n];
  alignas(16) uint16_t b[4 * n];
  for (int i = 0; i < 4 * n; ++i) x[i] = static_cast<float>(i);
  float sum = 0, greatest = -5;
  int most = -1;
  void *ps = &sum, *pm = &most, *pg = &greatest, *px = x, *py = y, *pb = b;
  void* args[] = {&ps, &pm, &pg, &px, &py, &pb};
  auto status = module.launch("k", {3, 1, 1}, {n, 1, 1}, 0, args);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(sum, 60);
  EXPECT_EQ(most, 39);
  EXPECT_EQ(greatest, 39);
  EXPECT_EQ(y[4], 7);
  EXPECT_EQ(y[4 * 33], 4 * 32 + 3);
  EXPECT_EQ(b[4 * 8], 0x4200);
}

TEST_F(Emu, ABarrierThatSomeThreadsDoNotReachIsNamed) {
  const std::string error = errorOf(
      "extern \"C\" __global__ void k(f32* x) {\n  if (threadIdx.x == 5) return;\n  __syncthreads();\n}",
      {2, 1, 1}, {64, 1, 1});
  EXPECT_EQ(error, "cuda-emu: kernel 'k': block (0, 0, 0): a barrier that not all threads of the block "
                   "reach: thread (0, 0, 0) "
                   "waits at the barrier of line 3, but thread (5, 0, 0) has returned");
}

TEST_F(Emu, DifferentBarriersAreNotOne) {
  const std::string error = errorOf(R"(extern "C" __global__ void k(f32* x) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
})",
                                    {}, {64, 1, 1});
  EXPECT_NE(error.find("thread (0, 0, 0) waits at the barrier of line 3, but thread (32, 0, 0) waits at the "
                       "barrier of line 5"),
            std::string::npos)
      << error;
}

TEST_F(Emu, AShuffleThatALaneDoesNotReachIsNamed) {
  const std::string error = errorOf(R"(extern "C" __global__ void k(f32* x) {
  if (threadIdx.x != 7) x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, x[0], 1);
  __syncthreads();
})",
                                    {}, {32, 1, 1});
  EXPECT_NE(error.find("thread (7, 0, 0) waits at the barrier of line 3, but thread (0, 0, 0) is in "
                       "__shfl_xor_sync of line 2 with mask 0xffffffff"),
            std::string::npos)
      << error;
}

TEST_F(Emu, AMaskWithoutTheCallerIsNamed) {
  const std::string error = errorOf(R"(extern "C" __global__ void k(f32* x) {
  x[0] = __shfl_xor_sync(0xfeu, x[0], 1);
})",
                                    {}, {32, 1, 1});
  EXPECT_NE(error.find("thread (0, 0, 0) is in __shfl_xor_sync of line 2 with mask 0x000000fe, which does "
                       "not include the thread itself"),
            std::string::npos)
      << error;
}

TEST_F(Emu, LaunchesThatAGpuWouldRefuseAreRefused) {
  auto module = compile("// __global__ void comment(\nextern \"C\" __global__ void __launch_bounds__(64, 2) "
                        "k(f32* x) { __shared__ f32 s[64]; s[threadIdx.x] = 0; x[0] = s[1]; }");
  EXPECT_EQ(module.kernels(), (std::vector<std::string>{"k"}));
  float x[4];
  float* p = x;
  void* args[] = {&p};
  EXPECT_NE(module.launch("k", {}, {65, 1, 1}, 0, args).error().message.find("__launch_bounds__(64)"),
            std::string::npos);
  EXPECT_NE(module.launch("k", {0, 1, 1}, {}, 0, args).error().message.find("grid (0, 1, 1)"),
            std::string::npos);
  EXPECT_NE(module.launch("k", {}, {1, 1, 65}, 0, args).error().message.find("block (1, 1, 65)"),
            std::string::npos);
  EXPECT_NE(module.launch("k", {}, {}, 1 << 20, args).error().message.find("shared memory"),
            std::string::npos);
  EXPECT_NE(module.launch("comment", {}, {}, 0, args).error().message.find("no such kernel"),
            std::string::npos);
}

} // namespace
} // namespace dtc
