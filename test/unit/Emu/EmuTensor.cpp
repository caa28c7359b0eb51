// Tensor cores and asynchronous copies of cuda-emu: fragments are laid out as the PTX ISA's tables say, and what hardware would
// leave undefined is an error.
#include "dtc/Cuda/Nvrtc.h"
#include "dtc/Emu/CudaEmu.h"
#include "dtc/Support/DType.h"
#include <gtest/gtest.h>
#include <numeric>

namespace dtc {
namespace {

JitConfig uncached() {
  JitConfig config;
  config.useCache = false;
  return config;
}

// Runs k(out, in) with one block; "" or the error. NVRTC takes the text, too.
std::string runKernel(const std::string& text, void* out, size_t outBytes, const void* in, size_t inBytes,
                      uint32_t threads) {
  static CpuJit jit{uncached()};
  static Nvrtc nvrtc{uncached()};
  const SourceUnit unit{"k", text};
  auto module = CudaEmu(jit).compile({&unit, 1});
  EXPECT_TRUE(module.ok()) << module.error().message;
  if (!module) return "does not compile";
  if (auto version = nvrtc.version(); version.ok()) {
    auto binary = nvrtc.compile({&unit, 1}, "sm_80", CudaImage::Cubin);
    EXPECT_TRUE(binary.ok()) << binary.error().message;
  }
  void* args[] = {&out, &in};
  const EmuBuffer buffers[] = {{0, outBytes, false, true}, {1, inBytes, true, false}};
  const Status done = module->launch("k", {{1, 1, 1}, {threads, 1, 1}, 0, args, 2, buffers, nullptr});
  return done.ok() ? "" : done.error().message;
}

// The tables of "Matrix Fragments for mma.m16n8k16 with floating point type": element i of a lane's registers.
#define FRAGMENTS                                                                                            \
  "  const i32 lane = threadIdx.x, group = lane >> 2, in_group = lane % 4;\n"                                \
  "  u32 a[4], b[2];\n"                                                                                      \
  "  for (i32 i = 0; i < 8; ++i) {\n"                                                                        \
  "    const i32 row = i < 2 || (4 <= i && i < 6) ? group : group + 8;\n"                                    \
  "    const i32 col = i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;\n"                       \
  "    ((u16*)a)[i] = in[row * 16 + col];\n"                                                                 \
  "  }\n"                                                                                                    \
  "  for (i32 i = 0; i < 4; ++i) {\n"                                                                        \
  "    const i32 row = i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8;\n"                       \
  "    ((u16*)b)[i] = in[256 + row * 8 + group];\n"                                                          \
  "  }\n"

TEST(EmuTensor, MultipliesFragmentsAsTheIsaLaysThemOut) {
  for (const bool half : {false, true}) {
    std::vector<uint16_t> in(256 + 128);
    std::vector<float> values(in.size()), out(16 * 8);
    for (size_t i = 0; i < in.size(); ++i) {
      values[i] = static_cast<float>(static_cast<int>(i * 37 % 23) - 11) / 4;
      in[i] = half ? doubleToF16(values[i]) : doubleToBf16(values[i]);
    }
    const std::string text =
        std::string("extern \"C\" __global__ void k(f32* out, const u16* in) {\n" FRAGMENTS
                    "  f32 c[4];\n  for (i32 i = 0; i < 4; ++i) c[i] = i;\n"
                    "  dtc_mma<") +
        (half ? "f16" : "bf16") +
        ">(c, a, b[0], b[1]);\n"
        "  for (i32 i = 0; i < 4; ++i)\n"
        "    out[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = c[i];\n}";
    ASSERT_EQ(runKernel(text, out.data(), out.size() * 4, in.data(), in.size() * 2, 32), "");
    for (size_t r = 0; r < 16; ++r)
      for (size_t n = 0; n < 8; ++n) {
        float sum = static_cast<float>(r / 8 * 2 + n % 2);
        for (size_t k = 0; k < 16; ++k) sum += values[r * 16 + k] * values[256 + k * 8 + n];
        EXPECT_EQ(out[r * 8 + n], sum) << r << ", " << n; // small multiples of 1/16: exact
      }
  }
}

// "ldmatrix": a lane has, of each matrix, row lane / 4, elements 2 (lane % 4) and the next; with .trans rows and columns are exchanged.
TEST(EmuTensor, LoadsMatricesAsTheIsaSays) {
  for (const bool transposed : {false, true}) {
    std::vector<uint16_t> in(4 * 64), out(4 * 64);
    std::iota(in.begin(), in.end(), static_cast<uint16_t>(1));
    const std::string text =
        std::string("extern \"C\" __global__ void k(u16* out, const u16* in) {\n"
                    "  __shared__ __align__(16) u16 s[256];\n  const i32 lane = threadIdx.x;\n"
                    "  for (i32 i = 0; i < 8; ++i) s[lane * 8 + i] = in[lane * 8 + i];\n  __syncwarp();\n"
                    "  u32 x[4];\n  ") +
        (transposed ? "dtc_load_transposed" : "dtc_load_matrices") +
        "(x, s + lane * 8);\n  for (i32 m = 0; m < 4; ++m) {\n    out[m * 64 + lane * 2] = (u16)x[m];\n"
        "    out[m * 64 + lane * 2 + 1] = (u16)(x[m] >> 16);\n  }\n}";
    ASSERT_EQ(runKernel(text, out.data(), out.size() * 2, in.data(), in.size() * 2, 32), "");
    for (size_t m = 0; m < 4; ++m)
      for (size_t r = 0; r < 8; ++r)
        for (size_t c = 0; c < 8; ++c)
          EXPECT_EQ(out[m * 64 + r * 8 + c], in[m * 64 + (transposed ? c * 8 + r : r * 8 + c)]);
  }
}

// --- seeded faults ---

struct TensorFault {
  const char* name;
  const char* wrong;
  const char* right;
  const char* error;
};

#define COPIES                                                                                               \
  "extern \"C\" __global__ void k(f32* out, const f32* in) {\n  __shared__ __align__(16) f32 s[64];\n"       \
  "  const i32 t = threadIdx.x;\n"
#define START "  if (t < 16) dtc_copy_async(s + 4 * t, in + 4 * t, 16);\n"
#define MMA                                                                                                  \
  "extern \"C\" __global__ void k(f32* out, const f32* in) {\n  const i32 t = threadIdx.x;\n"                \
  "  f32 c[4] = {0, 0, 0, 0};\n  const u32 a[4] = {0, 0, 0, 0};\n"
#define RESULT "  out[t] = c[0];\n}"

const TensorFault kTensorFaults[] = {
    {"MissingWait", COPIES START "  dtc_copy_commit();\n  __syncthreads();\n  out[t] = s[t];\n}",
     COPIES START "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n  __syncthreads();\n  out[t] = s[t];\n}",
     "thread (63, 0, 0) at line 7 reads 4 bytes (shared variable 's', byte 252) that an asynchronous copy of "
     "thread (15, 0, 0) at line 4 is in flight to: that thread has not waited for it"},
    {"MissingCommit", COPIES START "  dtc_copy_wait<0>();\n  __syncthreads();\n  out[t] = s[t];\n}",
     COPIES START "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n  __syncthreads();\n  out[t] = s[t];\n}",
     "is in flight to: that thread has not waited for it"},
    {"MissingBarrier", COPIES START "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n  out[t] = s[t / 4];\n}",
     COPIES START "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n  __syncthreads();\n  out[t] = s[t / 4];\n}",
     "(shared variable 's', byte 0) that thread (0, 0, 0) has written at line 4, without a barrier in "
     "between"},
    {"WaitsForTooFewGroups",
     COPIES "  if (t < 8) dtc_copy_async(s + 4 * t, in + 4 * t, 16);\n  dtc_copy_commit();\n"
            "  if (t < 8) dtc_copy_async(s + 32 + 4 * t, in + 32 + 4 * t, 16);\n  dtc_copy_commit();\n"
            "  dtc_copy_wait<1>();\n  __syncthreads();\n  out[t] = s[t];\n}",
     COPIES "  if (t < 8) dtc_copy_async(s + 4 * t, in + 4 * t, 16);\n  dtc_copy_commit();\n"
            "  if (t < 8) dtc_copy_async(s + 32 + 4 * t, in + 32 + 4 * t, 16);\n  dtc_copy_commit();\n"
            "  dtc_copy_wait<1>();\n  __syncthreads();\n  out[t] = s[t % 32];\n  dtc_copy_wait<0>();\n}",
     "thread (63, 0, 0) at line 10 reads 4 bytes (shared variable 's', byte 252) that an asynchronous copy "
     "of "
     "thread (7, 0, 0) at line 6 is in flight to"},
    {"CopyOverWhatIsRead",
     COPIES "  s[t] = in[t];\n  __syncthreads();\n  out[t] = s[63 - t];\n\n" START
            "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n}",
     COPIES "  s[t] = in[t];\n  __syncthreads();\n  out[t] = s[63 - t];\n  __syncthreads();\n" START
            "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n}",
     "without a barrier in between"},
    {"MisalignedCopy",
     COPIES
     "  if (t < 15) dtc_copy_async(s + 4 * t, in + 4 * t + 1, 16);\n  dtc_copy_wait<0>();\n  out[t] = 0;\n}",
     COPIES "  if (t < 15) dtc_copy_async(s + 4 * t, in + 4 * t + 4, 16);\n  dtc_copy_commit();\n  "
            "dtc_copy_wait<0>();\n  out[t] = 0;\n}",
     "reads 16 bytes at an address that is not a multiple of 16"},
    {"ReadsPastTheEndUnlessToldHowMuch",
     COPIES "  if (t < 17) dtc_copy_async(s + 4 * (t % 16), in + 4 * t, 16);\n  dtc_copy_commit();\n"
            "  dtc_copy_wait<0>();\n  out[t] = 0;\n}",
     COPIES
     "  if (t < 16) dtc_copy_async(s + 4 * t, in + 4 * t + 4, t < 15 ? 16 : 0);\n  dtc_copy_commit();\n"
     "  dtc_copy_wait<0>();\n  __syncthreads();\n  out[t] = s[t];\n}",
     "thread (16, 0, 0) at line 4 reads 16 bytes past the end of a buffer"},
    {"LaneReturnsBeforeTheProduct", MMA "  if (t == 37) return;\n  dtc_mma<bf16>(c, a, 0u, 0u);\n" RESULT,
     MMA "\n  dtc_mma<bf16>(c, a, 0u, 0u);\n" RESULT,
     "of line 6 with mask 0xffffffff, which takes all 32 lanes of a warp, and lane 5 has returned"},
    {"LaneIsElsewhere", MMA "  if (t != 5) dtc_mma<f16>(c, a, 0u, 0u);\n  __syncthreads();\n" RESULT,
     MMA "  dtc_mma<f16>(c, a, 0u, 0u);\n  __syncthreads();\n" RESULT,
     "thread (5, 0, 0) waits at the barrier"},
    {"MatrixRowsMisaligned",
     COPIES "  s[t] = in[t];\n  __syncthreads();\n  u32 x[4];\n  dtc_load_matrices(x, s + t % 2 * 2);\n"
            "  out[t] = (f32)x[0];\n}",
     COPIES "  s[t] = in[t];\n  __syncthreads();\n  u32 x[4];\n  dtc_load_matrices(x, s + t % 2 * 4);\n"
            "  out[t] = (f32)x[0];\n}",
     "reads 16 bytes at an address that is not a multiple of 16 (shared variable 's', byte 8)"},
    {"MatrixRowsInGlobalMemory",
     COPIES "  s[t] = in[t];\n  __syncthreads();\n  u32 x[4];\n  dtc_load_matrices(x, in + t % 2 * 4);\n"
            "  out[t] = (f32)x[0];\n}",
     COPIES "  s[t] = in[t];\n  __syncthreads();\n  u32 x[4];\n  dtc_load_matrices(x, s + t % 2 * 4);\n"
            "  out[t] = (f32)x[0];\n}",
     "thread (0, 0, 0) is in dtc_load_matrices of line 7 with mask 0xffffffff, and its row is not in the "
     "block's shared memory"},
    {"CopyFromSharedMemory",
     COPIES
     "  s[t] = in[t];\n  __syncthreads();\n  if (t < 8) dtc_copy_async(s + 4 * t, s + 32 + 4 * t, 16);\n"
     "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n  __syncthreads();\n  out[t] = s[t];\n}",
     COPIES
     "  s[t] = in[t];\n  __syncthreads();\n  if (t < 8) dtc_copy_async(s + 4 * t, in + 32 + 4 * t, 16);\n"
     "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n  __syncthreads();\n  out[t] = s[t];\n}",
     "thread (0, 0, 0) at line 6: an asynchronous copy from memory that is not global"},
    {"BarrierBeforeTheWaitAlone",
     COPIES START
     "  dtc_copy_commit();\n  __syncthreads();\n  dtc_copy_wait<0>();\n  if (t < 63) out[t] = s[0];\n}",
     COPIES START
     "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n  __syncthreads();\n  if (t < 63) out[t] = s[0];\n}",
     "thread (1, 0, 0) at line 8 reads 4 bytes (shared variable 's', byte 0) that thread (0, 0, 0) has "
     "written at "
     "line 4, without a barrier in between"},
    {"CopyToGlobalMemory",
     COPIES
     "  s[t] = in[t];\n  if (t < 16) dtc_copy_async(out + 4 * t, in + 4 * t, 16);\n  dtc_copy_wait<0>();\n}",
     COPIES "  if (t < 16) dtc_copy_async(s + 4 * t, in + 4 * t, 16);\n  dtc_copy_commit();\n  "
            "dtc_copy_wait<0>();\n  out[t] = 0;\n}",
     "thread (0, 0, 0) at line 5: an asynchronous copy to memory that is not the block's shared memory"},
    {"CopyOfTooMuch",
     COPIES
     "  if (t < 8) dtc_copy_async(s + 8 * t, in + 8 * t, 32);\n  dtc_copy_wait<0>();\n  out[t] = 0;\n}",
     COPIES "  if (t < 8) dtc_copy_async(s + 8 * t, in + 8 * t, 16);\n  dtc_copy_commit();\n  "
            "dtc_copy_wait<0>();\n  out[t] = 0;\n}",
     "thread (0, 0, 0) at line 4: a copy of 16 bytes reads 32"},
    {"CopyOfWhatChanges",
     COPIES
     "  out[t] = in[t];\n  __syncthreads();\n  if (t < 16) dtc_copy_async(s + 4 * t, out + 4 * t, 16);\n"
     "  dtc_copy_commit();\n  __syncthreads();\n  out[t] = 7;\n  dtc_copy_wait<0>();\n}",
     COPIES
     "  out[t] = in[t];\n  __syncthreads();\n  if (t < 16) dtc_copy_async(s + 4 * t, out + 4 * t, 16);\n"
     "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n  __syncthreads();\n  out[t] = 7;\n}",
     "at line 6: the source has changed before the thread has waited for the copy"},
};

class EmuTensorFault : public testing::TestWithParam<TensorFault> {
protected:
  static std::string run(const char* text) {
    alignas(64) float out[64] = {}, in[64] = {};
    std::iota(std::begin(in), std::end(in), 0.0f);
    return runKernel(text, out, sizeof out, in, sizeof in, 64);
  }
};

TEST_P(EmuTensorFault, IsNamed) {
  const std::string error = run(GetParam().wrong);
  EXPECT_NE(error.find("cuda-emu: kernel 'k': "), std::string::npos) << error;
  EXPECT_NE(error.find(GetParam().error), std::string::npos) << error;
}
TEST_P(EmuTensorFault, PassesWhereItIsMended) { EXPECT_EQ(run(GetParam().right), ""); }

INSTANTIATE_TEST_SUITE_P(Seeded, EmuTensorFault, testing::ValuesIn(kTensorFaults),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc
