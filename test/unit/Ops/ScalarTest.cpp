// The scalar language and its edges (ir.md, "Edges").
#include "dtc/Ops/Scalar.h"
#include "OpFixture.h"
#include <cmath>

namespace dtc::test {
namespace {

constexpr double kInf = INFINITY, kNaN = NAN;

double onFloats(const char* text, double a, double b = 0, double c = 0) {
  OpCase any("neg", {{DType::F32, {}}});
  DType types[] = {DType::F32, DType::F32, DType::F32};
  ScalarExpr e = typeScalar(parseScalar(text), types, DType::F32, any.query());
  ScalarValue values[] = {{a}, {b}, {c}};
  std::vector<ScalarValue> scratch;
  ScalarValue v = evalScalar(e, values, {}, scratch);
  return isFloat(e.nodes.back().dtype) ? v.f : static_cast<double>(v.i);
}

int64_t onInts(const char* text, DType d, int64_t a, int64_t b = 0, int64_t c = 0) {
  OpCase any("neg", {{d, {}}});
  DType types[] = {d, d, d};
  ScalarExpr e = typeScalar(parseScalar(text), types, d, any.query());
  ScalarValue values[] = {{0, a}, {0, b}, {0, c}};
  std::vector<ScalarValue> scratch;
  return evalScalar(e, values, {}, scratch).i;
}

TEST(Scalar, ParsesAndPrints) {
  EXPECT_EQ(printScalar(parseScalar("a + b * -c")), "(a + (b * neg(c)))");
  EXPECT_EQ(printScalar(parseScalar("select(a > 0, a, $slope * a)")), "select((a > 0), a, ($slope * a))");
  EXPECT_EQ(onFloats("(a - b) / 2", 7, 4), 1.5);
}

TEST(Scalar, NaNStaysInMaxMinReluClampSign) {
  for (const char* text :
       {"max(a, b)", "min(a, b)", "max(b, a)", "min(b, a)", "max(a, 0)", "sign(a)", "min(max(a, b), b)"})
    EXPECT_TRUE(std::isnan(onFloats(text, kNaN, 1))) << text;
  EXPECT_EQ(onFloats("min(max(a, b), c)", 5, 7, 3), 3); // lo > hi gives hi
  EXPECT_FALSE(std::signbit(onFloats("max(a, b)", -0.0, 0.0)));
  EXPECT_TRUE(std::signbit(onFloats("min(a, b)", 0.0, -0.0)));
}

TEST(Scalar, RoundingAndRemainders) {
  EXPECT_EQ(onFloats("round(a)", 2.5), 2);
  EXPECT_EQ(onFloats("round(a)", -3.5), -4);
  EXPECT_EQ(onFloats("rem(a, b)", -7, 3), -1);
  EXPECT_EQ(onFloats("mod(a, b)", -7, 3), 2);
  EXPECT_EQ(onFloats("mod(a, b)", 7, -3), -2);
  EXPECT_EQ(onFloats("floor_div(a, b)", -7, 2), -4);
  EXPECT_EQ(onFloats("floor_div(a, b)", 0.3, 0.1), 2); // 0.3 is below 3 * 0.1
}

TEST(Scalar, IntegersWrapAndNeverTrap) {
  const int64_t least = intMin(DType::I32);
  EXPECT_EQ(onInts("a + b", DType::I8, 100, 100), -56);
  EXPECT_EQ(onInts("neg(a)", DType::I32, least), least);
  EXPECT_EQ(onInts("abs(a)", DType::I32, least), least);
  EXPECT_EQ(onInts("a / b", DType::I32, least, -1), least);
  EXPECT_EQ(onInts("a / b", DType::I64, intMin(DType::I64), -1), intMin(DType::I64));
  EXPECT_EQ(onInts("a / b", DType::I32, 7, 0), 0);
  EXPECT_EQ(onInts("a / b", DType::I32, -7, 2), -3);
  EXPECT_EQ(onInts("floor_div(a, b)", DType::I32, -7, 2), -4);
  EXPECT_EQ(onInts("rem(a, b)", DType::I32, -7, 3), -1);
  EXPECT_EQ(onInts("mod(a, b)", DType::I32, -7, 3), 2);
  EXPECT_EQ(onInts("rem(a, b)", DType::I32, least, -1), 0);
}

TEST(Scalar, Shifts) {
  EXPECT_EQ(onInts("shl(a, b)", DType::I8, 1, 7), -128);
  EXPECT_EQ(onInts("shl(a, b)", DType::I8, 1, 8), 0);
  EXPECT_EQ(onInts("shr(a, b)", DType::I8, -5, 1), -3);
  EXPECT_EQ(onInts("shr(a, b)", DType::I8, -5, 9), -1);
  EXPECT_EQ(onInts("shr(a, b)", DType::U8, 200, 9), 0);
  EXPECT_EQ(onInts("shr(a, b)", DType::U64, -1, 63), 1);
}

TEST(Scalar, UnsignedSixtyFourBits) {
  EXPECT_EQ(onInts("max(a, b)", DType::U64, -1, 5), -1); // 2^64-1 is greatest
  EXPECT_EQ(onInts("a / b", DType::U64, -1, 2), INT64_MAX);
  EXPECT_EQ(onInts("select(a < b, a, b)", DType::U64, 3, -1), 3);
}

TEST(Scalar, IntegerPowersAreExactAndWrap) {
  EXPECT_EQ(onInts("pow(a, b)", DType::I32, 3, 4), 81);
  EXPECT_EQ(onInts("pow(a, b)", DType::I8, 2, 7), -128);
  EXPECT_EQ(onInts("pow(a, b)", DType::I32, -1, -3), -1);
  EXPECT_EQ(onInts("pow(a, b)", DType::I32, 1, -3), 1);
  EXPECT_EQ(onInts("pow(a, b)", DType::I32, 2, -1), 0);
  EXPECT_EQ(onInts("pow(a, b)", DType::U64, -1, -1),
            -1); // (2^64-1)^(2^64-1) is odd times odd: -1 to an odd power
  EXPECT_EQ(onInts("pow(a, b)", DType::I64, 0, 0), 1);
}

TEST(Scalar, Conversions) {
  EXPECT_EQ(convertScalar({3e9, 0}, DType::F32, DType::I32).i, intMax(DType::I32));
  EXPECT_EQ(convertScalar({kNaN, 0}, DType::F32, DType::I32).i, 0);
  EXPECT_EQ(convertScalar({-kInf, 0}, DType::F32, DType::U8).i, 0);
  EXPECT_EQ(convertScalar({-2.9, 0}, DType::F32, DType::I8).i, -2);
  EXPECT_EQ(convertScalar({0, 300}, DType::I32, DType::I8).i, 44);
  EXPECT_EQ(convertScalar({0, -1}, DType::U64, DType::F64).f, 18446744073709551615.0);
  EXPECT_EQ(convertScalar({kNaN, 0}, DType::F32, DType::Bool).i, 1);
}

TEST(Scalar, AttributesFoldAndChooseBranches) {
  OpCase none("gelu", {{DType::F32, {2}}});
  std::string text = printScalar(scalarOf(none.query(), DType::F32));
  EXPECT_NE(text.find("erfc"), std::string::npos);
  EXPECT_EQ(text.find("tanh"), std::string::npos);
  OpCase slope("leaky_relu", {{DType::F32, {2}}});
  slope.with("slope", slope.m.attrs.real(0.5));
  EXPECT_EQ(printScalar(scalarOf(slope.query(), DType::F32)), "select((a > 0), a, (0.5 * a))");
}

TEST(Scalar, ReductionsOfNothing) {
  EXPECT_EQ(reduceIdentity(PendingKind::Sum, DType::F32).f, 0);
  EXPECT_EQ(reduceIdentity(PendingKind::Max, DType::F32).f, -kInf);
  EXPECT_EQ(reduceIdentity(PendingKind::Max, DType::I8).i, -128);
  EXPECT_EQ(reduceIdentity(PendingKind::Min, DType::U64).i, -1);
  EXPECT_EQ(reduceCombine(PendingKind::Prod, DType::I8, {0, 100}, {0, 3}).i, 44);
  EXPECT_TRUE(std::isnan(reduceCombine(PendingKind::Max, DType::F32, {kNaN, 0}, {1, 0}).f));
}

} // namespace
} // namespace dtc::test
