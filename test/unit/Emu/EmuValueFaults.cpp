// More faults put into kernels on purpose: in what a thread computes by itself, in atomics, in the use of a cluster's shared memory,
// and in launches without buffers, as the stub of the driver makes them.
#include "EmuFaults.h"
#include <optional>

namespace dtc {
namespace {

const Fault kValueFaults[] = {
    {"ProductThatOverflows",
     KERNEL "  const i32 far = n * 40000000;\n  out[threadIdx.x] = in[threadIdx.x] + (far > 0);\n}",
     KERNEL "  const i64 far = (i64)n * 40000000;\n  out[threadIdx.x] = in[threadIdx.x] + (far > 0);\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 2 overflows a signed integer"},
    {"SumThatOverflows",
     KERNEL "  const i32 t = threadIdx.x, last = 2147483647 - 40 + t;\n  out[t] = in[last > 0 ? t : 0];\n}",
     KERNEL "  const i32 t = threadIdx.x, last = 2147483647 - 64 + t;\n  out[t] = in[last > 0 ? t : 0];\n}",
     "block (0, 0, 0): thread (41, 0, 0) at line 2 overflows a signed integer"},
    {"ShiftByAllBits", KERNEL "  out[threadIdx.x] = 1 << n / 2;\n}",
     KERNEL "  out[threadIdx.x] = 1 << n / 4;\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 2 shifts by 32, which is at least the number of bits"},
    {"ShiftByLessThanNone", KERNEL "  out[threadIdx.x] = n >> (i32)threadIdx.x - 1;\n}",
     KERNEL "  out[threadIdx.x] = n >> (i32)threadIdx.x % 32;\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 2 shifts by -1, which is at least the number of bits"},
    {"UnsetTheFirstTimeThroughALoop", // no compiler warns
     KERNEL "  f32 last;\n  for (i32 i = 0; i < 4; ++i) {\n    if (i > 0) out[threadIdx.x] = last;\n"
            "    if (i > 0) last = in[i];\n  }\n}",
     KERNEL "  f32 last;\n  for (i32 i = 0; i < 4; ++i) {\n    if (i > 0) out[threadIdx.x] = last;\n"
            "    if (i >= 0) last = in[i];\n  }\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 4 reads an uninitialized part of its local variable 'last'"},
    {"ExchangeForASum", // the last one wins
     KERNEL "  atomicExch((i32*)out, (i32)threadIdx.x);\n}",
     KERNEL "  atomicAdd((i32*)out, (i32)threadIdx.x);\n}",
     "the result depends on the order of threads and blocks: argument 0, byte 0",
     {1, 1, 1},
     {64, 1, 1},
     64,
     0,
     true},
    {"PlaceByATicket", // who comes first is nobody's promise
     KERNEL "  __shared__ i32 ticket;\n  if (threadIdx.x == 0) ticket = 0;\n  __syncthreads();\n"
            "  out[atomicAdd(&ticket, 1)] = in[threadIdx.x];\n}",
     KERNEL "  __shared__ i32 ticket;\n  if (threadIdx.x == 0) ticket = 0;\n  __syncthreads();\n"
            "  out[atomicAdd(&ticket, 1) * 0 + threadIdx.x] = in[threadIdx.x];\n}",
     "the result depends on the order of threads and blocks: argument 0, byte "},
    {"PlainReadBesideAVolatileOne",
     KERNEL
     "  __shared__ i32 s;\n  if (threadIdx.x == 0) s = 0;\n  __syncthreads();\n"
     "  if (threadIdx.x == 63) out[0] = (s & 0) + (*(volatile i32*)&s & 0);\n  else atomicAdd(&s, 1);\n}",
     KERNEL "  __shared__ i32 s;\n  if (threadIdx.x == 0) s = 0;\n  __syncthreads();\n"
            "  if (threadIdx.x == 63) out[0] = *(volatile i32*)&s & 0;\n  else atomicAdd(&s, 1);\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 6 updates 4 bytes (shared variable 's', byte 0) that thread "
     "(63, 0, 0) has read at line 5, without a barrier in between"},
    {"WrittenByOneOfTwoBlocksThatReadIt",
     KERNEL
     "  const f32 x = out[threadIdx.x];\n  if (blockIdx.x == 1) out[threadIdx.x] = x + in[threadIdx.x];\n}",
     KERNEL "  const f32 x = out[threadIdx.x];\n  if (blockIdx.x == 1) out[threadIdx.x + 32] = x + "
            "in[threadIdx.x];\n}",
     "block (1, 0, 0): thread (0, 0, 0) at line 3 writes 4 bytes (argument 0, byte 0 of 256) that another "
     "block has "
     "read, too: blocks are not ordered",
     {2, 1, 1},
     {32, 1, 1},
     64,
     0,
     true},
    {"WarpBarrierWhereTwoWarpsRead",
     KERNEL "  __shared__ f32 s;\n  if (threadIdx.x == 0) s = 1;\n  __syncthreads();\n  const f32 x = s;\n"
            "  __syncwarp();\n  if (threadIdx.x == 63) s = 2;\n  out[threadIdx.x] = x;\n}",
     KERNEL "  __shared__ f32 s;\n  if (threadIdx.x == 0) s = 1;\n  __syncthreads();\n  const f32 x = s;\n"
            "  __syncthreads();\n  if (threadIdx.x == 63) s = 2;\n  out[threadIdx.x] = x;\n}",
     "block (0, 0, 0): thread (63, 0, 0) at line 7 writes 4 bytes (shared variable 's', byte 0) that another "
     "thread "
     "has read at line 5, without a barrier in between"},
    {"WarpBarrierOfTooFewLanes",
     KERNEL "  __shared__ f32 s;\n  const i32 t = threadIdx.x;\n  if (t == 0) s = 1;\n  __syncthreads();\n"
            "  const f32 x = s;\n  if (t >= 30) __syncwarp(0xc0000000u);\n  if (t == 31) s = 2;\n  out[t] "
            "= x;\n}",
     KERNEL "  __shared__ f32 s;\n  const i32 t = threadIdx.x;\n  if (t == 0) s = 1;\n  __syncthreads();\n"
            "  const f32 x = s;\n  __syncwarp();\n  if (t == 31) s = 2;\n  out[t] = x;\n}",
     "block (0, 0, 0): thread (31, 0, 0) at line 8 writes 4 bytes (shared variable 's', byte 0) that thread "
     "(0, 0, 0) "
     "has read at line 6, without a barrier in between",
     {1, 1, 1},
     {32, 1, 1}},
    {"BarrierOfOneBlockWhereTwoRead",
     CLUSTER "  __shared__ f32 s[32];\n  s[threadIdx.x] = 1;\n  dtc_cluster_sync();\n  f32 x = 0;\n"
             "  if (threadIdx.x == 0) x = dtc_map_shared(s, 0)[0];\n  __syncthreads();\n"
             "  if (threadIdx.x == 0 && dtc_cluster_rank() == 0) s[0] = 2;\n"
             "  out[32 * blockIdx.x + threadIdx.x] = x;\n  dtc_cluster_sync();\n}",
     CLUSTER "  __shared__ f32 s[32];\n  s[threadIdx.x] = 1;\n  dtc_cluster_sync();\n  f32 x = 0;\n"
             "  if (threadIdx.x == 0) x = dtc_map_shared(s, 0)[0];\n  dtc_cluster_sync();\n"
             "  if (threadIdx.x == 0 && dtc_cluster_rank() == 0) s[0] = 2;\n"
             "  out[32 * blockIdx.x + threadIdx.x] = x;\n  dtc_cluster_sync();\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 8 writes 4 bytes (shared variable 's', byte 0) that another "
     "thread "
     "has read at line 6, without a barrier in between",
     {2, 1, 1},
     {32, 1, 1}},
    {"NamedBarrierOfHalfWarps",
     KERNEL
     "  if (threadIdx.x % 32 < 16) dtc_barrier(1, 32);\n  __syncthreads();\n  out[threadIdx.x] = 1;\n}",
     KERNEL "  if (threadIdx.x < 32) dtc_barrier(1, 32);\n  __syncthreads();\n  out[threadIdx.x] = 1;\n}",
     "block (0, 0, 0): a barrier needs complete warps: thread (47, 0, 0) is at barrier 1 of line 2, but "
     "thread "
     "(16, 0, "
     "0) waits at the barrier of line 3"},
    {"MoreBarriersThanAreCounted",
     KERNEL "  for (i32 i = 0; i < 2200000; ++i) __syncthreads();\n  out[threadIdx.x] = 1;\n}",
     KERNEL "  for (i32 i = 0; i < 22000; ++i) __syncthreads();\n  out[threadIdx.x] = 1;\n}",
     "more barriers than the checks can count (2^21)",
     {1, 1, 1},
     {1, 1, 1}},
    {"MoreWarpBarriersThanAreCounted",
     KERNEL "  for (i32 i = 0; i < 2200000; ++i) __syncwarp(1u);\n  out[threadIdx.x] = 1;\n}",
     KERNEL "  for (i32 i = 0; i < 22000; ++i) __syncwarp(1u);\n  out[threadIdx.x] = 1;\n}",
     "more barriers than the checks can count (2^21)",
     {1, 1, 1},
     {1, 1, 1}},
    {"ShuffleForABarrier", // it orders no memory
     KERNEL "  __shared__ f32 s[32];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n"
            "  const f32 x = __shfl_sync(0xffffffffu, in[t], 0);\n  out[t] = s[31 - t] + x;\n}",
     KERNEL "  __shared__ f32 s[32];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncwarp();\n"
            "  const f32 x = __shfl_sync(0xffffffffu, in[t], 0);\n  out[t] = s[31 - t] + x;\n}",
     "block (0, 0, 0): thread (31, 0, 0) at line 6 reads 4 bytes (shared variable 's', byte 0) that thread "
     "(0, 0, 0) "
     "has written at line 4, without a barrier in between",
     {1, 1, 1},
     {32, 1, 1}},
    {"GlobalMemoryOfAnotherBlock",
     CLUSTER
     "  dtc_cluster_sync();\n  out[32 * blockIdx.x + threadIdx.x] = dtc_map_shared(in, 1)[threadIdx.x];\n"
     "  dtc_cluster_sync();\n}",
     CLUSTER "  dtc_cluster_sync();\n  out[32 * blockIdx.x + threadIdx.x] = in[threadIdx.x];\n  "
             "dtc_cluster_sync();\n}",
     "cannot map an address to another block: it is not in shared memory",
     {2, 1, 1},
     {32, 1, 1}},
    {"ShuffleOfTwoMasksAtATime",
     KERNEL "  out[threadIdx.x] = __shfl_xor_sync(threadIdx.x < 16 ? 0x1ffffu : 0xffffffffu, "
            "in[threadIdx.x], 1);\n}",
     KERNEL "  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 1);\n}",
     "a warp operation that not all lanes of its mask reach: thread (0, 0, 0) is in __shfl_xor_sync of line "
     "2 with mask "
     "0x0001ffff, but thread (16, 0, 0) is in __shfl_xor_sync of line 2 with mask 0xffffffff",
     {1, 1, 1},
     {32, 1, 1}},
    {"IndexBelowShared",
     KERNEL "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t - 1] = in[t];\n  out[t] = 0;\n}",
     KERNEL "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  out[t] = 0;\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 4 writes 4 bytes before the start of shared memory (byte "
     "-4)"},
    {"BlockThatHasEnded",
     CLUSTER "  __shared__ f32 s[32];\n  s[threadIdx.x] = in[threadIdx.x];\n  dtc_cluster_sync();\n"
             "  if (dtc_cluster_rank() == 1) return;\n  __syncthreads();\n  __syncthreads();\n"
             "  out[threadIdx.x] = dtc_map_shared(s, 1)[threadIdx.x];\n}",
     CLUSTER
     "  __shared__ f32 s[32];\n  s[threadIdx.x] = in[threadIdx.x];\n  dtc_cluster_sync();\n"
     "  if (dtc_cluster_rank() == 1) return dtc_cluster_sync();\n  __syncthreads();\n  __syncthreads();\n"
     "  out[threadIdx.x] = dtc_map_shared(s, 1)[threadIdx.x];\n  dtc_cluster_sync();\n}",
     "at line 8 reads 4 bytes of shared memory of block (1, 0, 0), which "
     "has "
     "ended",
     {2, 1, 1},
     {32, 1, 1}},
    {"BlockThatMayEndTooSoon",
     CLUSTER "  __shared__ f32 s[32];\n  s[threadIdx.x] = in[threadIdx.x];\n  dtc_cluster_sync();\n"
             "  if (dtc_cluster_rank() == 0) out[threadIdx.x] = dtc_map_shared(s, 1)[threadIdx.x];\n"
             "  else __syncthreads();\n}",
     CLUSTER "  __shared__ f32 s[32];\n  s[threadIdx.x] = in[threadIdx.x];\n  dtc_cluster_sync();\n"
             "  if (dtc_cluster_rank() == 0) out[threadIdx.x] = dtc_map_shared(s, 1)[threadIdx.x];\n"
             "  dtc_cluster_sync();\n}",
     "at line 5 uses shared memory of block (1, 0, 0), which ends without a cluster barrier after that",
     {2, 1, 1},
     {32, 1, 1}},
};

class EmuValueFaults : public EmuFault {};
TEST_P(EmuValueFaults, AreNamed) { expectNamed(GetParam(), run(GetParam().wrong)); }
TEST_P(EmuValueFaults, PassWhereTheyAreMended) { EXPECT_EQ(run(GetParam().right), ""); }
INSTANTIATE_TEST_SUITE_P(Seeded, EmuValueFaults, testing::ValuesIn(kValueFaults),
                         [](const auto& info) { return std::string(info.param.name); });

class EmuLaunches : public testing::Test {
protected:
  // What is wrong with one warp of kernel k(f32* x) that may touch 64 floats, the first 32 of them set.
  std::string errorOf(const std::string& line, std::span<const EmuBuffer> buffers = {},
                      uint32_t numArgs = 2) {
    const SourceUnit unit{
        "k", "extern \"C\" __global__ void k(f32* x, f32* same) {\n  const i32 t = threadIdx.x;\n  " + line +
                 "\n}"};
    JitConfig config;
    config.useCache = false;
    const CpuJit jit(config);
    auto module = CudaEmu(jit).compile({&unit, 1});
    if (!module) return module.error().message;
    memory_.emplace().add(x_, sizeof x_);
    memory_->set(x_, 128, true);
    float* p = x_;
    void* args[] = {&p, &p};
    const Status done = module->launch("k", {{1, 1, 1}, {32, 1, 1}, 0, args, numArgs, buffers, &*memory_});
    return done.ok() ? "" : done.error().message;
  }
  alignas(64) float x_[64] = {};
  std::optional<EmuMemory> memory_; // of the last launch
  static constexpr const char* kThread = "cuda-emu: kernel 'k': block (0, 0, 0): thread (0, 0, 0) at line 3 ";
};

TEST_F(EmuLaunches, WithoutBuffersKeepToTheDevicesMemory) {
  EXPECT_EQ(errorOf("x[t + 32] = x[t];"), "");
  EXPECT_EQ(errorOf("x[t] = x[t + 32];"), std::string(kThread) +
                                              "reads 4 bytes that nothing has written (global "
                                              "memory)\n  3 | x[t] = x[t + 32];");
  EXPECT_EQ(errorOf("x[t] = x[t + 64];"),
            std::string(kThread) + "reads 4 bytes outside of the device's memory\n  3 | x[t] = x[t + 64];");
  EXPECT_EQ(errorOf("*(float2*)(x + 2 * t + 1) = {};"),
            std::string(kThread) +
                "writes 8 bytes at an address that is not a multiple of 8 (global memory)\n  3 | "
                "*(float2*)(x + 2 * t + 1) = {};");
}

TEST_F(EmuLaunches, OfEmptyBuffersTouchNothing) {
  const EmuBuffer none[] = {{0, 0}};
  EXPECT_EQ(errorOf("x[t] = 0;", none),
            std::string(kThread) +
                "writes 4 bytes of global memory, but the launch has no buffers\n  3 | x[t] = 0;");
}

TEST_F(EmuLaunches, KeepToTheStripsOfABuffer) {
  const EmuBuffer strips[] = {{0, 112, true, true, false, {16, 32, 4, 0}}}; // four floats of each eight
  EXPECT_EQ(errorOf("x[t / 4 % 4 * 8 + t % 4] + 0;", strips), "");
  EXPECT_EQ(errorOf("if (t == 0) x[4] = 0;", strips),
            std::string(kThread) +
                "writes 4 bytes between the parts of a buffer that it may access (argument 0, byte "
                "16 of 112)\n  3 | if (t == 0) x[4] = 0;");
}

TEST_F(EmuLaunches, KeepToNoStripsWhereTwoBuffersOverlap) {
  const EmuBuffer buffers[] = {{0, 112, true, true, false, {16, 32, 4, 0}}, {1, 256}};
  EXPECT_EQ(errorOf("if (t == 0) x[4] = 0;", buffers), "");
}

TEST_F(EmuLaunches, LeaveSetWhatTheyWrite) {
  const EmuBuffer both[] = {{0, 256}}, out[] = {{0, 256, false, true}};
  EXPECT_EQ(errorOf("if (t < 8) x[t + 32] = x[t];", both), "");
  EXPECT_TRUE(memory_->defined(x_, 160));
  EXPECT_FALSE(memory_->defined(x_ + 40, 4));
  EXPECT_EQ(errorOf("if (t < 8) x[t] = 1;", out), "");
  EXPECT_TRUE(memory_->defined(x_, 32));
  EXPECT_FALSE(memory_->defined(x_ + 8, 4)); // what was there is nobody's
}

TEST_F(EmuLaunches, HaveAsManyArgumentsAsTheKernel) {
  const EmuBuffer buffer[] = {{0, 256}};
  EXPECT_EQ(errorOf("x[t] = 0;", buffer), "");
  EXPECT_EQ(errorOf("x[t] = 0;", buffer, 3),
            "cuda-emu: kernel 'k': it takes 2 arguments, but the launch has 3");
}

TEST_F(EmuLaunches, ReadNothingThatIsUnsetInTheirBuffers) {
  const EmuBuffer buffer[] = {{0, 256}};
  EXPECT_EQ(errorOf("x[t] = x[t];", buffer), "");
  EXPECT_EQ(
      errorOf("x[t] = x[t + 32];", buffer),
      std::string(kThread) +
          "reads 4 bytes that nothing has written (argument 0, byte 128 of 256)\n  3 | x[t] = x[t + 32];");
}

TEST_F(EmuLaunches, AreOfShapesThatAGpuTakes) {
  const JitConfig config{.useCache = false};
  const CpuJit jit(config);
  const SourceUnit unit{"k", "extern \"C\" __global__ void __cluster_dims__(16, 1, 1) k(f32* x) {}\n"
                             "extern \"C\" __global__ void __cluster_dims__(2, 1, 1) two(f32* x) {}\n"
                             "extern \"C\" __global__ void one(f32* x) {}"};
  auto module = CudaEmu(jit).compile({&unit, 1});
  ASSERT_TRUE(module.ok()) << module.error().message;
  float* p = nullptr;
  void* args[] = {&p};
  const auto errorOf = [&](const char* kernel, Dim3 grid, Dim3 block) {
    const Status done = module->launch(kernel, grid, block, 0, args);
    return done.ok() ? "" : done.error().message;
  };
  EXPECT_EQ(errorOf("k", {16, 1, 1}, {32, 1, 1}),
            "cuda-emu: kernel 'k': a cluster of (16, 1, 1) blocks is larger than 8");
  EXPECT_EQ(errorOf("two", {3, 1, 1}, {32, 1, 1}),
            "cuda-emu: kernel 'two': the grid (3, 1, 1) is not a multiple of the cluster (2, 1, 1)");
  EXPECT_EQ(errorOf("one", {1, 1, 1}, {1, 1, 64}), "");
  EXPECT_EQ(errorOf("one", {1, 1, 1}, {1, 1, 65}), "cuda-emu: kernel 'one': invalid block (1, 1, 65)");
}

TEST(EmuMemoryTest, CopiesOfWhatIsUnsetAreUnset) {
  std::byte from[64], to[64];
  EmuMemory memory;
  memory.add(from, sizeof from);
  memory.add(to, sizeof to);
  memory.set(from, 24, true);
  memory.set(to + 32, 32, true);
  memory.copy(to, from, 48);
  EXPECT_TRUE(memory.defined(to, 24));
  EXPECT_FALSE(memory.defined(to + 24, 1));
  EXPECT_FALSE(memory.defined(to + 40, 8));
  EXPECT_TRUE(memory.defined(to + 48, 16));
}

} // namespace
} // namespace dtc
