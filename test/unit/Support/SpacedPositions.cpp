// Positions between two sizes, against exact fractions: the floor and ceiling of each, and of its distance of a half.
#include "dtc/Support/SpacedPositions.h"

#include <cmath>
#include <gtest/gtest.h>
#include <utility>
#include <vector>

using namespace dtc;

namespace {

int64_t floorOf(int64_t num, int64_t den) { return num >= 0 ? num / den : -((-num + den - 1) / den); }

// Position o is (perStep * o + first) / den.
void expectExact(const SpacedPositions& p, int64_t perStep, int64_t first, int64_t den, int64_t out,
                 const char* what) {
  for (int64_t o = 0; o < out; ++o) {
    const int64_t num = perStep * o + first;
    const long double at = p.at(o);
    ASSERT_EQ(std::floor(at), floorOf(num, den))
        << what << " " << perStep << " " << first << "/" << den << " at " << o;
    ASSERT_EQ(std::ceil(at), -floorOf(-num, den)) << what;
    ASSERT_EQ(std::floor(at + 0.5L), floorOf(2 * num + den, 2 * den)) << what;
    ASSERT_EQ(std::ceil(at - 0.5L), -floorOf(-(2 * num - den), 2 * den)) << what;
  }
}

// As a user computes the numbers, in double.
void expectBetween(int64_t in, int64_t out) {
  const double n = static_cast<double>(in), m = static_cast<double>(out), scale = n / m;
  expectExact({scale, 0}, in, 0, out, out, "asymmetric");
  expectExact({scale, 0.5 * scale - 0.5}, 2 * in, in - out, 2 * out, out, "half pixel");
  const double factor = m / n;
  expectExact({1 / factor, 0.5 / factor - 0.5}, 2 * in, in - out, 2 * out, out, "half pixel, by the factor");
  if (out > 1) expectExact({(n - 1) / (m - 1), 0}, in - 1, 0, out - 1, out, "align corners");
}

TEST(SpacedPositions, AreExactBetweenSizes) {
  for (int64_t in = 1; in <= 64; ++in)
    for (int64_t out = 1; out <= 64; ++out) expectBetween(in, out);
  for (const auto& [in, out] : std::vector<std::pair<int64_t, int64_t>>{
           {1000, 999}, {4096, 4095}, {65536, 3}, {3, 65536}, {12345, 54321}})
    expectBetween(in, out);
}

TEST(SpacedPositions, OfScalesThatAreFloats) {
  for (int64_t in = 1; in <= 64; ++in)
    for (int64_t out = 1; out <= 64; ++out) {
      const long double factor = fractionOfFloat(static_cast<float>(out) / static_cast<float>(in));
      EXPECT_EQ(factor, static_cast<long double>(out) / static_cast<long double>(in));
    }
  EXPECT_EQ(fractionOfFloat(1.7f), 17.0L / 10);
  EXPECT_EQ(fractionOfFloat(0.33333334f), 1.0L / 3);
  EXPECT_EQ(fractionOfFloat(0), 0);
  EXPECT_EQ(fractionOfFloat(1e-30f), 1e-30f);
  EXPECT_TRUE(std::isnan(fractionOfFloat(NAN)));
  const float odd = 1.2345678f;
  EXPECT_EQ(static_cast<float>(fractionOfFloat(odd)), odd);
}

// Numbers that are near no simple fraction are what they are.
TEST(SpacedPositions, OfOtherNumbers) {
  EXPECT_FALSE(fractionNear(M_PI, 0x1p-50).has_value());
  EXPECT_FALSE(fractionNear(1e300, 0x1p-50).has_value());
  EXPECT_FALSE(fractionNear(INFINITY, 0x1p-50).has_value());
  const SpacedPositions p(M_PI, 1e-20);
  EXPECT_EQ(static_cast<double>(p.at(3)), 3 * M_PI);
}

} // namespace
