// Every op that has loops, by itself, in every dtype that it takes, against the evaluator.
#include "KernelCases.h"
#include "dtc/Ops/record/Samples.h"
#include "dtc/Passes/split/Split.h"

namespace dtc {
namespace {

std::vector<Tensor> argumentsOf(const OpSample& s) {
  std::vector<Tensor> args;
  for (size_t i = 0; i < s.module[s.func].args.size(); ++i) {
    const Type& t = s.module.typeOf(s.module[s.func].args[i].value);
    const OpSample::Range r = s.ranges[i];
    InputSpec spec{InputSpec::Randn, 3, 1.0, 0};
    if (r.lo != r.hi) spec = {InputSpec::Randint, 3, static_cast<double>(r.lo), static_cast<double>(r.hi)};
    args.push_back(makeInput(spec, t.dtype, t.staticShape(), i));
  }
  return args;
}

bool loops(const OpRecord& r) {
  return r.lowering == Lowering::Loops || r.lowering == Lowering::Rows || r.lowering == Lowering::Library;
}

// What is printed for these differs from what is printed for another one of the list by the names of dtypes alone: one sample of
// each op shows that these are right.
bool differsByNameAlone(DType d) {
  return d == DType::I16 || d == DType::U16 || d == DType::U32 || d == DType::F8E5M2 || d == DType::F16;
}

struct EveryOp : testing::TestWithParam<DType> {
  std::deque<OpSample> samples;
  void collect(KernelCases& cases) {
    const OpRegistry& ops = standardOps();
    for (OpKind k = 0; k < ops.size(); ++k) {
      if (!loops(ops[k])) continue;
      for (OpSample& s : opSamples(ops, k, GetParam())) {
        samples.push_back(std::move(s));
        OpSample& sample = samples.back();
        Module& m = sample.module;
        m[sample.func].spmd = true;
        Diagnostics diags;
        ASSERT_TRUE(splitPass(m, {{{"parts", "false"}}}, diags) && fusePass(m, {{{"limit", "1"}}}, diags));
        cases.add(m, sample.func, argumentsOf(sample), sample.text);
        if (differsByNameAlone(GetParam())) break;
      }
    }
  }
};

TEST_P(EveryOp, OnCpu) {
  KernelCases cases({.target = {.vectorBytes = vectorBytes(hostCpuLevel()), .gemmDTypes = 0}});
  collect(cases);
  cases.runOnCpu(3);
}

struct EveryOpInCuda : EveryOp {};
TEST_P(EveryOpInCuda, OnTheEmulator) {
  KernelCases cases({.target = targetNamed("sm_90a")->withoutLibraries()});
  collect(cases);
  cases.runOnEmulator();
}

std::string nameOf(const testing::TestParamInfo<DType>& info) { return std::string(dtypeName(info.param)); }

INSTANTIATE_TEST_SUITE_P(DTypes, EveryOp,
                         testing::Values(DType::Bool, DType::I8, DType::I16, DType::I32, DType::I64,
                                         DType::U8, DType::U16, DType::U32, DType::U64, DType::F8E4M3,
                                         DType::F8E5M2, DType::BF16, DType::F16, DType::F32, DType::F64),
                         nameOf);
// The expressions are those of the CPU; the loops around them differ by the width of a dtype at most.
INSTANTIATE_TEST_SUITE_P(DTypes, EveryOpInCuda,
                         testing::Values(DType::Bool, DType::I8, DType::I32, DType::U64, DType::F8E4M3,
                                         DType::BF16, DType::F16, DType::F32, DType::F64),
                         nameOf);

} // namespace
} // namespace dtc
