// Faults as in EmuFaults.cpp: fences between blocks and who has to come to what. `out` begins with 7.0f everywhere, which as an
// integer is kSeven.
#include "EmuFaults.h"

namespace dtc {
namespace {

#define SEVEN "constexpr u32 kSeven = 0x40e00000u;\n"
// The last block to arrive sums the results of all: FENCE is before the counter, GUARD after it.
#define LAST(fence, guard)                                                                                   \
  SEVEN KERNEL "  __shared__ bool last;\n"                                                                   \
               "  u32* const count = (u32*)out + 63;\n"                                                      \
               "  out[blockIdx.x * 32 + threadIdx.x % 8] = in[blockIdx.x];\n" fence                          \
               "  if (threadIdx.x == 0) last = atomicAdd(count, 1u) - kSeven == gridDim.x - 1;\n" guard      \
               "  if (last && threadIdx.x == 5) out[62] = out[0] + out[33];\n}"
// Each block waits for the one before it, by the order in which they come.
#define CHAIN(publish, wait)                                                                                 \
  SEVEN KERNEL "  if (threadIdx.x != 0) return;\n"                                                           \
               "  volatile u32* flags = (volatile u32*)out;\n"                                               \
               "  const u32 b = atomicAdd((u32*)out + 63, 1u) - kSeven;\n"                                   \
               "  f32 sum = 0;\n"                                                                            \
               "  if (b > 0) {\n"                                                                            \
               "    while (flags[b - 1] == kSeven) {}\n" wait "    sum = out[32 + b - 1];\n"                 \
               "  }\n"                                                                                       \
               "  out[32 + b] = sum + in[b];\n" publish "  flags[b] = 1;\n}"

const Fault kFenceFaults[] = {
    {"LastBlockWithoutAFence",
     LAST("\n", "  __syncthreads();\n"),
     LAST("  __threadfence();\n  __syncthreads();\n", "  __syncthreads();\n"),
     "thread (5, 0, 0) at line 9 reads 4 bytes (argument 0, byte ",
     {2, 1, 1},
     {8, 1, 1},
     64,
     0,
     true},
    {"LastBlockWithTheFenceOfOneThread",
     LAST("  if (threadIdx.x == 0) __threadfence();\n", "  __syncthreads();\n"),
     LAST("  __syncthreads();\n  if (threadIdx.x == 0) __threadfence();\n", "  __syncthreads();\n"),
     "thread (5, 0, 0) at line 9 reads 4 bytes (argument 0, byte 132 of 256) that thread (1, 0, 0) of block "
     "(1, 0, 0) has written at line 5: blocks are not ordered",
     {2, 1, 1},
     {8, 1, 1},
     64,
     0,
     true},
    {"ChainWithoutAFenceBeforeTheFlag",
     CHAIN("\n", "    __threadfence();\n"),
     CHAIN("  __threadfence();\n", "    __threadfence();\n"),
     "at line 10 reads 4 bytes (argument 0, byte 128",
     {4, 1, 1},
     {32, 1, 1},
     64,
     0,
     true},
    {"ChainWithoutAFenceBehindTheFlag",
     CHAIN("  __threadfence();\n", "\n"),
     CHAIN("  __threadfence();\n", "    __threadfence();\n"),
     "at line 10 reads 4 bytes (argument 0, byte 128",
     {4, 1, 1},
     {32, 1, 1},
     64,
     0,
     true},
    {"VolatileSum", // two may read before either writes
     KERNEL "  volatile f32* p = out;\n  *p = *p + in[threadIdx.x];\n}",
     KERNEL "  atomicAdd(out, in[threadIdx.x]);\n}",
     "block (0, 0, 0): thread (1, 0, 0) at line 3 writes 4 bytes (argument 0, byte 0 of 256) that thread (0, "
     "0, 0) "
     "has written at line 3",
     {1, 1, 1},
     {64, 1, 1},
     64,
     0,
     true},
    {"LockWithoutAFence",
     SEVEN KERNEL "  if (threadIdx.x % 32) return;\n"
                  "  while (atomicCAS((u32*)out, kSeven, 1u) != kSeven) {}\n\n"
                  "  out[1] += in[threadIdx.x];\n\n"
                  "  atomicExch((u32*)out, kSeven);\n}",
     SEVEN KERNEL "  if (threadIdx.x % 32) return;\n"
                  "  while (atomicCAS((u32*)out, kSeven, 1u) != kSeven) {}\n  __threadfence();\n"
                  "  out[1] += in[threadIdx.x];\n  __threadfence();\n"
                  "  atomicExch((u32*)out, kSeven);\n}",
     "thread (32, 0, 0) at line 6 reads 4 bytes (argument 0, byte 4 of 256) that thread (0, 0, 0) has "
     "written",
     {2, 1, 1},
     {64, 1, 1},
     64,
     0,
     true},
    {"FlagThatALaterThreadSets", // who waits lets others go on
     SEVEN KERNEL
     "  volatile u32* flag = (volatile u32*)out;\n"
     "  if (threadIdx.x == 0) {\n    while (*flag == kSeven) {}\n\n    out[2] = out[1];\n"
     "  } else if (threadIdx.x == 32) {\n    out[1] = 3;\n    __threadfence();\n    *flag = 1;\n  }\n}",
     SEVEN KERNEL
     "  volatile u32* flag = (volatile u32*)out;\n"
     "  if (threadIdx.x == 0) {\n    while (*flag == kSeven) {}\n    __threadfence();\n    out[2] = out[1];\n"
     "  } else if (threadIdx.x == 32) {\n    out[1] = 3;\n    __threadfence();\n    *flag = 1;\n  }\n}",
     "thread (0, 0, 0) at line 7 reads 4 bytes (argument 0, byte 4 of 256) that thread (32, 0, 0) has "
     "written at line 9",
     {1, 1, 1},
     {64, 1, 1},
     64,
     0,
     true},
    {"BarriersOfOneLine",
     KERNEL "  if (threadIdx.x & 1) { out[threadIdx.x] = 1; __syncthreads(); } else { __syncthreads(); }\n}",
     KERNEL "  if (n & 1) { out[threadIdx.x] = 1; __syncthreads(); } else { __syncthreads(); }\n}",
     "block (0, 0, 0): not all threads are at the same barrier"},
    {"MaskOfLanesThatPassBy",
     KERNEL "  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 8);\n}",
     KERNEL
     "  if (threadIdx.x >= 16) return;\n"
     "  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 8);\n}", // the others have left
     "is in __shfl_xor_sync of line 2 with mask 0xffffffff, but thread (16, 0, 0) has "
     "returned without it",
     {1, 1, 1},
     {32, 1, 1}},
    {"VotesOfALoopOfDifferentLengths",
     KERNEL "  i32 c = 0;\n  for (u32 i = 0; i < threadIdx.x; ++i) c += __any_sync(0xffffffffu, i == 3);\n"
            "  out[threadIdx.x] = c;\n}",
     KERNEL "  i32 c = 0;\n  for (u32 i = 0; i < 31; ++i) c += __any_sync(0xffffffffu, i == 3);\n"
            "  out[threadIdx.x] = c;\n}",
     "has returned without it",
     {1, 1, 1},
     {32, 1, 1}},
    {"ShuffleOutOfTheWarp",
     KERNEL "  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 32);\n}",
     KERNEL "  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 16);\n}",
     "is in __shfl_xor_sync of line 2 with mask 0xffffffff and shifts by 32 lanes, out of its warp"},
    {"ClusterBarrierOfOneBlock",
     CLUSTER "  out[32 * blockIdx.x + threadIdx.x] = 0;\n  if (blockIdx.x == 0) dtc_cluster_sync();\n}",
     CLUSTER "  out[32 * blockIdx.x + threadIdx.x] = 0;\n  dtc_cluster_sync();\n}",
     "a cluster barrier that not all threads reach: thread (0, 0, 0) waits at the cluster barrier of line 3, "
     "but thread "
     "(0, 0, 0) of block (1, 0, 0) has returned without it",
     {2, 1, 1},
     {32, 1, 1}},
    {"CopyUnderWayAtTheEnd",
     KERNEL "  __shared__ __align__(16) f32 s[64];\n"
            "  dtc_copy_async(s + threadIdx.x * 4, in + threadIdx.x * 4, 16);\n"
            "  dtc_copy_wait<0>();\n}", // a copy that is in no group is not waited for
     KERNEL "  __shared__ __align__(16) f32 s[64];\n"
            "  dtc_copy_async(s + threadIdx.x * 4, in + threadIdx.x * 4, 16);\n"
            "  dtc_copy_commit();\n  dtc_copy_wait<0>();\n}",
     "block (0, 0, 0): thread (0, 0, 0) ends while its asynchronous copy of line 3 is in flight: it has not "
     "waited for it",
     {1, 1, 1},
     {16, 1, 1}},
};

class EmuFenceFault : public EmuFault {};
TEST_P(EmuFenceFault, IsNamed) { expectNamed(GetParam(), run(GetParam().wrong)); }
TEST_P(EmuFenceFault, PassesWhereItIsMended) { EXPECT_EQ(run(GetParam().right), ""); }
INSTANTIATE_TEST_SUITE_P(Seeded, EmuFenceFault, testing::ValuesIn(kFenceFaults),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc
