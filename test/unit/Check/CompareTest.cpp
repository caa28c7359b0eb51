// The rule of --check: four times the reference's own error, four units in the last place, and no more.
#include "dtc/Check/run/Compare.h"
#include <cmath>

namespace dtc::test {
namespace {

Tensor made(DType d, std::vector<double> v) {
  Tensor t(d, {static_cast<int64_t>(v.size())});
  for (size_t i = 0; i < v.size(); ++i) t.setFloat(static_cast<int64_t>(i), v[i]);
  return t;
}
const double kUlp = 0x1p-23, kInf = INFINITY;

TEST(Compare, FourUlpPassAndFiveDoNot) {
  Tensor exact = made(DType::F64, {1, 1, 1}), rounded = made(DType::F32, {1, 1, 1});
  EXPECT_TRUE(compareTensors(made(DType::F32, {1, 1 + 4 * kUlp, 1}), exact, rounded).pass);
  CompareReport r = compareTensors(made(DType::F32, {1, 1 + 5 * kUlp, 1}), exact, rounded);
  EXPECT_FALSE(r.pass);
  EXPECT_EQ(r.whereFailed, 1);
  EXPECT_EQ(r.maxAbs, 5 * kUlp);
  EXPECT_NE(r.reason.find("element [1]"), std::string::npos);
}

TEST(Compare, TheReferencesOwnErrorWidensTheTolerance) {
  Tensor exact = made(DType::F64, {1, 1}), rounded = made(DType::F32, {1, 1 + 100 * kUlp});
  EXPECT_TRUE(compareTensors(made(DType::F32, {1, 1 + 400 * kUlp}), exact, rounded).pass);
  EXPECT_FALSE(compareTensors(made(DType::F32, {1, 1 + 410 * kUlp}), exact, rounded).pass);
}

TEST(Compare, TheRootMeanSquareIsBoundToo) {
  std::vector<double> ones(100, 1.0), off(100, 1 + 390 * kUlp), own(100, 1.0);
  own[0] = 1 + 100 * kUlp; // one large error of the reference does not excuse a hundred
  CompareReport r = compareTensors(made(DType::F32, off), made(DType::F64, ones), made(DType::F32, own));
  EXPECT_FALSE(r.pass);
  EXPECT_NE(r.reason.find("root mean square"), std::string::npos);
}

TEST(Compare, AnElementMayBeOffByItsOwnSpread) {
  const Tensor exact = made(DType::F64, {1, 1, 1}), rounded = made(DType::F32, {1, 1, 1}),
               perturbed = made(DType::F32, {1, 1 + 100 * kUlp, 1}),
               still = made(DType::F32, {1, 1 + 2 * kUlp, 1});
  CompareOptions within;
  within.perturbed = {&still, &perturbed};
  const CompareReport r =
      compareTensors(made(DType::F32, {1 + kUlp, 1 + 400 * kUlp, 1}), exact, rounded, within);
  EXPECT_TRUE(r.pass);
  EXPECT_EQ(r.sensitive, 1);
  EXPECT_EQ(r.maxAbs, kUlp); // of the others
  EXPECT_EQ(r.whereAbs, 0);
  EXPECT_FALSE(compareTensors(made(DType::F32, {1, 1 + 410 * kUlp, 1}), exact, rounded, within).pass);
  // The spread of one element is no tolerance for another.
  EXPECT_FALSE(compareTensors(made(DType::F32, {1 + 5 * kUlp, 1, 1}), exact, rounded, within).pass);
}

TEST(Compare, TheSpreadOfASensitiveElementDoesNotWidenTheRootMeanSquare) {
  std::vector<double> ones(100, 1.0), off(100, 1 + 6 * kUlp), own(100, 1.0), perturbed(100, 1.0);
  own[0] = 1 + 2 * kUlp; // so that no single element is beyond the rule
  perturbed[1] = 1 + 1e6 * kUlp, off[1] = 1 + 1e6 * kUlp;
  const Tensor spread = made(DType::F32, perturbed);
  CompareOptions within;
  within.perturbed = {&spread};
  const CompareReport r =
      compareTensors(made(DType::F32, off), made(DType::F64, ones), made(DType::F32, own), within);
  EXPECT_EQ(r.sensitive, 1);
  EXPECT_FALSE(r.pass);
  EXPECT_NE(r.reason.find("root mean square"), std::string::npos);
}

TEST(Compare, WhatIsNotPromisedMayBeNaN) {
  const Tensor exact = made(DType::F64, {kInf, 1, kInf}), rounded = made(DType::F32, {kInf, 1, kInf}),
               unpromised = made(DType::F32, {NAN, 1, kInf}), got = made(DType::F32, {NAN, 1, kInf});
  CompareOptions within;
  within.unpromised = &unpromised;
  EXPECT_FALSE(compareTensors(got, exact, rounded).pass);
  const CompareReport r = compareTensors(got, exact, rounded, within);
  EXPECT_TRUE(r.pass);
  EXPECT_EQ(r.unpromised, 1);
  // Of the other elements all is, and of this one that it is no other infinity.
  EXPECT_FALSE(compareTensors(made(DType::F32, {NAN, 1, NAN}), exact, rounded, within).pass);
  EXPECT_FALSE(compareTensors(made(DType::F32, {NAN, NAN, kInf}), exact, rounded, within).pass);
  EXPECT_FALSE(compareTensors(made(DType::F32, {-kInf, 1, kInf}), exact, rounded, within).pass);
}

TEST(Compare, CommHopsCount) {
  Tensor exact = made(DType::F64, {1}), rounded = made(DType::F32, {1}),
         got = made(DType::F32, {1 + 7 * kUlp});
  EXPECT_FALSE(compareTensors(got, exact, rounded).pass);
  EXPECT_TRUE(compareTensors(got, exact, rounded, {.commHops = {{3, DType::F32}}}).pass);
}

TEST(Compare, CoarseHopsCountAtTheSizeThatWasMeasured) {
  const double off = 0x1p-9; // of 1: below the 7 units of bf16 that are allowed at the result's size
  Tensor exact = made(DType::F64, {1}), rounded = made(DType::F32, {1}), got = made(DType::F32, {1 + off});
  CompareOptions options{.commHops = {{7, DType::BF16}}};
  EXPECT_TRUE(compareTensors(got, exact, rounded, options).pass);
  options.measured = CommErrors{off / 2, off / 2};
  EXPECT_FALSE(compareTensors(got, exact, rounded, options).pass);
  options.measured = CommErrors{2 * off, 2 * off};
  EXPECT_TRUE(compareTensors(got, exact, rounded, options).pass);
  options.measured = CommErrors{100, 100}; // never more than at the result's size
  EXPECT_LT(compareTensors(got, exact, rounded, options).allowedMax, 0.06);
  options.coarseHops = false;
  EXPECT_FALSE(compareTensors(got, exact, rounded, options).pass);
}

TEST(Compare, ANaNThatNoReferenceHasNeverPasses) {
  Tensor exact = made(DType::F64, {1, NAN}), rounded = made(DType::F32, {1, NAN});
  EXPECT_TRUE(compareTensors(made(DType::F32, {1, NAN}), exact, rounded).pass);
  EXPECT_FALSE(compareTensors(made(DType::F32, {NAN, NAN}), exact, rounded).pass);
  EXPECT_FALSE(compareTensors(made(DType::F32, {1, 2}), exact, rounded).pass);
}

TEST(Compare, InfinitiesAreOfTheSameSign) {
  Tensor exact = made(DType::F64, {kInf, 1e39}), rounded = made(DType::F32, {kInf, 1e39});
  EXPECT_TRUE(compareTensors(made(DType::F32, {kInf, kInf}), exact, rounded)
                  .pass); // 1e39 is past f32: Rd has inf too
  EXPECT_FALSE(compareTensors(made(DType::F32, {-kInf, kInf}), exact, rounded).pass);
  EXPECT_FALSE(compareTensors(made(DType::F32, {3, kInf}), exact, rounded).pass);
}

TEST(Compare, IntegersAreExact) {
  Tensor want = made(DType::I32, {1, 2, 3});
  EXPECT_TRUE(compareTensors(want, want, want).pass);
  CompareReport r = compareTensors(made(DType::I32, {1, 2, 4}), want, want);
  EXPECT_FALSE(r.pass);
  EXPECT_EQ(r.reason, "element [2] is 4, but the reference has 3");
}

TEST(Compare, ShapesMustAgree) {
  EXPECT_EQ(compareTensors(made(DType::F32, {1, 2}), made(DType::F64, {1}), made(DType::F32, {1})).reason,
            "the result has shape [2], but the reference has [1]");
}

} // namespace
} // namespace dtc::test
