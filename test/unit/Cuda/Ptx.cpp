// PTX as data, the thread that is followed through it, and the complaints about kernels. All texts are written by
// hand, so NVRTC is not needed.
#include "../../../lib/Cuda/ptx/Ptx.h"
#include "../../../lib/Cuda/ptx/Trace.h"
#include "dtc/Cuda/KernelFacts.h"

namespace dtc {
namespace {

std::string entry(const std::string& body, int params = 2) {
  std::string list;
  for (int i = 0; i < params; ++i)
    list += (i ? ",\n\t.param .u64 k_param_" : "\t.param .u64 k_param_") + std::to_string(i);
  return ".version 9.0\n.target sm_90a\n.visible .entry k(\n" + list + "\n)\n.maxntid 256, 1, 1\n{\n" + body +
         "\n}\n";
}

// in0 to in1, `width` bytes a thread at a time: the index is block * 256 + thread, times `stride` bytes.
std::string copy(const std::string& type, int stride, const std::string& before = "") {
  return entry("\t.reg .pred %p<4>;\n\t.reg .b32 %r<20>;\n\t.reg .b64 %rd<10>;\n" + before +
               "\tld.param.u64 %rd1, [k_param_0];\n\tld.param.u64 %rd2, [k_param_1];\n"
               "\tcvta.to.global.u64 %rd3, %rd1;\n\tcvta.to.global.u64 %rd4, %rd2;\n"
               "\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %tid.x;\n\tmad.lo.s32 %r3, %r1, 256, %r2;\n"
               "\tmul.wide.s32 %rd5, %r3, " +
               std::to_string(stride) +
               ";\n"
               "\tadd.s64 %rd6, %rd3, %rd5;\n\tadd.s64 %rd7, %rd4, %rd5;\n"
               "\tld.global." +
               type + ", [%rd6];\n\tst.global." + type.substr(0, type.find(' ')) + " [%rd7], " +
               type.substr(type.find(' ') + 1) + ";\n$L__end:\n\tret;\n");
}
const std::string kWide = "v4.u32 {%r4, %r5, %r6, %r7}", kHalf = "u16 %r4";

KernelFacts factsOf(const std::string& text, int64_t blocks, int64_t bytesOfEach, int elementBytes = 2,
                    int registers = 32, KernelUsage usage = {}) {
  usage.kernel = "k", usage.registers = registers;
  FittedKernel kernel;
  kernel.usage = usage, kernel.schedule.threadsPerBlock = 256;
  KernelLaunch launch;
  launch.blocks = blocks, launch.argumentBytes = {bytesOfEach, bytesOfEach},
  launch.elementBytes = {elementBytes, elementBytes};
  launch.inputs = 1, launch.memoryOf = {0, 1}, launch.bytes = 2 * bytesOfEach,
  launch.elements = bytesOfEach / elementBytes;
  return kernelFacts(kernel, text, launch, gpuModelOf("sm_90a"));
}

std::string kinds(const KernelFacts& facts) {
  std::string text;
  for (const KernelComplaint& c : complaints(facts, gpuModelOf("sm_90a")))
    text += (text.empty() ? "" : " ") + c.kind;
  return text;
}

TEST(Ptx, OpcodesOperandsAndLabels) {
  const ptx::Kernel k = ptx::parseKernel(copy(kWide, 16), "k");
  ASSERT_EQ(k.params, 2);
  const auto load =
      std::ranges::find_if(k.code, [](const auto& i) { return i.opcode == "ld.global.v4.u32"; });
  ASSERT_NE(load, k.code.end());
  EXPECT_EQ(load->op, ptx::Op::Load);
  EXPECT_EQ(load->space, ptx::Space::Global);
  EXPECT_EQ(load->accessBytes, 16);
  EXPECT_EQ(load->operands[0].parts.size(), 4u);
  EXPECT_EQ(k.code.back().op, ptx::Op::Exit);
  EXPECT_TRUE(ptx::parse("a stub's image").empty());
}

TEST(Ptx, InlineAssemblyGuardsAndScopes) {
  const ptx::Kernel k =
      ptx::parseKernel(entry("\t// begin inline asm\n\t{\n .reg .pred q;\n setp.ne.b32 q, %r1, 0;\n"
                             " @!q bra $L_x; }\n\t// end inline asm\n$L_x: ret;"),
                       "k");
  ASSERT_EQ(k.code.size(), 3u);
  EXPECT_TRUE(k.code[1].guardNegated);
  EXPECT_EQ(k.code[1].guard, k.code[0].operands[0].reg);
  EXPECT_EQ(k.code[1].target, 2);
}

// Blocks of a loop may stand before its head, or behind its end.
TEST(Ptx, LoopsAreComponentsOfTheControlFlow) {
  const ptx::Kernel k = ptx::parseKernel(
      entry("bra.uni $A;\n$B: add.s32 %r1, %r1, 1;\nbra.uni $C;\n$A: rem.s64 %rd1, %rd2, %rd3;\n"
            "setp.lt.s32 %p1, %r1, 9;\n@%p1 bra $B;\nbra.uni $D;\n$C: bra.uni $A;\n$D: div.u64 %rd1, %rd2, "
            "%rd3;\nret;"),
      "k");
  const std::vector<bool> loops = ptx::inLoops(k);
  const std::vector<bool> expected = {false, true, true, true, true, true, false, true, false, false};
  EXPECT_EQ(loops, expected);
  EXPECT_TRUE(ptx::isWideDivision(k.code[3]));
}

TEST(Ptx, AThreadIsFollowedThroughALoop) {
  const std::string text = entry(
      "ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\n"
      "$L: mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nld.global.f32 %f1, [%rd3+8];\n"
      "add.f32 %f2, %f2, %f1;\nadd.s32 %r1, %r1, 256;\nsetp.lt.s32 %p1, %r1, 1000;\n@%p1 bra $L;\nret;");
  const ptx::Kernel k = ptx::parseKernel(text, "k");
  const GpuModel& gpu = gpuModelOf("sm_90a");
  const ptx::Launch launch{256, 1, 1, {ptx::addressOf(0)}, {}};
  const ptx::ThreadTrace first = ptx::traceThread(k, launch, gpu, 0, 0, {}),
                         last = ptx::traceThread(k, launch, gpu, 0, 255, {});
  ASSERT_EQ(first.accesses.size(), 4u);
  EXPECT_EQ(first.accesses[1].address, ptx::addressOf(0) + 256 * 4 + 8);
  EXPECT_EQ(first.waits, 4); // the next load is behind the branch
  EXPECT_EQ(last.accesses.size(), 3u);
  EXPECT_FALSE(first.byData);
  EXPECT_TRUE(ptx::traceThread(k, launch, gpu, 0, 0, {10}).cutOff);
}

TEST(Ptx, NothingToComplainAboutAWideCopy) {
  const KernelFacts facts = factsOf(copy(kWide, 16), 4096, 4096 * 256 * 16);
  EXPECT_EQ(kinds(facts), "");
  EXPECT_EQ(facts.activeThreads, 256);
  EXPECT_EQ(facts.arguments[0].widest, 16);
  EXPECT_NEAR(facts.traffic, 2.0 * 4096 * 256 * 16, 1);
  EXPECT_GT(estimate(facts, gpuModelOf("sm_90a")).percent, 85);
}

TEST(Ptx, EachDefectIsReported) {
  EXPECT_EQ(kinds(factsOf(copy(kHalf, 2), 1 << 16, (1 << 16) * 256 * 2)), "narrow in-flight");
  EXPECT_EQ(kinds(factsOf(copy(kHalf, 1024), 4096, 4096 * 512)), "strided in-flight");
  EXPECT_EQ(kinds(factsOf(copy(kWide, 16), 16, 1 << 24)), "grid");
  EXPECT_EQ(
      kinds(factsOf(copy(kWide, 16, "mov.u32 %r9, %tid.x;\nsetp.ge.u32 %p1, %r9, 64;\n@%p1 bra $L__end;\n"),
                    4096, 4096 * 64 * 16)),
      "idle-threads");
  EXPECT_EQ(kinds(factsOf(
                copy(kWide, 16, "$L: rem.s64 %rd9, %rd8, %rd1;\nsetp.ne.s64 %p2, %rd9, 0;\n@%p2 bra $L;\n"),
                4096, 4096 * 256 * 16)),
            "division");
  EXPECT_EQ(kinds(factsOf(copy(kWide, 16), 4096, 4096 * 256 * 16, 2, 32, {.stackBytes = 8})), "local-memory");
  EXPECT_EQ(kinds(factsOf(copy(kWide, 16), 4096, 4096 * 256 * 16, 2, 32, {.spillStoreBytes = 8})),
            "local-memory");
}

TEST(Ptx, TheLimitIsNamed) {
  const GpuModel& gpu = gpuModelOf("sm_90a");
  const std::string walk = // a block walks over 1 MiB
      entry("ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n"
            "mad.lo.s32 %r3, %r2, 65536, %r1;\nmov.u32 %r9, 0;\n"
            "$L: mul.wide.u32 %rd2, %r3, 16;\nadd.s64 %rd3, %rd1, %rd2;\n"
            "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd3];\nadd.f32 %f5, %f1, %f2;\nadd.s32 %r3, %r3, 256;\n"
            "add.s32 %r9, %r9, 1;\nsetp.lt.s32 %p1, %r9, 256;\n@%p1 bra $L;\nret;");
  EXPECT_EQ(estimate(factsOf(walk, 16, 1 << 24), gpu).reason, "16 blocks for 132 multiprocessors");
  const std::string few = estimate(factsOf(walk, 264, 132 << 20), gpu).reason;
  EXPECT_NE(few.find("KiB in flight per SM, 15.5 needed"), std::string::npos) << few;
  EXPECT_EQ(estimate(factsOf(copy(kWide, 16), 4096, 4096 * 256 * 16), gpu).reason, "memory");
  std::string long_;
  for (int i = 0; i < 2000; ++i) long_ += "fma.rn.f32 %f1, %f1, %f1, %f1;\n";
  const KernelEstimate slow = estimate(factsOf(copy(kWide, 16, long_), 1 << 14, (1 << 14) * 256 * 16), gpu);
  EXPECT_NE(slow.reason.find("instructions per element: issue-bound"), std::string::npos) << slow.reason;
  EXPECT_LT(slow.percent, 20);
  EXPECT_EQ(estimate(factsOf("no PTX", 4096, 1 << 24), gpu).reason, "unknown: no PTX");
}

// H100, by the occupancy calculator's rules.
TEST(GpuModel, BlocksPerMultiprocessor) {
  const GpuModel& gpu = gpuModelOf("sm_90a");
  EXPECT_EQ(gpu.blocksAtOnce(256, 32, 0), 8);
  EXPECT_EQ(gpu.blocksAtOnce(128, 46, 0), 10);
  EXPECT_EQ(gpu.blocksAtOnce(128, 56, 16), 9);
  EXPECT_EQ(gpu.blocksAtOnce(128, 245, 52480), 2);
  EXPECT_EQ(gpu.blocksAtOnce(32, 16, 0), 32);
  EXPECT_EQ(gpuModelOf("sm_101a").multiprocessors, gpuModelOf("sm_100").multiprocessors);
  EXPECT_EQ(gpuModelOf("sm_89").threads, 1536);
}

} // namespace
} // namespace dtc
