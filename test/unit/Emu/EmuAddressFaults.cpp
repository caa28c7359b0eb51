// Faults as in EmuFaults.cpp: addresses that only a run tells, arrays within variables, what a thread leaves undone.
#include "EmuFaults.h"

namespace dtc {
namespace {

const Fault kAddressFaults[] = {
    {"OneOfTwoArraysTheShorter",
     KERNEL "  f32 a[4] = {0, 1, 2, 3}, b[8] = {};\n"
            "  f32* p = threadIdx.x % 2 ? a : b;\n"
            "  out[threadIdx.x] = p[threadIdx.x % 8];\n}",
     KERNEL "  f32 a[4] = {0, 1, 2, 3}, b[8] = {};\n"
            "  f32* p = threadIdx.x % 2 ? a : b;\n"
            "  out[threadIdx.x] = p[threadIdx.x % 4];\n}",
     "block (0, 0, 0): thread (5, 0, 0) at line 4 reads 4 bytes outside of its local variables (variable "
     "'a', "
     "byte 20 of 16)"},
    {"PointerOneStepTooFar",
     KERNEL "  f32 a[4] = {1, 2, 3, 4}, s = 0;\n"
            "  for (f32* p = a; p <= a + 4; ++p) s += *p;\n"
            "  out[threadIdx.x] = s;\n}",
     KERNEL "  f32 a[4] = {1, 2, 3, 4}, s = 0;\n"
            "  for (f32* p = a; p < a + 4; ++p) s += *p;\n"
            "  out[threadIdx.x] = s;\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 3 reads 4 bytes outside of its local variables (variable "
     "'a', "
     "byte 16 of 16)"},
    {"ElementOfTheNextMember",
     "struct S { f32 v[3]; i32 c; };\n" KERNEL "  S s;\n"
     "  s.c = 0;\n"
     "  for (i32 i = 0; i < n - 60; ++i) s.v[i] = in[i];\n"
     "  out[threadIdx.x] = s.v[0] + s.c;\n}",
     "struct S { f32 v[3]; i32 c; };\n" KERNEL "  S s;\n"
     "  s.c = 0;\n"
     "  for (i32 i = 0; i < n - 61; ++i) s.v[i] = in[i];\n"
     "  out[threadIdx.x] = s.v[0] + s.c;\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 5 points at element 3 of an array of 3"},
    {"ColumnPastARowOfShared",
     KERNEL "  __shared__ f32 s[8][8];\n"
            "  const i32 x = threadIdx.x % 8, y = threadIdx.x / 8;\n"
            "  s[y][x] = in[threadIdx.x];\n"
            "  __syncthreads();\n"
            "  out[threadIdx.x] = y < 7 ? s[y][x + 1] : 0;\n}",
     KERNEL "  __shared__ f32 s[8][8];\n"
            "  const i32 x = threadIdx.x % 8, y = threadIdx.x / 8;\n"
            "  s[y][x] = in[threadIdx.x];\n"
            "  __syncthreads();\n"
            "  out[threadIdx.x] = y < 7 ? (&s[0][0])[y * 8 + x + 1] : 0;\n}",
     "block (0, 0, 0): thread (7, 0, 0) at line 6 points at element 8 of an array of 8"},
    {"IndexOfAConstantTable",
     "__constant__ f32 table[4] = {1, 2, 3, 4};\n" KERNEL "  out[threadIdx.x] = table[threadIdx.x % 5];\n}",
     "__constant__ f32 table[4] = {1, 2, 3, 4};\n"
     "__constant__ f32 other[2] = {1, 2};\n" KERNEL "  const f32* t = threadIdx.x & 4 ? table : other;\n"
     "  out[threadIdx.x] = t[threadIdx.x % 2] + table[threadIdx.x % 4];\n}",
     "block (0, 0, 0): thread (4, 0, 0) at line 3"},
    {"StructuresInShared",
     KERNEL "  __shared__ float4 s[16];\n"
            "  if (threadIdx.x < 15) s[threadIdx.x] = ((const float4*)in)[threadIdx.x];\n"
            "  __syncthreads();\n"
            "  out[threadIdx.x] = s[threadIdx.x / 4].x;\n}",
     KERNEL "  __shared__ float4 s[16];\n"
            "  if (threadIdx.x < 16) s[threadIdx.x] = ((const float4*)in)[threadIdx.x];\n"
            "  __syncthreads();\n"
            "  out[threadIdx.x] = s[threadIdx.x / 4].x;\n}",
     "block (0, 0, 0): thread (63, 0, 0) at line 5 reads 4 bytes that nothing has written (shared variable "
     "'s', byte 240)"},
    {"StepThatOverflows",
     KERNEL "  i32 x = 2147483640 + n / 64;\n"
            "  for (i32 i = 0; i < n / 6; ++i) ++x;\n"
            "  out[threadIdx.x] = x;\n}",
     KERNEL "  u32 x = 2147483640u + n / 64;\n"
            "  for (i32 i = 0; i < n / 6; ++i) ++x;\n"
            "  out[threadIdx.x] = x;\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 3 overflows a signed integer"},
    {"CallsWithoutEnd",
     "__device__ __noinline__ f32 f(f32 x, i32 d) { return d <= 0 ? x : f(x, d + 1) + 1; }\n" KERNEL
     "  out[threadIdx.x] = f(in[threadIdx.x], n);\n}",
     "__device__ __noinline__ f32 f(f32 x, i32 d) { return d <= 0 ? x : f(x, d - 1) + 1; }\n" KERNEL
     "  out[threadIdx.x] = f(in[threadIdx.x], n / 8);\n}",
     "block (0, 0, 0): thread (0, 0, 0) at line 1 recurses too deep"},
    {"ElementLeftAsItWasInPlace",
     KERNEL "  if (threadIdx.x != 9) out[threadIdx.x] *= 2;\n}",
     KERNEL "  out[threadIdx.x] *= 2;\n}",
     "no thread has written byte 36 of 256 of argument 0, which is a result",
     {1, 1, 1},
     {64, 1, 1},
     64,
     0,
     true,
     true},
};

class EmuAddressFault : public EmuFault {};
TEST_P(EmuAddressFault, IsNamed) { expectNamed(GetParam(), run(GetParam().wrong)); }
TEST_P(EmuAddressFault, PassesWhereItIsMended) { EXPECT_EQ(run(GetParam().right), ""); }
INSTANTIATE_TEST_SUITE_P(Seeded, EmuAddressFault, testing::ValuesIn(kAddressFaults),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace dtc
