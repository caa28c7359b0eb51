// Functions over planes against their definition, near zeros, branch cuts, the unit circle and the ends of the range.
#include "dtc/Passes/complex/SplitComplex.h"
#include "Eval/EvalFixture.h"
#include <cmath>

namespace dtc::test {
namespace {

// Every pair of these as real and imaginary part.
Tensor grid(DType dtype, std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  Tensor t(dtype, {n, n});
  for (int64_t i = 0; i < n * n; ++i)
    t.setComplex(i, {values[static_cast<size_t>(i / n)], values[static_cast<size_t>(i % n)]});
  return t;
}

// The part's size in units of its dtype's precision, relative to the whole number.
void expectNear(const Tensor& got, const Tensor& want, double ulps, const std::string& what,
                const Tensor& x) {
  const double unit = std::ldexp(1.0, 1 - mantissaBits(want.dtype()));
  for (int64_t i = 0; i < want.numElements(); ++i) {
    const std::complex<double> g = got.getComplex(i), w = want.getComplex(i);
    auto near = [&](double a, double b) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
      return a == b || std::fabs(a - b) <= ulps * unit * std::abs(w);
    };
    EXPECT_TRUE(near(g.real(), w.real()) && near(g.imag(), w.imag()))
        << what << " of " << x.getComplex(i) << " is " << g << ", not " << w;
  }
}

void compare(const std::string& op, DType dtype, std::vector<double> values, double ulps) {
  std::string n = std::to_string(values.size());
  std::string text = "func @main(%x: T) -> (%y: T) {\n  %y = " + op + " %x\n  return %y\n}\n";
  for (size_t at; (at = text.find('T')) != std::string::npos;)
    text.replace(at, 1, std::string(dtypeName(dtype)) + "[" + n + ", " + n + "]");
  Program native(text), planes(text);
  Diagnostics diags;
  ASSERT_TRUE(splitComplexPass(planes.m, {}, diags)) << op;
  const Tensor x = grid(dtype, std::move(values));
  expectNear(planes.run({x})[0], native.run({x})[0], ulps, op, x);
}

const char* const kFunctions[] = {"exp",  "expm1", "log",  "log1p", "sqrt",  "rsqrt", "reciprocal", "square",
                                  "sign", "sin",   "cos",  "tan",   "sinh",  "cosh",  "tanh",       "sigmoid",
                                  "log2", "asin",  "acos", "atan",  "asinh", "acosh", "atanh",      "cbrt"};

TEST(SplitComplex, FunctionsOfModerateNumbers) {
  for (const char* op : kFunctions) {
    compare(op, DType::C64, {-3, -1.5, -1, -0.3, -1e-4, 0, 1e-4, 0.25, 1, 2, 9.5}, 24);
    compare(op, DType::C128, {-3, -1.5, -1, -0.3, -1e-4, 0, 1e-4, 0.25, 1, 2, 9.5}, 24);
  }
}

TEST(SplitComplex, FunctionsAtTheEndsOfTheRange) {
  for (const char* op : {"sqrt", "rsqrt", "reciprocal", "log", "log1p", "sign"})
    compare(op, DType::C128, {-1e300, -1e-300, 1e-300, 1e150, 1.5e308}, 24);
  for (const char* op : {"exp", "tanh", "tan", "sigmoid", "expm1"})
    compare(op, DType::C128, {-750, -300, 20, 24, 700}, 48);
}

TEST(SplitComplex, SizesNeitherOverflowNorVanish) {
  Program p("func @main(%x: c64[2, 2]) -> (%y: f32[2, 2]) {\n  %y = abs %x\n  return %y\n}\n");
  Diagnostics diags;
  ASSERT_TRUE(splitComplexPass(p.m, {}, diags));
  const Tensor y = p.run({grid(DType::C64, {3e37, 1e-38})})[0];
  EXPECT_FLOAT_EQ(static_cast<float>(y.getFloat(0)), 4.2426407e37F);
  EXPECT_FLOAT_EQ(static_cast<float>(y.getFloat(1)), 3e37F);
  EXPECT_FLOAT_EQ(static_cast<float>(y.getFloat(3)), 1.4142136e-38F);
}

TEST(SplitComplex, InfinitiesAndNaN) {
  const double inf = INFINITY;
  for (const char* op : {"abs", "sqrt", "log"}) {
    const bool real = std::string(op) == "abs";
    const std::string text = std::string("func @main(%x: c64[4, 4]) -> (%y: ") + (real ? "f32" : "c64") +
                             "[4, 4]) {\n  %y = " + op + " %x\n  return %y\n}\n";
    Program native(text), planes(text);
    Diagnostics diags;
    ASSERT_TRUE(splitComplexPass(planes.m, {}, diags));
    const Tensor x = grid(DType::C64, {-inf, -2, 1, inf});
    expectNear(planes.run({x})[0], native.run({x})[0], 4, op, x);
  }
}

TEST(SplitComplex, BranchCutsHaveTheSignOfZero) {
  Program p("func @main(%x: c64[2]) -> (%y: c64[2], %l: c64[2]) {\n  %y = sqrt %x\n  %l = log %x\n  return "
            "%y, %l\n}\n");
  Diagnostics diags;
  ASSERT_TRUE(splitComplexPass(p.m, {}, diags));
  Tensor x(DType::C64, {2});
  x.setComplex(0, {-4, 0.0});
  x.setComplex(1, {-4, -0.0});
  const auto results = p.run({x});
  EXPECT_EQ(results[0].getComplex(0), (std::complex<double>{0, 2}));
  EXPECT_EQ(results[0].getComplex(1), (std::complex<double>{0, -2}));
  EXPECT_GT(results[1].getComplex(0).imag(), 3);
  EXPECT_LT(results[1].getComplex(1).imag(), -3);
}

} // namespace
} // namespace dtc::test
