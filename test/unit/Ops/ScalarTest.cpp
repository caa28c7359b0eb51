// The scalar language and its edges (ir.md, "Edges").
#include "dtc/Ops/record/Scalar.h"
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

// floor_div and mod of f32 in NumPy 2.4.
struct Divided {
  double a, b, quotient, rest;
};
constexpr Divided kDivided[] = {
    {1.5f, 0.3f, 4, 0.2999999523162842},
    {-1.5f, 0.3f, -5, 5.960464477539063e-08},
    {1.5f, -0.3f, -5, -5.960464477539063e-08},
    {-1.5f, -0.3f, 4, -0.2999999523162842},
    {0.3f, 0.1f, 3, 7.450580596923828e-09},
    {7, 2, 3, 1},
    {-7, 2, -4, 1},
    {7, -2, -4, -1},
    {-7, -2, 3, -1},
    {6, -2, -3, -0.0},
    {-6, 2, -3, 0},
    {0.0, 3, 0, 0},
    {-0.0, 3, -0.0, 0},
    {0.0, -3, -0.0, -0.0},
    {-0.0, -3, 0, -0.0},
    {1, -2, -1, -1},
    {-1, -2, 0, -1},
    {1e-30f, -1, -1, -1},
    {-1e-30f, 1, -1, 1},
    {1, 0.0, kInf, kNaN},
    {-1, 0.0, -kInf, kNaN},
    {1, -0.0, -kInf, kNaN},
    {0.0, 0.0, kNaN, kNaN},
    {kInf, 2, kNaN, kNaN},
    {-kInf, 2, kNaN, kNaN},
    {1, kInf, 0, 1},
    {-1, kInf, -1, kInf},
    {1, -kInf, -1, -kInf},
    {-1, -kInf, 0, -1},
    {0.0, -kInf, -0.0, -0.0},
    {kInf, kInf, kNaN, kNaN},
    {kNaN, 1, kNaN, kNaN},
    {1, kNaN, kNaN, kNaN},
    {kInf, 0.0, kInf, kNaN},
};

TEST(Scalar, FloorDivAndModAreNumPys) {
  auto same = [](double got, double want) {
    if (std::isnan(want)) return std::isnan(got);
    return static_cast<float>(got) == static_cast<float>(want) && std::signbit(got) == std::signbit(want);
  };
  for (const Divided& d : kDivided) {
    EXPECT_TRUE(same(onFloats("floor_div(a, b)", d.a, d.b), d.quotient)) << d.a << " " << d.b;
    EXPECT_TRUE(same(onFloats("mod(a, b)", d.a, d.b), d.rest)) << d.a << " " << d.b;
  }
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

// Values from SciPy 1.17.
TEST(Scalar, SpecialFunctions) {
  struct Row {
    const char* name;
    double a, b, value;
  };
  constexpr Row rows[] = {
      {"erf_inv", 0.25, 0, 0.2253120550121781},
      {"erf_inv", 0.9990234375, 0, 2.3314677736219473},
      {"erf_inv", 0.001, 0, 0.00088622715746655202},
      {"lgamma", 0.125, 0, 2.0194183575537963},
      {"lgamma", 1.0009765625, 0, -0.00056290317999120555},
      {"lgamma", 2.5, 0, 0.28468287047291918},
      {"lgamma", 30.0, 0, 71.257038967168},
      {"lgamma", -1.5, 0, 0.86004701537648098},
      {"lgamma", -20.25, 0, -41.600961915340527},
      {"digamma", 0.125, 0, -8.388492663295855},
      {"digamma", 1.5, 0, 0.03648997397857652},
      {"digamma", 40.0, 0, 3.6763273740348428},
      {"digamma", -0.75, 0, -2.894120200042932},
      {"digamma", -10.25, 0, 5.5168584198862742},
      // Beside poles SciPy is off by 6e-10; these are of 60 digits, of the double that is written.
      {"digamma", -0.9999999, 0, -9999999.58247896},
      {"digamma", -1.0000001, 0, 10000000.4169454},
      {"digamma", -2.0000000001, 0, 9999999173.519142},
      {"digamma", -20.0000001, 0, 10000002.903662695},
      {"zeta", 1.5, 1.0, 2.6123753486854882},
      {"zeta", 2.0, 0.25, 17.197329154507113},
      {"zeta", 3.0, 20.0, 0.0013140612011573272},
      {"zeta", 40.0, 1.5, 9.0437726959059028e-08},
      {"polygamma", 1.0, 0.5, 4.9348022005446799},
      {"polygamma", 3.0, 2.25, 0.3245440091883961},
      {"bessel_i0e", 0.5, 0, 0.64503527044914999},
      {"bessel_i0e", 10.0, 0, 0.1278333371634286},
      {"bessel_i0e", 25.0, 0, 0.080196773547436692},
      {"bessel_i0e", 1000.0, 0, 0.012617240455891257},
      {"bessel_i1e", 0.5, 0, 0.15642080318487173},
      {"bessel_i1e", -10.0, 0, -0.12126268138445551},
      {"bessel_i1e", 25.0, 0, 0.078576113319292776},
      {"bessel_i1e", 1000.0, 0, 0.012610930256928631},
  };
  for (const Row& r : rows) {
    const std::string text = std::string(r.name) + (findIntrinsic(r.name)->arity == 2 ? "(a, b)" : "(a)");
    EXPECT_NEAR(onFloats(text.c_str(), r.a, r.b), r.value, 2e-14 * std::fabs(r.value))
        << r.name << " " << r.a;
  }
  EXPECT_EQ(onFloats("erf_inv(a)", -1), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(onFloats("erf_inv(a)", 1.5)));
  EXPECT_TRUE(std::isinf(onFloats("lgamma(a)", -3)));
  EXPECT_TRUE(std::isnan(onFloats("digamma(a)", -3)));
  EXPECT_NEAR(onFloats("zeta(a, b)", 2, -2.5), 9.53924664, 1e-8); // XLA's
  EXPECT_TRUE(std::isnan(onFloats("zeta(a, b)", 3, -3)));
  EXPECT_TRUE(std::isinf(onFloats("zeta(a, b)", 2, -3)));
  EXPECT_TRUE(std::isnan(onFloats("polygamma(a, b)", 0.5, 1)));
}

TEST(Scalar, Bits) {
  EXPECT_EQ(onInts("popcnt(a)", DType::I8, -1), 8);
  EXPECT_EQ(onInts("popcnt(a)", DType::U64, -1), 64);
  EXPECT_EQ(onInts("clz(a)", DType::I8, 1), 7);
  EXPECT_EQ(onInts("clz(a)", DType::U16, 0), 16);
  EXPECT_EQ(onInts("clz(a)", DType::I64, -5), 0);
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
  EXPECT_EQ(onInts("max(a, b)", DType::U64, -1, 5), -1); // 2^64-1 is the max
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
