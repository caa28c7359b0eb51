// Inputs made by rule are one number per seed, stream and element.
#include "dtc/Eval/RandomInputs.h"
#include "EvalFixture.h"
#include <cmath>

namespace dtc::test {
namespace {

Tensor made(const char* text, DType d, std::vector<int64_t> shape, uint64_t stream = 0) {
  auto spec = parseInputSpec(text);
  EXPECT_TRUE(spec.ok());
  return makeInput(*spec, d, std::move(shape), stream);
}

TEST(RandomInputs, NormalNumbersHaveTheirMoments) {
  Tensor t = made("randn(7,0.5)", DType::F64, {20000});
  double mean = 0, square = 0;
  for (double v : valuesOf(t)) mean += v / 20000, square += v * v / 20000;
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(square, 0.25, 0.01);
}

TEST(RandomInputs, ElementsDoNotDependOnTheShape) {
  Tensor a = made("randn(3)", DType::F32, {4, 5}), b = made("randn(3)", DType::F32, {20});
  EXPECT_EQ(valuesOf(a), valuesOf(b));
  EXPECT_NE(valuesOf(a), valuesOf(made("randn(3)", DType::F32, {20}, 1)));
  EXPECT_NE(valuesOf(a), valuesOf(made("randn(4)", DType::F32, {20})));
}

TEST(RandomInputs, NormalNumbersAreThoseOfBoxAndMuller) {
  // Against libm: our logarithm and sine may differ from it in the last bits only.
  Tensor t = made("randn(1)", DType::F64, {1000});
  for (int64_t i = 0; i < 1000; i += 2) {
    double r = std::hypot(t.getFloat(i), t.getFloat(i + 1));
    EXPECT_LT(r, 8.6);
    EXPECT_GT(r, 0);
  }
}

TEST(RandomInputs, IntegersStayInTheirRange) {
  for (double v : valuesOf(made("randint(5,-3,4)", DType::I32, {500}))) EXPECT_TRUE(v >= -3 && v <= 3);
  for (double v : valuesOf(made("randn(5)", DType::U8, {500}))) EXPECT_TRUE(v >= 0 && v <= 7);
  std::vector<double> bits = valuesOf(made("randn(5)", DType::Bool, {100}));
  EXPECT_GT(std::count(bits.begin(), bits.end(), 1.0), 20);
  EXPECT_GT(std::count(bits.begin(), bits.end(), 0.0), 20);
}

TEST(RandomInputs, SimpleForms) {
  EXPECT_EQ(valuesOf(made("iota", DType::I32, {2, 2})), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(valuesOf(made("const(2.5)", DType::F32, {2})), (std::vector<double>{2.5, 2.5}));
  EXPECT_EQ(valuesOf(made("const(2.5)", DType::Bool, {1})), (std::vector<double>{1}));
  EXPECT_EQ(valuesOf(made("zeros", DType::F16, {1})), (std::vector<double>{0}));
  for (double v : valuesOf(made("uniform(1,2,3)", DType::F64, {100}))) EXPECT_TRUE(v >= 2 && v < 3);
}

TEST(RandomInputs, WhatIsMistypedIsAnsweredWithTheForm) {
  EXPECT_FALSE(isInputSpec("weights.npy"));
  EXPECT_EQ(parseInputSpec("randn(x)").error().message,
            "'randn(x)' is not a valid input; expected randn(seed) or randn(seed,std)");
  EXPECT_FALSE(parseInputSpec("uniform(1,2)").ok());
  EXPECT_FALSE(parseInputSpec("randint(1,5,5)").ok());
  EXPECT_FALSE(parseInputSpec("zeros(1)").ok());
  EXPECT_FALSE(parseInputSpec("randn(1").ok());
}

} // namespace
} // namespace dtc::test
