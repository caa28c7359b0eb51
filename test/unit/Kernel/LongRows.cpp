// What small samples do not reach in the CUDA form, on the emulator: rows of more elements than a block has threads, packs that
// cross rows, ties in a sort.
#include "KernelCases.h"
#include "dtc/Passes/split/Split.h"

namespace dtc {
namespace {

// The arguments are random; integers, i32, are of [-2, 9).
void runs(const std::string& body, const std::string& signature) {
  const std::string text = "spmd func @main(" + signature + " {\n" + body + "\n}\n";
  Module m{standardOps()};
  Diagnostics diags;
  ASSERT_TRUE(parseModule({"test.dt", text}, standardOps(), m, diags)) << text;
  ASSERT_TRUE(splitPass(m, {}, diags) && fusePass(m, {}, diags));
  const FuncId f = m.order.back();
  std::vector<Tensor> args;
  for (const FuncArg& a : m[f].args) {
    const Type& t = m.typeOf(a.value);
    InputSpec spec{InputSpec::Randn, 11, 1.0, 0};
    if (!isFloat(t.dtype)) spec = {InputSpec::Randint, 11, -2, 9};
    args.push_back(makeInput(spec, t.dtype, t.staticShape(), args.size()));
  }
  KernelCases cases({.target = targetNamed("sm_90a")->withoutLibraries()});
  cases.add(m, f, args, text);
  ASSERT_FALSE(cases.kernels().kernels().empty());
  cases.runOnEmulator();
}

TEST(LongRows, AreWalkedByABlock) {
  for (const char* n : {"31", "33", "129", "1037"}) {
    const std::string type = std::string("f32[3, ") + n + "]";
    runs("  %y = softmax %x {dims = [1]}\n  return %y", "%x: " + type + ") -> (" + type + ")");
    runs("  %y = sum %x {dims = [1]}\n  return %y", "%x: " + type + ") -> (f32[3])");
  }
}

TEST(LongRows, PacksEndWhereTheElementsDo) {
  for (const char* shape : {"5, 12", "7, 36", "3, 1028", "1, 4100", "37, 44"}) {
    const std::string type = std::string("f32[") + shape + "]";
    runs("  %y = exp %x\n  return %y", "%x: " + type + ") -> (" + type + ")");
  }
}

TEST(LongRows, TiesKeepTheirOrder) {
  runs("  %y, %i = sort %x {dim = 1}\n  return %y, %i", "%x: i32[2, 70]) -> (i32[2, 70], i32[2, 70])");
}

} // namespace
} // namespace dtc
