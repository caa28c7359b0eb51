// Row kernels over one, two and three rows, in every order of reductions: short and few enough that a block's threads share a row
// and results may lie over their operands. The emulator reports each race between threads.
#include "ProgramRuns.h"
#include "dtc/Eval/RandomInputs.h"
#include <gtest/gtest.h>

namespace dtc {
namespace {

struct FewRows : testing::TestWithParam<DType> {};

// Each op on its own argument, which nothing reads afterwards, by way of a gathered copy of it.
ProgramRun program(DType dtype, int64_t rows) {
  static constexpr const char* kOps[] = {"softmax %g {dims = [1]}",    "log_softmax %g {dims = [1]}",
                                         "layer_norm %g {dims = [1]}", "rms_norm %g {dims = [1]}",
                                         "cumsum %g {dim = 1}",        "cumprod %g {dim = 1}",
                                         "softmax %g {dims = [0, 1]}", "softmax %g {dims = [0]}"};
  static constexpr const char* kChains[] = {"%s = sum %g {dims = [1], keepdim = true}\n  %r = div %g, %s",
                                            "%s = max %g {dims = [1], keepdim = true}\n  %r = sub %g, %s"};
  const std::string type = std::string(dtypeName(dtype)) + "[" + std::to_string(rows) + ", 6]";
  ProgramRun run;
  std::string arguments, results, returned, body;
  int number = 0;
  auto add = [&](std::string op) {
    const std::string n = std::to_string(number), y = "%y" + n;
    arguments += (number ? ", %x" : "%x") + n + ": " + type + " @m{_, b}";
    results += (number ? ", " : "") + y + ": " + type;
    returned += (number ? ", " : "") + y;
    run.arguments.push_back(
        makeInput({InputSpec::Uniform, 3, 0.5, 2.0}, dtype, {rows, 6}, static_cast<uint64_t>(number)));
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"%g", "%x"}, {"%r", "%y"}, {"%s", "%s"}})
      for (size_t at = 0; (at = op.find(from, at)) != std::string::npos; at += 2) op.replace(at, 2, to + n);
    body += "  " + op + "\n";
    ++number;
  };
  for (const char* op : kOps) add(std::string("%r = ") + op);
  for (const char* chain : kChains) add(chain);
  run.text = "mesh @m = [b=3]\nfunc @main(" + arguments + ") -> (" + results + ") {\n" + body + "  return " +
             returned + "\n}\n";
  run.exact = false;
  return run;
}

TEST_P(FewRows, InEveryOrder) {
  for (int64_t rows : {1, 2, 3})
    for (bool fixed : {false, true})
      for (int level : {0, 1, 2}) {
        ProgramRun run = program(GetParam(), rows);
        run.fixedOrder = fixed, run.optLevel = level;
        expectLikeEvaluator(run, "cuda-emu");
      }
}

INSTANTIATE_TEST_SUITE_P(DTypes, FewRows, testing::Values(DType::F32, DType::F64, DType::BF16),
                         [](const auto& info) { return std::string(dtypeName(info.param)); });

} // namespace
} // namespace dtc
