// Matmuls are split into parts that run in parallel: the parts make the whole product, and the bits are the same with
// any number of threads.
#include "dtc/Api/CompiledProgram.h"
#include "dtc/Files/Inputs.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace dtc;

namespace {

struct Executed {
  std::vector<Tensor> arguments, results;
};

Executed runWith(int threads, const std::string& text) {
  ApiError error;
  const auto program =
      CompiledProgram::compile({"test.dt", text}, {}, std::make_shared<Machine>(threads), error);
  Executed run;
  if (!program) {
    ADD_FAILURE() << error.text;
    return run;
  }
  std::vector<InputArgument> wanted;
  for (const TensorInfo& t : program->arguments()) wanted.push_back({t.name, t.userName, t.dtype, t.shape});
  const std::vector<InputBinding> bindings = {*parseInputBinding("*=randn(1)")};
  const auto sources = bindInputs(bindings, wanted);
  for (const TensorSource& s : *sources) run.arguments.push_back(*s.tensor());
  auto results = runOnce(program->executable(), run.arguments, false);
  if (results)
    run.results = *results;
  else
    ADD_FAILURE() << results.error().message;
  return run;
}

// [.., n, m]: the transposed product, in f64.
void expectTransposedProduct(const Tensor& a, const Tensor& b, const Tensor& got, const std::string& text) {
  const size_t rank = a.shape().size();
  const int64_t rows = a.shape()[rank - 2], depth = a.shape()[rank - 1], columns = b.shape()[rank - 1];
  const int64_t batches = a.numElements() / (rows * depth);
  double worst = 0;
  std::vector<double> row(static_cast<size_t>(columns));
  for (int64_t i = 0; i < batches; ++i)
    for (int64_t m = 0; m < rows; ++m) {
      std::ranges::fill(row, 0.0);
      for (int64_t k = 0; k < depth; ++k) {
        const double x = a.getFloat((i * rows + m) * depth + k);
        for (int64_t n = 0; n < columns; ++n)
          row[static_cast<size_t>(n)] += x * b.getFloat((i * depth + k) * columns + n);
      }
      for (int64_t n = 0; n < columns; ++n)
        worst = std::max(worst,
                         std::abs(row[static_cast<size_t>(n)] - got.getFloat((i * columns + n) * rows + m)));
    }
  EXPECT_LE(worst, 1e-5 * std::sqrt(depth) * 10) << text;
}

} // namespace

// Few rows, few columns, batches that do not divide among the threads, column-major results, epilogues.
TEST(MatmulThreads, HaveTheSameBits) {
  struct Case {
    std::string a, b, y;
  };
  const Case cases[] = {{"16, 512", "512, 1000", "16, 1000"},
                        {"1, 3000", "3000, 1001", "1, 1001"},
                        {"1001, 3000", "3000, 1", "1001, 1"},
                        {"999, 400", "400, 17", "999, 17"},
                        {"257, 300", "300, 259", "257, 259"},
                        {"3, 130, 300", "3, 300, 259", "3, 130, 259"},
                        {"5, 3, 33, 400", "5, 3, 400, 65", "5, 3, 33, 65"}};
  for (const Case& c : cases) {
    const size_t rank = static_cast<size_t>(std::count(c.y.begin(), c.y.end(), ',')) + 1;
    std::string order, turned;
    std::vector<std::string> sizes;
    for (size_t from = 0; from < c.y.size();) {
      const size_t to = std::min(c.y.find(", ", from), c.y.size());
      sizes.push_back(c.y.substr(from, to - from)), from = to + 2;
    }
    for (size_t d = 0; d < rank; ++d) {
      const size_t at = d + 2 < rank ? d : 2 * rank - 3 - d;
      order += (d ? ", " : "") + std::to_string(at);
      turned += (d ? ", " : "") + sizes[at];
    }
    const std::string text = "func @main(%a: f32[" + c.a + "], %c: f32[" + c.a + "], %b: f32[" + c.b +
                             "]) -> (%y: f32[" + c.y + "], %t: f32[" + turned +
                             "]) {\n  %h = matmul %a, %b\n"
                             "  %y = gelu %h\n  %p = matmul %c, %b\n  %t = transpose %p {perm = [" +
                             order + "]}\n  return %y, %t\n}\n";
    const Executed one = runWith(1, text);
    ASSERT_EQ(one.results.size(), 2U);
    expectTransposedProduct(one.arguments[1], one.arguments[2], one.results[1], text);
    for (int threads : {2, 7})
      EXPECT_EQ(runWith(threads, text).results, one.results) << threads << " threads\n" << text;
  }
}
