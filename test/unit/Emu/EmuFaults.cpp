// Faults put into kernels on purpose: cuda-emu names each with kernel, block, thread and line, before anything is written;
// and the kernel without the fault passes.
#include "EmuFaults.h"

namespace dtc {
namespace {

const Fault kFaults[] = {
    {"OffByOneBound",
     KERNEL "  const i32 i = blockIdx.x * 64 + threadIdx.x;\n  if (i <= n) out[i] = in[i];\n}",
     KERNEL "  const i32 i = blockIdx.x * 64 + threadIdx.x;\n  if (i < n) out[i] = in[i];\n}",
     "block (1, 0, 0): thread (6, 0, 0) at line 3 reads 4 bytes past the end of a buffer (argument 1, byte "
     "280 of 280)\n  3 | if (i <= n) out[i] = in[i];",
     {2, 1, 1},
     {64, 1, 1},
     70},
    {"OutOfBoundsNegative", KERNEL "  const i32 t = threadIdx.x;\n  out[t] = in[t - 1];\n}",
     KERNEL "  const i32 t = threadIdx.x;\n  out[t] = in[t > 0 ? t - 1 : 0];\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 3 reads 4 bytes before the start of a buffer (argument 1, "
     "byte -4 of 256)"},
    {"WriteToAnInput", KERNEL "  ((f32*)in)[threadIdx.x] = 1;\n}", KERNEL "  out[threadIdx.x] = 1;\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 2 writes 4 bytes of a read-only buffer of the "
     "kernel"},
    {"MissingBarrier",
     KERNEL
     "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n\n  out[t] = s[63 - t];\n}",
     KERNEL
     "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncthreads();\n  out[t] "
     "= s[63 - t];\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 6 reads 4 bytes that nothing has written (shared variable "
     "'s', byte 252)"},
    {"MissingBarrierBetweenTwoWrites",
     KERNEL "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncthreads();\n"
            "  s[63 - t] += 1;\n  out[t] = s[t];\n}",
     KERNEL "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncthreads();\n"
            "  s[63 - t] += 1;\n  __syncthreads();\n  out[t] = s[t];\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 6 writes 4 bytes (shared variable 's', byte 252) that thread "
     "(63, 0, 0) has read at line 7, without a barrier in between"},
    {"WriteAfterRead", // in the order of threads every read comes before the write that spoils it
     KERNEL "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncthreads();\n"
            "  const f32 x = s[t < 63 ? t + 1 : 63];\n  s[t] = x;\n  __syncthreads();\n  out[t] = s[t];\n}",
     KERNEL "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncthreads();\n"
            "  const f32 x = s[t < 63 ? t + 1 : 63];\n  __syncthreads();\n  s[t] = x;\n  __syncthreads();\n  "
            "out[t] = s[t];\n}",
     "block (0, 0, 0): thread (1, 0, 0) at line 7 writes 4 bytes (shared variable 's', byte 4) that thread "
     "(0, 0, 0) has read at line 6, without a barrier in between"},
    {"MisalignedVectorLoad",
     KERNEL
     "  if (threadIdx.x < 15) *(float4*)(out + 4 * threadIdx.x) = *(const float4*)(in + 4 * threadIdx.x + "
     "1);\n}",
     KERNEL
     "  if (threadIdx.x < 15) *(float4*)(out + 4 * threadIdx.x) = *(const float4*)(in + 4 * threadIdx.x + "
     "4);\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 2 reads 16 bytes at an address that is not a multiple of 16 "
     "(argument 1, byte 4 of 256)"},
    {"VectorLoadPastTheEnd",
     KERNEL "  const float4 v = *(const float4*)(in + 4 * threadIdx.x);\n  out[threadIdx.x] = v.x;\n}",
     KERNEL "  const float4 v = *(const float4*)(in + 4 * (threadIdx.x % 15));\n  out[threadIdx.x] = v.x;\n}",
     "block (0, 0, 0): thread (15, 0, 0) at line 2 reads 16 bytes past the end of a buffer (argument 1, byte "
     "240 of 248)",
     {1, 1, 1},
     {16, 1, 1},
     62},
    {"WrongShuffleMask",
     KERNEL "  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffu, in[threadIdx.x], 1);\n}",
     KERNEL "  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffu, in[threadIdx.x], 1);\n}",
     "block (0, 0, 0): thread (8, 0, 0) is in __shfl_xor_sync of line 2 with mask 0x000000ff, which does not "
     "include the thread itself"},
    {"ShuffleFromALaneThatLeft",
     KERNEL "  if (threadIdx.x >= 24) return;\n  out[threadIdx.x] = __shfl_down_sync(0xffffffffu, "
            "in[threadIdx.x], 8);\n}",
     KERNEL "  const f32 x = __shfl_down_sync(0xffffffffu, in[threadIdx.x], 8);\n  if (threadIdx.x < 24) "
            "out[threadIdx.x] = x;\n}",
     "block (0, 0, 0): thread (16, 0, 0) is in __shfl_down_sync of line 3 with mask 0xffffffff and reads "
     "lane "
     "24, which has returned",
     {1, 1, 1},
     {32, 1, 1}},
    {"ShuffleFromOutsideTheMask",
     KERNEL "  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, in[threadIdx.x], 20);\n}",
     KERNEL "  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, in[threadIdx.x], 2);\n}",
     "block (0, 0, 0): thread (0, 0, 0) is in __shfl_sync of line 2 with mask 0x0000ffff and reads lane 20, "
     "which is not in the mask"},
    {"DivergentBarrier", KERNEL "  if (threadIdx.x < 48) __syncthreads();\n  out[threadIdx.x] = 0;\n}",
     KERNEL "  __syncthreads();\n  out[threadIdx.x] = 0;\n}",
     "block (0, 0, 0): a barrier that not all threads of the block reach: thread (0, 0, 0) waits at the "
     "barrier of line 2, but thread (48, 0, 0) has returned"},
    {"BarrierInAHelperOfTwoBranches",
     "DTC_FN void meet() { __syncthreads(); }\n" KERNEL "  if (threadIdx.x < 32)\n    meet();\n  else\n    "
     "dtc_block_sum<64>(1.0f);\n}",
     "DTC_FN void meet() { __syncthreads(); }\n" KERNEL "  meet();\n  out[threadIdx.x] = "
     "dtc_block_sum<64>(1.0f);\n}",
     "block (0, 0, 0): not all threads are at the same barrier: thread (0, 0, 0) waits at the barrier of "
     "line "
     "1, but thread (32, 0, 0) waits at the barrier of line 6 (device.h:"},
    {"BarrierWithWrongCount",
     KERNEL "  if (threadIdx.x < 32) dtc_barrier(1, 64);\n  out[threadIdx.x] = 0;\n}",
     KERNEL "  if (threadIdx.x < 32) dtc_barrier(1, 32);\n  out[threadIdx.x] = 0;\n}",
     "block (0, 0, 0): a barrier that too few threads reach (32 of 64): thread (0, 0, 0) waits at barrier 1 "
     "of "
     "line 2 for 64 threads, but thread (32, 0, 0) has returned"},
    {"BarrierWithACountOfHalfAWarp", KERNEL "  dtc_barrier(1, 48);\n  out[threadIdx.x] = 0;\n}",
     KERNEL "  dtc_barrier(1, 64);\n  out[threadIdx.x] = 0;\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 2: a barrier's count must be a multiple of 32 up to the "
     "block's threads, not 48"},
    {"UninitializedShared",
     KERNEL "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  if (t < 40) s[t] = in[t];\n  "
            "__syncthreads();\n  out[t] = s[63 - t];\n}",
     KERNEL "  __shared__ f32 s[64];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncthreads();\n  "
            "out[t] = s[63 - t];\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 6 reads 4 bytes that nothing has written (shared variable "
     "'s', "
     "byte 252)"},
    {"UninitializedGlobal", KERNEL "  out[threadIdx.x] += in[threadIdx.x];\n}",
     KERNEL "  out[threadIdx.x] = in[threadIdx.x];\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 2 reads 4 bytes that nothing has written (argument 0, byte 0 "
     "of 256)"},
    {"OutOfBoundsInShared", // on a GPU the next variable follows immediately
     KERNEL "  __shared__ f32 s[64], other[64];\n  const i32 t = threadIdx.x;\n  other[t] = 0;\n  s[t + 1] = "
            "in[t];\n  __syncthreads();\n  out[t] = s[t + 1] + other[t];\n}",
     KERNEL "  __shared__ f32 s[65], other[64];\n  const i32 t = threadIdx.x;\n  other[t] = 0;\n  s[t + 1] = "
            "in[t];\n  __syncthreads();\n  out[t] = s[t + 1] + other[t];\n}",
     "block (0, 0, 0): thread (63, 0, 0) at line 5 writes 4 bytes outside of the variables in shared memory "
     "(shared variable 's', byte 256)"},
    {"OutOfBoundsInDynamicShared",
     KERNEL "  extern __shared__ f32 row[];\n  row[threadIdx.x + 32] = 1;\n  out[threadIdx.x] = 1;\n}",
     KERNEL "  extern __shared__ f32 row[];\n  row[threadIdx.x] = 1;\n  out[threadIdx.x] = 1;\n}",
     "block (0, 0, 0): thread (32, 0, 0) at line 3 writes 4 bytes outside of the variables in shared memory "
     "(shared variable 'row', byte 256)",
     {1, 1, 1},
     {64, 1, 1},
     64,
     256},
    {"RaceOfTwoBlocks",
     KERNEL "  out[threadIdx.x] = blockIdx.x;\n}",
     KERNEL "  out[threadIdx.x + 32 * blockIdx.x] = blockIdx.x;\n}",
     "block (1, 0, 0): thread (0, 0, 0) at line 2 writes 4 bytes (argument 0, byte 0 of 256) that thread (0, "
     "0, 0) of block (0, 0, 0) has written at line 2: blocks are not ordered",
     {2, 1, 1},
     {32, 1, 1}},
    {"BlockReadsWhatAnotherWrote",
     KERNEL "  if (blockIdx.x == 0) out[threadIdx.x] = 1;\n  if (blockIdx.x == 1) out[32 + threadIdx.x] = "
            "out[threadIdx.x];\n}",
     KERNEL "  out[32 * blockIdx.x + threadIdx.x] = 1;\n}",
     "block (1, 0, 0): thread (0, 0, 0) at line 3 reads 4 bytes (argument 0, byte 0 of 256) that thread (0, "
     "0, "
     "0) of block (0, 0, 0) has written at line 2: blocks are not ordered",
     {2, 1, 1},
     {32, 1, 1}},
    {"AtomicAndPlain",
     KERNEL "  if (threadIdx.x == 0) out[0] = 5;\n  atomicAdd(out, in[threadIdx.x]);\n}",
     KERNEL "  if (threadIdx.x == 0) atomicExch(out, 5.0f);\n  atomicAdd(out, in[threadIdx.x]);\n}",
     "block (0, 0, 0): thread (1, 0, 0) at line 3 reads 4 bytes (argument 0, byte 0 of 256) that thread "
     "(0, "
     "0, 0) has written at line 2, without a barrier in between",
     {1, 1, 1},
     {64, 1, 1},
     64,
     0,
     true},
    {"MissingClusterBarrier",
     CLUSTER
     "  __shared__ f32 s[32];\n  dtc_cluster_sync();\n  s[threadIdx.x] = in[threadIdx.x];\n\n  "
     "out[32 * blockIdx.x + threadIdx.x] = dtc_map_shared(s, dtc_cluster_rank() ^ 1)[threadIdx.x];\n  "
     "dtc_cluster_sync();\n}",
     CLUSTER
     "  __shared__ f32 s[32];\n  dtc_cluster_sync();\n  s[threadIdx.x] = in[threadIdx.x];\n  "
     "dtc_cluster_sync();\n  out[32 * blockIdx.x + threadIdx.x] = dtc_map_shared(s, dtc_cluster_rank() ^ "
     "1)[threadIdx.x];\n  dtc_cluster_sync();\n}",
     "block (1, 0, 0): thread (31, 0, 0) at line 6 reads 4 bytes that nothing has written (shared variable "
     "'s', "
     "byte 124 in block (0, 0, 0))",
     {2, 1, 1},
     {32, 1, 1}},
    {"BlockThatHasNotBegun",
     CLUSTER "  __shared__ f32 s[32];\n  dtc_map_shared(s, dtc_cluster_rank() ^ 1)[threadIdx.x] = 1;\n  "
             "dtc_cluster_sync();\n  out[32 * blockIdx.x + threadIdx.x] = s[threadIdx.x];\n}",
     CLUSTER "  __shared__ f32 s[32];\n  dtc_cluster_sync();\n  dtc_map_shared(s, dtc_cluster_rank() ^ "
             "1)[threadIdx.x] = 1;\n  dtc_cluster_sync();\n  out[32 * blockIdx.x + threadIdx.x] = "
             "s[threadIdx.x];\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 3 writes 4 bytes of shared memory of block (1, 0, 0) before "
     "a "
     "cluster barrier: that block may not have started",
     {2, 1, 1},
     {32, 1, 1}},
    {"BlockThatHasLeft",
     CLUSTER
     "  __shared__ f32 s[32];\n  s[threadIdx.x] = in[threadIdx.x];\n  dtc_cluster_sync();\n  out[32 * "
     "blockIdx.x + threadIdx.x] = dtc_map_shared(s, dtc_cluster_rank() ^ 1)[threadIdx.x];\n}",
     CLUSTER
     "  __shared__ f32 s[32];\n  s[threadIdx.x] = in[threadIdx.x];\n  dtc_cluster_sync();\n  out[32 * "
     "blockIdx.x + threadIdx.x] = dtc_map_shared(s, dtc_cluster_rank() ^ 1)[threadIdx.x];\n  "
     "dtc_cluster_sync();\n}",
     "at line 5",
     {2, 1, 1},
     {32, 1, 1}},
    {"RaceWithinAWarp",
     KERNEL "  __shared__ f32 s[32];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncwarp();\n  s[t] "
            "= s[31 - "
            "t];\n  __syncwarp();\n  out[t] = s[t];\n}",
     KERNEL "  __shared__ f32 s[32];\n  const i32 t = threadIdx.x;\n  s[t] = in[t];\n  __syncwarp();\n  "
            "const f32 x = "
            "s[31 - t];\n  __syncwarp();\n  s[t] = x;\n  __syncwarp();\n  out[t] = s[t];\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 6 reads 4 bytes (shared variable 's', byte 124) that thread "
     "(31, "
     "0, 0) has written at line 6, without a barrier in between",
     {1, 1, 1},
     {32, 1, 1}},
    {"ResultOfTheOrderOfThreads", // who has returned is nobody's promise
     KERNEL "  if (threadIdx.x < 32) out[threadIdx.x] = __popc(__activemask());\n"
            "}",
     KERNEL "  if (threadIdx.x < 32) out[threadIdx.x] = __popc(0xffffu);\n"
            "}",
     "the result depends on the order of threads and blocks: argument 0, byte "},
};

TEST_P(EmuFault, IsNamed) { expectNamed(GetParam(), run(GetParam().wrong)); }

TEST_P(EmuFault, PassesWhereItIsMended) { EXPECT_EQ(run(GetParam().right), ""); }

INSTANTIATE_TEST_SUITE_P(Seeded, EmuFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc
