// More faults, as in EmuFaults.cpp: of one thread by itself, of launches, between blocks, of warps and clusters.
#include "EmuFaults.h"

namespace dtc {
namespace {

const Fault kMoreFaults[] = {
    {"IndexOfAnOwnArray",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  f32 a[4];\n"
            "  for (i32 j = 0; j < 4; ++j) a[j] = in[j];\n"
            "  out[t] = a[t % 5];\n"
            "}",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  f32 a[4];\n"
            "  for (i32 j = 0; j < 4; ++j) a[j] = in[j];\n"
            "  out[t] = a[t % 4];\n"
            "}",
     "block (0, 0, 0): thread (4, 0, 0) at line 5 is outside of its local variable 'a' (byte 16)\n  5 | "
     "out[t] "
     "= a[t % 5];"},
    {"NegativeIndexOfAnOwnArray",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  f32 a[4];\n"
            "  for (i32 j = 0; j < 4; ++j) a[(j + t) % 4 - 1] = in[j];\n"
            "  out[t] = a[t % 4];\n"
            "}",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  f32 a[4];\n"
            "  for (i32 j = 0; j < 4; ++j) a[(j + t) % 4] = in[j];\n"
            "  out[t] = a[t % 4];\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) at line 4 is outside of its local variable 'a' (byte -4)"},
    {"ElementOfAnOwnArrayThatNothingSets",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  f32 a[4];\n"
            "  for (i32 j = 0; j < 3; ++j) a[j] = in[j];\n"
            "  out[t] = a[t % 4];\n"
            "}",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  f32 a[4];\n"
            "  for (i32 j = 0; j < 4; ++j) a[j] = in[j];\n"
            "  out[t] = a[t % 4];\n"
            "}",
     "block (0, 0, 0): thread (3, 0, 0) at line 5 reads an uninitialized part of its local variable 'a'\n  5 "
     "| "
     "out[t] = a[t % 4];"},
    {"PackOfWhichAPartIsStoredUnset",
     KERNEL "  dtc_pack<f32, 4> a;\n"
            "  for (i32 j = 0; j < 4; ++j)\n"
            "    if (j != n - 61) a.at[j] = in[j];\n"
            "  if (threadIdx.x < 16) dtc_store_pack(out + 4 * threadIdx.x, a);\n"
            "}",
     KERNEL "  dtc_pack<f32, 4> a;\n"
            "  for (i32 j = 0; j < 4; ++j) a.at[j] = in[j];\n"
            "  if (threadIdx.x < 16) dtc_store_pack(out + 4 * threadIdx.x, a);\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) at line 5"},
    {"VariableOfAScopeThatHasEnded",
     KERNEL "  const f32* p = in;\n"
            "  {\n"
            "    f32 a[2];\n"
            "    a[0] = in[threadIdx.x], a[1] = 0;\n"
            "    p = a;\n"
            "  }\n"
            "  out[threadIdx.x] = *p;\n"
            "}",
     KERNEL "  const f32* p = in;\n"
            "  {\n"
            "    f32 a[2];\n"
            "    a[0] = in[threadIdx.x], a[1] = 0;\n"
            "    p = a;\n"
            "    out[threadIdx.x] = *p;\n"
            "  }\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) at line 8 reads an uninitialized part of its local variable 'a'"},
    {"VolatileFlagOfABlock",
     KERNEL "  __shared__ volatile i32 flag;\n"
            "  if (threadIdx.x == 0) flag = 1;\n"
            "  out[threadIdx.x] = flag;\n"
            "}",
     KERNEL "  __shared__ volatile i32 flag;\n"
            "  if (threadIdx.x == 0) flag = 1;\n"
            "  __syncthreads();\n"
            "  out[threadIdx.x] = flag;\n"
            "}",
     "block (0, 0, 0): thread (1, 0, 0) at line 4 reads 4 bytes (shared variable 'flag', byte 0) that thread "
     "(0, 0, 0) has written at line 3, without a barrier in between"},
    {"FenceAndFlagBetweenBlocks", // which of them comes first is nobody's promise
     KERNEL "  volatile f32* flag = out + 32;\n"
            "  if (blockIdx.x == 0) {\n"
            "    out[threadIdx.x] = 1;\n"
            "    __threadfence();\n"
            "    if (threadIdx.x == 0) *flag = 1;\n"
            "  } else if (threadIdx.x == 0 && *flag == 1) {\n"
            "    out[33] = out[0];\n"
            "  }\n"
            "}",
     KERNEL "  volatile f32* flag = out + 32;\n"
            "  if (blockIdx.x == 0) {\n"
            "    out[threadIdx.x] = 1;\n"
            "    __threadfence();\n"
            "    if (threadIdx.x == 0) *flag = 1;\n"
            "  } else if (threadIdx.x == 0) {\n"
            "    out[33] = 2;\n"
            "  }\n"
            "}",
     "block (1, 0, 0): thread (0, 0, 0) at line 8 reads 4 bytes (argument 0, byte 0 of 256) that thread "
     "(0, 0, 0) "
     "of block (0, 0, 0) has written at line 4: blocks are not ordered",
     {2, 1, 1},
     {32, 1, 1},
     64,
     0,
     true},
    {"DivisionByZero",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  out[t] = n / (t - 3);\n"
            "}",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  out[t] = n / (t + 3);\n"
            "}",
     "block (0, 0, 0): thread (3, 0, 0) at line 3 divides by zero, or the minimum integer by -1\n  3 | "
     "out[t] = "
     "n / (t - 3);"},
    {"LeastDividedByMinusOne",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  out[t] = (-2147483647 - 1) % (t - 5);\n"
            "}",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  out[t] = (-2147483647 - 1) % (t + 5);\n"
            "}",
     "block (0, 0, 0): thread (4, 0, 0) at line 3 divides by zero, or the minimum integer by -1",
     {1, 1, 1},
     {5, 1, 1}},
    {"LoopThatDoesNotEnd",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  i32 i = t;\n"
            "  while (i != 1000) i += 2;\n"
            "  out[t] = i;\n"
            "}",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  i32 i = t;\n"
            "  while (i != 1000) i += 1;\n"
            "  out[t] = i;\n"
            "}",
     "block (0, 0, 0): thread (1, 0, 0) at line 4 is in a loop that does not end (67108864 iterations): the "
     "value that it waits for may never change"},
    {"WaitForAnotherBlock",
     KERNEL "  if (threadIdx.x == 0 && blockIdx.x == 0)\n"
            "    while (atomicAdd((i32*)out, 0) == 1088421888) {}\n"
            "  if (blockIdx.x == 1) atomicExch((i32*)out, 1);\n"
            "}",
     KERNEL "  if (threadIdx.x == 0 && blockIdx.x == 0)\n"
            "    atomicAdd((i32*)out, 0);\n"
            "  if (blockIdx.x == 1) atomicExch((i32*)out, 1);\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) at line 3 updates 4 bytes 1048576 times at one location while no "
     "other thread can run: the value that it waits for never changes",
     {2, 1, 1},
     {64, 1, 1},
     64,
     0,
     true},
    {"ElementThatNothingWrites",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  if (t < n - 1) out[t] = in[t];\n"
            "}",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  if (t < n) out[t] = in[t];\n"
            "}",
     "no thread has written byte 252 of 256 of argument 0, which is a result",
     {1, 1, 1},
     {64, 1, 1},
     64,
     0,
     false,
     true},
    {"GridOfTooFewBlocks",
     KERNEL "  const i32 i = blockIdx.x * 64 + threadIdx.x;\n"
            "  if (i < n) out[i] = in[i];\n"
            "}",
     KERNEL "  for (i32 i = blockIdx.x * 64 + threadIdx.x; i < n; i += 64) out[i] = in[i];\n"
            "}",
     "no thread has written byte 256 of 260 of argument 0, which is a result",
     {1, 1, 1},
     {64, 1, 1},
     65,
     0,
     false,
     true},
    {"GridOfTooManyBlocks",
     KERNEL "  out[blockIdx.x * 64 + threadIdx.x] = in[0];\n"
            "}",
     KERNEL "  out[blockIdx.x * 32 + threadIdx.x] = in[0];\n"
            "}",
     "block (1, 0, 0): thread (0, 0, 0) at line 2 writes 4 bytes past the end of a buffer (argument 0, byte "
     "256 of 256)",
     {2, 1, 1},
     {32, 1, 1},
     64},
    {"BarrierInALoopOfDifferentLengths",
     KERNEL "  for (u32 i = 0; i < threadIdx.x / 32 + 1; ++i) __syncthreads();\n"
            "  out[threadIdx.x] = 0;\n"
            "}",
     KERNEL "  for (u32 i = 0; i < blockDim.x / 32; ++i) __syncthreads();\n"
            "  out[threadIdx.x] = 0;\n"
            "}",
     "block (0, 0, 0): a barrier that not all threads of the block reach: thread (32, 0, 0) waits at the "
     "barrier of line 2, but thread (0, 0, 0) has returned"},
    {"BarrierBehindAReturn",
     KERNEL "  if ((i32)threadIdx.x >= n - 1) return;\n"
            "  __syncthreads();\n"
            "  out[threadIdx.x] = 0;\n"
            "}",
     KERNEL "  __syncthreads();\n"
            "  if ((i32)threadIdx.x >= n - 1) return;\n"
            "  out[threadIdx.x] = 0;\n"
            "}",
     "block (0, 0, 0): a barrier that not all threads of the block reach: thread (0, 0, 0) waits at the "
     "barrier of line 3, but thread (63, 0, 0) has returned"},
    {"VoteThatNotAllLanesReach",
     KERNEL "  if (threadIdx.x < 16) out[threadIdx.x] = __ballot_sync(0xffffffffu, in[threadIdx.x] > 3);\n"
            "  __syncwarp();\n"
            "}",
     KERNEL "  if (threadIdx.x < 16) out[threadIdx.x] = __ballot_sync(0xffffu, in[threadIdx.x] > 3);\n"
            "  __syncwarp();\n"
            "}",
     "block (0, 0, 0): a warp operation that not all lanes of its mask reach: thread (0, 0, 0) is in "
     "__ballot_sync of line 2 with mask 0xffffffff, but thread (16, 0, 0) is in __syncwarp of line 3 with "
     "mask 0xffffffff",
     {1, 1, 1},
     {32, 1, 1}},
    {"VoteWithoutTheCaller",
     KERNEL "  out[threadIdx.x] = __any_sync(0xfffffffeu, in[threadIdx.x] > 3);\n"
            "}",
     KERNEL "  out[threadIdx.x] = __any_sync(0xffffffffu, in[threadIdx.x] > 3);\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) is in __any_sync of line 2 with mask 0xfffffffe, which does not "
     "include "
     "the thread itself",
     {1, 1, 1},
     {32, 1, 1}},
    {"ShuffleOfTwoMasks",
     KERNEL
     "  out[threadIdx.x] = __shfl_xor_sync(threadIdx.x < 16 ? 0xffffu : 0xffffffffu, in[threadIdx.x], 1);\n"
     "}",
     KERNEL
     "  out[threadIdx.x] = __shfl_xor_sync(threadIdx.x < 16 ? 0xffffu : 0xffff0000u, in[threadIdx.x], 1);\n"
     "}",
     "block (0, 0, 0): thread (16, 0, 0) is in __shfl_xor_sync of line 2 with mask 0xffffffff, but thread "
     "(0, 0, 0) took part with mask 0x0000ffff",
     {1, 1, 1},
     {32, 1, 1}},
    {"ShuffleOfAnOddWidth",
     KERNEL "  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 1, 24);\n"
            "}",
     KERNEL "  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 1, 16);\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) is in __shfl_xor_sync of line 2 with mask 0xffffffff and width 24, "
     "which is not a power of two up to 32",
     {1, 1, 1},
     {32, 1, 1}},
    {"ShuffleBeyondAShortWarp",
     KERNEL "  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 16);\n"
            "}",
     KERNEL "  out[threadIdx.x] = __shfl_xor_sync(0xffffffffu, in[threadIdx.x], 8);\n"
            "}",
     "block (0, 0, 0): thread (32, 0, 0) is in __shfl_xor_sync of line 2 with mask 0xffffffff and reads lane "
     "16, which does not exist",
     {1, 1, 1},
     {48, 1, 1}},
    {"NamedBarrierOfTwoCounts",
     KERNEL "  dtc_barrier(1, threadIdx.x < 32 ? 64 : 32);\n"
            "  out[threadIdx.x] = 0;\n"
            "}",
     KERNEL "  dtc_barrier(1, 64);\n"
            "  out[threadIdx.x] = 0;\n"
            "}",
     "block (0, 0, 0): thread (32, 0, 0) at line 2: barrier 1 has a count of 32 here and of "
     "64 elsewhere"},
    {"NamedBarrierOfNoNumber",
     KERNEL "  dtc_barrier(16 + 0 * n, 64);\n"
            "  out[threadIdx.x] = 0;\n"
            "}",
     KERNEL "  dtc_barrier(15 + 0 * n, 64);\n"
            "  out[threadIdx.x] = 0;\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) at line 2: invalid barrier number 16: expected 1 to 15"},
    {"TwoThreadsWriteOneElement",
     KERNEL "  out[threadIdx.x / 2] = 1;\n"
            "}",
     KERNEL "  out[threadIdx.x] = 1;\n"
            "}",
     "block (0, 0, 0): thread (1, 0, 0) at line 2 writes 4 bytes (argument 0, byte 0 of 256) that thread (0, "
     "0, 0) has written at line 2, without a barrier in between"},
    {"ScratchUsedTwice",
     KERNEL "  __shared__ f32 s[2];\n"
            "  const i32 t = threadIdx.x;\n"
            "  f32 sum = 0;\n"
            "  for (i32 round = 0; round < 2; ++round) {\n"
            "\n"
            "    if (t % 32 == 0) s[t / 32] = in[t + round];\n"
            "    __syncthreads();\n"
            "    sum += s[0] + s[1];\n"
            "  }\n"
            "  out[t] = sum;\n"
            "}",
     KERNEL "  __shared__ f32 s[2];\n"
            "  const i32 t = threadIdx.x;\n"
            "  f32 sum = 0;\n"
            "  for (i32 round = 0; round < 2; ++round) {\n"
            "    __syncthreads();\n"
            "    if (t % 32 == 0) s[t / 32] = in[t + round];\n"
            "    __syncthreads();\n"
            "    sum += s[0] + s[1];\n"
            "  }\n"
            "  out[t] = sum;\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) at line 7 writes 4 bytes (shared variable 's', byte 0) that thread "
     "(63, 0, 0) has read at line 9, without a barrier in between"},
    {"FlagOfAnotherBlock",
     KERNEL "  i32* const flag = (i32*)(out + 32);\n"
            "  if (blockIdx.x == 0) {\n"
            "    out[threadIdx.x] = 1;\n"
            "    __threadfence();\n"
            "    if (threadIdx.x == 15) atomicExch(flag, 1);\n"
            "  } else if (atomicAdd(flag, 0) == 1) {\n"
            "    out[33 + threadIdx.x] = out[threadIdx.x];\n"
            "  }\n"
            "}",
     KERNEL "  i32* const flag = (i32*)(out + 32);\n"
            "  if (blockIdx.x == 0) {\n"
            "    out[threadIdx.x] = 1;\n"
            "    __threadfence();\n"
            "    if (threadIdx.x == 15) atomicExch(flag, 1);\n"
            "  } else {\n"
            "    out[33 + threadIdx.x] = 1;\n"
            "  }\n"
            "}",
     "block (1, 0, 0): thread (0, 0, 0) at line 8 reads 4 bytes (argument 0, byte 0 of 256) that thread (0, "
     "0, 0) of block (0, 0, 0) has written at line 4: blocks are not ordered",
     {2, 1, 1},
     {16, 1, 1},
     64,
     0,
     true},
    {"PlainReadOfAnAtomicSum",
     KERNEL "  __shared__ i32 s;\n"
            "  if (threadIdx.x == 0) s = 0;\n"
            "  __syncthreads();\n"
            "  atomicAdd(&s, 1);\n"
            "\n"
            "  out[threadIdx.x] = s;\n"
            "}",
     KERNEL "  __shared__ i32 s;\n"
            "  if (threadIdx.x == 0) s = 0;\n"
            "  __syncthreads();\n"
            "  atomicAdd(&s, 1);\n"
            "  __syncthreads();\n"
            "  out[threadIdx.x] = s;\n"
            "}",
     "block (0, 0, 0): thread (0, 0, 0) at line 5 updates 4 bytes (shared variable 's', byte 0) that thread "
     "(63, 0, 0) has read at line 7, without a barrier in between"},
    {"MisalignedVectorStore",
     KERNEL "  *(float2*)(out + threadIdx.x) = make_float2(1, 2);\n"
            "}",
     KERNEL "  *(float2*)(out + 2 * threadIdx.x) = make_float2(1, 2);\n"
            "}",
     "block (0, 0, 0): thread (1, 0, 0) at line 2 writes 8 bytes at an address that is not a multiple of 8 "
     "(argument 0, byte 4 of 256)",
     {1, 1, 1},
     {32, 1, 1}},
    {"VectorStorePastTheEnd",
     KERNEL "  dtc_pack<f32, 4> x;\n"
            "  for (i32 j = 0; j < 4; ++j) x.at[j] = in[2 * threadIdx.x];\n"
            "  dtc_store_pack(out + 4 * threadIdx.x, x);\n"
            "}",
     KERNEL "  dtc_pack<f32, 4> x;\n"
            "  for (i32 j = 0; j < 4; ++j) x.at[j] = in[2 * threadIdx.x];\n"
            "  if (threadIdx.x < 15) dtc_store_pack(out + 4 * threadIdx.x, x);\n"
            "}",
     " writes 16 bytes past the end of a buffer (argument 0, byte 240 of 248)",
     {1, 1, 1},
     {16, 1, 1},
     62},
    {"IndexPast32Bits",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  out[t] = in[(2147483647 + t) / 2147483647 * t];\n"
            "}",
     KERNEL "  const i32 t = threadIdx.x;\n"
            "  out[t] = in[((i64)2147483647 + t) / 2147483647 * t];\n"
            "}",
     "block (0, 0, 0): thread (1, 0, 0) at line 3 overflows a signed integer"},
    {"WrongCarryAcrossWarps",
     KERNEL "  __shared__ f32 s[2];\n"
            "  const i32 t = threadIdx.x, warp = t / 32;\n"
            "  if (t % 32 == 31) s[warp] = in[t];\n"
            "  __syncthreads();\n"
            "  out[t] = warp > 0 ? s[warp - 1] + s[warp + 1] : 0;\n"
            "}",
     KERNEL "  __shared__ f32 s[2];\n"
            "  const i32 t = threadIdx.x, warp = t / 32;\n"
            "  if (t % 32 == 31) s[warp] = in[t];\n"
            "  __syncthreads();\n"
            "  out[t] = warp > 0 ? s[warp - 1] + s[warp] : 0;\n"
            "}",
     "block (0, 0, 0): thread (63, 0, 0) at line 6 reads 4 bytes outside of the variables in shared memory "
     "(shared variable 's', byte 8)"},
    {"RankOfNoBlock",
     CLUSTER
     "  __shared__ f32 s[32];\n"
     "  s[threadIdx.x] = 1;\n"
     "  dtc_cluster_sync();\n"
     "  out[32 * blockIdx.x + threadIdx.x] = dtc_map_shared(s, dtc_cluster_rank() + 1)[threadIdx.x];\n"
     "  dtc_cluster_sync();\n"
     "}",
     CLUSTER
     "  __shared__ f32 s[32];\n"
     "  s[threadIdx.x] = 1;\n"
     "  dtc_cluster_sync();\n"
     "  out[32 * blockIdx.x + threadIdx.x] = dtc_map_shared(s, dtc_cluster_rank() ^ 1)[threadIdx.x];\n"
     "  dtc_cluster_sync();\n"
     "}",
     ": rank 2 is out of range: the cluster has 2 blocks",
     {2, 1, 1},
     {32, 1, 1}},
    {"ClusterBarrierInABranch",
     CLUSTER "  if (threadIdx.x < 16) dtc_cluster_sync();\n"
             "  out[32 * blockIdx.x + threadIdx.x] = 1;\n"
             "}",
     CLUSTER "  dtc_cluster_sync();\n"
             "  out[32 * blockIdx.x + threadIdx.x] = 1;\n"
             "}",
     "block (0, 0, 0): a cluster barrier that not all lanes of a warp reach: thread (0, 0, 0) waits at the "
     "cluster barrier of line 2, but thread (16, 0, 0) has returned",
     {2, 1, 1},
     {32, 1, 1}},
    {"WriteWhileTheOtherBlockReads",
     CLUSTER
     "  __shared__ f32 s[32];\n"
     "  s[threadIdx.x] = 1;\n"
     "  dtc_cluster_sync();\n"
     "  out[32 * blockIdx.x + threadIdx.x] = dtc_map_shared(s, dtc_cluster_rank() ^ 1)[threadIdx.x];\n"
     "\n"
     "  s[threadIdx.x] = 2;\n"
     "  dtc_cluster_sync();\n"
     "}",
     CLUSTER
     "  __shared__ f32 s[32];\n"
     "  s[threadIdx.x] = 1;\n"
     "  dtc_cluster_sync();\n"
     "  out[32 * blockIdx.x + threadIdx.x] = dtc_map_shared(s, dtc_cluster_rank() ^ 1)[threadIdx.x];\n"
     "  dtc_cluster_sync();\n"
     "  s[threadIdx.x] = 2;\n"
     "  dtc_cluster_sync();\n"
     "}",
     "block (0, 0, 0): thread (31, 0, 0) at line 5 reads 4 bytes (shared variable 's', byte 124 in block (1, "
     "0, 0)) that thread (31, 0, 0) of block (1, 0, 0) has written at line 7, without a cluster barrier "
     "in between",
     {2, 1, 1},
     {32, 1, 1}},
};

class EmuMoreFaults : public EmuFault {};
TEST_P(EmuMoreFaults, AreNamed) { expectNamed(GetParam(), run(GetParam().wrong)); }
TEST_P(EmuMoreFaults, PassWhereTheyAreMended) { EXPECT_EQ(run(GetParam().right), ""); }
INSTANTIATE_TEST_SUITE_P(Seeded, EmuMoreFaults, testing::ValuesIn(kMoreFaults),
                         [](const auto& info) { return std::string(info.param.name); });

class EmuRefuses : public testing::Test {
protected:
  static JitConfig uncached() {
    JitConfig config;
    config.useCache = false;
    return config;
  }
  // What is wrong with compiling or starting one block of `threads` of kernel k(f32*).
  std::string errorOf(const std::string& text, uint32_t threads = 32) {
    const SourceUnit unit{"k", text};
    const CpuJit jit(uncached());
    auto module = CudaEmu(jit).compile({&unit, 1});
    if (!module) return module.error().message;
    std::vector<float> x(1024);
    float* p = x.data();
    void* args[] = {&p};
    const Status done = module->launch("k", {1, 1, 1}, {threads, 1, 1}, 0, args);
    return done.ok() ? "" : done.error().message;
  }
};

TEST_F(EmuRefuses, VariablesThatAreReadBeforeTheyAreSet) {
  const std::string error =
      errorOf("extern \"C\" __global__ void k(f32* out) {\n  f32 x;\n  if (threadIdx.x < 16) x = 1;\n"
              "  out[threadIdx.x] = x;\n}");
  EXPECT_NE(error.find("k:3:"), std::string::npos) << error;
  EXPECT_NE(error.find("'x' is used uninitialized"), std::string::npos) << error;
}

TEST_F(EmuRefuses, MoreSharedVariablesThanAKernelMayHave) {
  EXPECT_EQ(
      errorOf(
          "extern \"C\" __global__ void k(f32* out) {\n  __shared__ f32 s[12289];\n  s[threadIdx.x] = 1;\n}"),
      "cuda-emu: kernel 'k': 49168 bytes of shared variables exceed the limit of a kernel (49152)");
  EXPECT_EQ(
      errorOf(
          "extern \"C\" __global__ void k(f32* out) {\n  __shared__ f32 s[12288];\n  s[threadIdx.x] = 1;\n}"),
      "");
}

TEST_F(EmuRefuses, AnArrayThatNoStackHolds) {
  const std::string error = errorOf("extern \"C\" __global__ void k(f32* out) {\n  f32 a[20000];\n"
                                    "  for (i32 i = 0; i < 20000; ++i) a[i] = out[i % 1024];\n"
                                    "  out[threadIdx.x] = a[(i32)out[threadIdx.x] + threadIdx.x];\n}");
  EXPECT_NE(error.find("of a thread's local variables exceed the limit of cuda-emu"), std::string::npos)
      << error;
}

TEST_F(EmuRefuses, MoreThreadsThanAKernelIsFor) {
  EXPECT_EQ(
      errorOf("extern \"C\" __global__ void __launch_bounds__(32) k(f32* out) {\n  out[threadIdx.x] = 1;\n}",
              64),
      "cuda-emu: kernel 'k': the block (64, 1, 1) is larger than its __launch_bounds__(32)");
}

// A unit has shared memory of its own, though several are compiled together.
TEST_F(EmuRefuses, NothingOfUnitsThatAreCompiledTogether) {
  const SourceUnit units[] = {
      {"a", "extern \"C\" __global__ void a(f32* out) {\n  __shared__ f32 s[10000];\n  s[threadIdx.x] = 1;\n"
            "  out[threadIdx.x] = s[threadIdx.x];\n}"},
      {"b", "extern \"C\" __global__ void b(f32* out) {\n  __shared__ f32 s[10000];\n  s[threadIdx.x] = "
            "dtc_block_sum<32>(2.0f);\n"
            "  out[threadIdx.x] = s[threadIdx.x];\n}"}};
  JitConfig config = uncached();
  config.threads = 1; // so that they are
  const CpuJit jit(config);
  auto module = CudaEmu(jit).compile(units);
  ASSERT_TRUE(module.ok()) << module.error().message;
  std::vector<float> x(32);
  float* p = x.data();
  void* args[] = {&p};
  for (const auto& [name, want] : {std::pair{"a", 1.0f}, std::pair{"b", 64.0f}}) {
    const Status done = module->launch(name, {1, 1, 1}, {32, 1, 1}, 0, args);
    EXPECT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(x[31], want);
  }
}

} // namespace
} // namespace dtc
