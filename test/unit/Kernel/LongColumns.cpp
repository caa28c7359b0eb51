// Column reductions whose results go on to other dtypes: partial vectors of every element type are loaded and stored.
#include "ProgramRuns.h"
#include "dtc/Eval/RandomInputs.h"
#include <gtest/gtest.h>

namespace dtc {
namespace {

struct LongColumns : testing::TestWithParam<int64_t> {};

std::string shaped(const std::string& dtype, const std::vector<int64_t>& shape) {
  std::string text = dtype + "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

void expectOnCpu(const std::string& argument, DType dtype, const std::vector<int64_t>& shape,
                 const std::string& body, const std::string& result) {
  ProgramRun run;
  run.text = "func @main(%x: " + shaped(argument, shape) + ") -> (" + shaped(result, {shape[1]}) + ") {\n" +
             body + "  return %y\n}\n";
  const InputSpec spec =
      isFloat(dtype) ? InputSpec{InputSpec::Uniform, 3, -2.0, 2.0} : InputSpec{InputSpec::Randint, 3, 0, 2};
  run.arguments.push_back(makeInput(spec, dtype, shape, 0));
  run.exact = false;
  expectLikeEvaluator(run, "cpu");
}

TEST_P(LongColumns, ResultsOfEveryDtype) {
  const std::vector<int64_t> shape = {300, GetParam()};
  for (const char* op : {"is_nan %m", "gt %m, 1.99"})
    expectOnCpu("f32", DType::F32, shape, std::string("  %m = max %x {dims = [0]}\n  %y = ") + op + "\n",
                "bool");
  for (const char* to : {"i8", "u8", "i16", "i32", "i64", "f16", "bf16", "f64"})
    expectOnCpu("f32", DType::F32, shape,
                std::string("  %m = max %x {dims = [0]}\n  %y = convert %m {dtype = ") + to + "}\n", to);
}

TEST_P(LongColumns, ArgumentsOfEveryDtype) {
  const std::vector<int64_t> shape = {300, GetParam()};
  for (const char* op : {"any", "all"})
    expectOnCpu("bool", DType::Bool, shape, std::string("  %y = ") + op + " %x {dims = [0]}\n", "bool");
  for (const DType d :
       {DType::I8, DType::U8, DType::I16, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F64}) {
    const std::string name(dtypeName(d));
    expectOnCpu(name, d, shape, "  %y = max %x {dims = [0]}\n", name);
    expectOnCpu(name, d, shape, "  %b = ne %x, 0\n  %y = any %b {dims = [0]}\n", "bool");
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, LongColumns, testing::Values(1000, 1037, 2000));

} // namespace
} // namespace dtc
