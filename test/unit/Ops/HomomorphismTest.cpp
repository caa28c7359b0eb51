// The homomorphism table of sharding.md §2, row by row: which pending values go through which op.
#include "dtc/IR/Homomorphism.h"
#include "OpFixture.h"
#include <cmath>

namespace dtc::test {
namespace {

constexpr PendingKind R = PendingKind::None, Sum = PendingKind::Sum, Avg = PendingKind::Avg,
                      Prod = PendingKind::Prod, Max = PendingKind::Max, Min = PendingKind::Min,
                      Any = PendingKind::Any, All = PendingKind::All;

std::string answer(std::optional<PendingKind> k) {
  return !k ? "no" : *k == R ? "R" : std::string(pendingName(*k));
}

std::string through(OpCase& c, std::vector<PendingKind> kinds) {
  return answer(passThrough(c.query(), kinds, 0));
}
// An op on vectors of one dtype.
std::string through(std::string_view op, DType d, std::vector<PendingKind> kinds) {
  std::vector<std::pair<DType, std::vector<Dim>>> operands(kinds.size(), {d, {4}});
  OpCase c(op, operands);
  return through(c, kinds);
}
std::string onF32(std::string_view op, std::vector<PendingKind> kinds) {
  return through(op, DType::F32, kinds);
}
std::string onI32(std::string_view op, std::vector<PendingKind> kinds) {
  return through(op, DType::I32, kinds);
}

TEST(Homomorphism, ReplicatedStaysReplicated) {
  EXPECT_EQ(onF32("exp", {R}), "R");
  EXPECT_EQ(onF32("matmul", {R, R}), "R");
}

TEST(Homomorphism, Linear) {
  for (PendingKind k : {Sum, Avg}) {
    EXPECT_EQ(onF32("neg", {k}), pendingName(k));
    EXPECT_EQ(onF32("sum", {k}), pendingName(k));
    EXPECT_EQ(onF32("mean", {k}), pendingName(k));
    EXPECT_EQ(onF32("div", {k, R}), pendingName(k));
    EXPECT_EQ(onF32("div", {R, k}), "no");
  }
  EXPECT_EQ(onI32("mean", {Sum}), "no"); // the quotient truncates
  EXPECT_EQ(onI32("div", {Sum, R}), "no");
}

TEST(Homomorphism, JointlyLinear) {
  EXPECT_EQ(onF32("add", {Sum, Sum}), "sum");
  EXPECT_EQ(onF32("sub", {Avg, Avg}), "avg");
  EXPECT_EQ(onF32("add", {Sum, Avg}), "no");
  EXPECT_EQ(onF32("add", {Max, Max}), "no");
}

TEST(Homomorphism, Affine) {
  EXPECT_EQ(onF32("add", {Sum, R}), "no");
  EXPECT_EQ(onF32("add", {Avg, R}), "avg");
  EXPECT_EQ(onF32("sub", {Avg, R}), "avg");
  EXPECT_EQ(onF32("sub", {R, Avg}), "avg");
  // -inf - -inf on a device, although the global max is finite.
  for (PendingKind k : {Max, Min}) {
    EXPECT_EQ(onF32("add", {k, R}), "no");
    EXPECT_EQ(onF32("sub", {k, R}), "no");
    EXPECT_EQ(onF32("sub", {R, k}), "no");
  }
}

// Op of a literal and a vector, which is pending.
std::string withLiteral(const char* op, double literal, PendingKind kind, bool first = false,
                        DType d = DType::F32, NonFinite mode = NonFinite::Promised) {
  using Operands = std::vector<std::pair<DType, std::vector<Dim>>>;
  OpCase c(op, first ? Operands{{d, {}}, {d, {4}}} : Operands{{d, {4}}, {d, {}}});
  c.literal(first ? 0 : 1, literal);
  std::vector<PendingKind> kinds{first ? R : kind, first ? kind : R};
  return answer(passThrough(c.query(), kinds, 0, mode));
}

TEST(Homomorphism, AFiniteLiteralIsAddedToAMaximum) {
  EXPECT_EQ(withLiteral("add", 2, Max), "max");
  EXPECT_EQ(withLiteral("add", 2, Min, true), "min");
  EXPECT_EQ(withLiteral("sub", 2, Max), "max");
  EXPECT_EQ(withLiteral("sub", 2, Max, true), "min");
  EXPECT_EQ(withLiteral("add", INFINITY, Max), "no");
  EXPECT_EQ(withLiteral("add", 1e10, Max, false, DType::F16), "no");  // infinite in f16
  EXPECT_EQ(withLiteral("mul", 1e-10, Max, false, DType::F16), "no"); // 0 in f16
  EXPECT_EQ(withLiteral("add", 2, Max, false, DType::I32), "no");     // wraps
}

TEST(Homomorphism, StrictOfInfinitiesAndNaN) {
  auto strict = [](const char* op, std::vector<PendingKind> kinds, DType d = DType::F32) {
    std::vector<std::pair<DType, std::vector<Dim>>> operands(kinds.size(), {d, {4}});
    OpCase c(op, operands);
    EXPECT_EQ(passesFiniteAlone(c.query(), kinds, 0),
              passThrough(c.query(), kinds, 0) && !passThrough(c.query(), kinds, 0, NonFinite::Strict))
        << op;
    return answer(passThrough(c.query(), kinds, 0, NonFinite::Strict));
  };
  EXPECT_EQ(strict("mul", {Sum, R}), "no");
  EXPECT_EQ(strict("div", {Avg, R}), "no");
  EXPECT_EQ(strict("fma", {R, Sum, Sum}), "no");
  EXPECT_EQ(strict("mul", {Sum, R}, DType::I32), "sum"); // integers have no infinities
  EXPECT_EQ(strict("add", {Sum, Sum}), "sum");
  EXPECT_EQ(strict("add", {Avg, R}), "avg");
  EXPECT_EQ(strict("neg", {Sum}), "sum");
  EXPECT_EQ(strict("exp", {Max}), "max");
  EXPECT_EQ(strict("mul", {Prod, Prod}), "prod");
  EXPECT_EQ(withLiteral("mul", 2, Sum, false, DType::F32, NonFinite::Strict), "sum");
  EXPECT_EQ(withLiteral("div", 2, Sum, false, DType::F32, NonFinite::Strict), "sum");
  EXPECT_EQ(withLiteral("mul", INFINITY, Sum), "sum");
  EXPECT_EQ(withLiteral("mul", INFINITY, Sum, false, DType::F32, NonFinite::Strict), "no");
  EXPECT_EQ(withLiteral("div", 0, Sum), "no");
}

TEST(Homomorphism, Bilinear) {
  EXPECT_EQ(onF32("mul", {Sum, R}), "sum");
  EXPECT_EQ(onF32("mul", {R, Avg}), "avg");
  EXPECT_EQ(onF32("mul", {Sum, Sum}), "no");
  EXPECT_EQ(onI32("mul", {Sum, R}), "sum");
  OpCase matmul("matmul", {{DType::F32, {2, 3}}, {DType::F32, {3, 2}}});
  EXPECT_EQ(through(matmul, {R, Sum}), "sum");
  EXPECT_EQ(through(matmul, {Sum, Sum}), "no");
  EXPECT_EQ(through(matmul, {Max, R}), "no");
}

TEST(Homomorphism, LinearWithItsBias) {
  OpCase c("linear", {{DType::F32, {2, 3}}, {DType::F32, {4, 3}}, {DType::F32, {4}}});
  EXPECT_EQ(through(c, {Sum, R, Sum}), "sum");
  EXPECT_EQ(through(c, {R, Sum, Sum}), "sum");
  EXPECT_EQ(through(c, {Sum, R, R}), "no");
  EXPECT_EQ(through(c, {Avg, R, R}), "avg");
  EXPECT_EQ(through(c, {R, R, Max}), "no"); // what it is added to may be infinite
  OpCase bare("linear", {{DType::F32, {2, 3}}, {DType::F32, {4, 3}}});
  EXPECT_EQ(through(bare, {Sum, R}), "sum");
}

TEST(Homomorphism, Monotone) {
  for (const char* op :
       {"exp", "tanh", "sigmoid", "floor", "ceil", "erf", "softplus", "relu", "sinh", "atan"}) {
    EXPECT_EQ(onF32(op, {Max}), "max") << op;
    EXPECT_EQ(onF32(op, {Min}), "min") << op;
    EXPECT_EQ(onF32(op, {Sum}), "no") << op;
  }
  EXPECT_EQ(onF32("neg", {Max}), "min");
  EXPECT_EQ(onF32("erfc", {Min}), "max");
  EXPECT_EQ(onI32("neg", {Max}), "no");
  for (const char* op : {"sqrt", "log", "asin", "sin", "cosh", "gelu", "abs", "rsqrt"})
    EXPECT_EQ(onF32(op, {Max}), "no") << op;
}

TEST(Homomorphism, MonotoneByAttributeOrLiteral) {
  OpCase up("leaky_relu", {{DType::F32, {4}}}), down("leaky_relu", {{DType::F32, {4}}});
  EXPECT_EQ(through(up, {Max}), "max");
  down.with("slope", down.m.attrs.real(-0.5));
  EXPECT_EQ(through(down, {Max}), "no");
  OpCase flat("leaky_relu", {{DType::F32, {4}}});
  flat.with("slope", flat.m.attrs.real(0.0));
  EXPECT_EQ(through(flat, {Max}), "no"); // 0 * -inf
  auto scaled = [](const char* op, double by, DType d = DType::F32) {
    OpCase c(op, {{d, {4}}, {d, {}}});
    c.literal(1, by);
    return through(c, {Max, R});
  };
  EXPECT_EQ(scaled("mul", 2), "max");
  EXPECT_EQ(scaled("mul", -2), "min");
  EXPECT_EQ(scaled("div", -2), "min");
  EXPECT_EQ(scaled("mul", 0), "no");
  EXPECT_EQ(scaled("mul", 2, DType::I32), "no");
  EXPECT_EQ(onF32("mul", {Max, R}), "no");
}

TEST(Homomorphism, Lattice) {
  for (auto on : {onF32, onI32}) {
    EXPECT_EQ(on("max", {Max, Max}), "max");
    EXPECT_EQ(on("max", {Max, R}), "max");
    EXPECT_EQ(on("min", {Max, R}), "max");
    EXPECT_EQ(on("min", {Max, Max}), "no");
    EXPECT_EQ(on("min", {Min, Min}), "min");
    EXPECT_EQ(on("clamp", {Max, R, R}), "max");
    EXPECT_EQ(on("clamp", {Min, R, R}), "min");
    EXPECT_EQ(on("clamp", {Max, Max, R}), "max");
    EXPECT_EQ(on("clamp", {Max, R, Max}), "no");
    EXPECT_EQ(on("max", {Max}), "max"); // the reduction
    EXPECT_EQ(on("max", {Min}), "no");
    EXPECT_EQ(on("min", {Min}), "min");
  }
}

TEST(Homomorphism, LogicalLattice) {
  auto on = [](std::string_view op, std::vector<PendingKind> kinds) {
    return through(op, DType::Bool, kinds);
  };
  EXPECT_EQ(on("or", {Any, Any}), "any");
  EXPECT_EQ(on("or", {All, R}), "all");
  EXPECT_EQ(on("or", {All, All}), "no");
  EXPECT_EQ(on("and", {All, All}), "all");
  EXPECT_EQ(on("and", {Any, R}), "any");
  EXPECT_EQ(on("not", {Any}), "all");
  EXPECT_EQ(on("xor", {Any, R}), "no");
  EXPECT_EQ(on("any", {Any}), "any");
  EXPECT_EQ(on("all", {Any}), "no");
}

TEST(Homomorphism, Multiplicative) {
  EXPECT_EQ(onF32("mul", {Prod, Prod}), "prod");
  EXPECT_EQ(onF32("mul", {Prod, R}), "no");
  EXPECT_EQ(onF32("abs", {Prod}), "prod");
  EXPECT_EQ(onI32("abs", {Prod}), "no"); // |wrapped| is not wrapped ||
  EXPECT_EQ(onI32("square", {Prod}), "prod");
  EXPECT_EQ(onF32("prod", {Prod}), "prod");
  OpCase power("pow", {{DType::F32, {4}}, {DType::I32, {}}}),
      negative("pow", {{DType::F32, {4}}, {DType::I32, {}}});
  power.literal(1, 3);
  EXPECT_EQ(through(power, {Prod, R}), "prod");
  EXPECT_EQ(through(power, {Max, R}), "max");
  negative.literal(1, -2);
  EXPECT_EQ(through(negative, {Prod, R}), "no");
}

TEST(Homomorphism, Choosing) {
  OpCase c("select", {{DType::Bool, {4}}, {DType::F32, {4}}, {DType::F32, {4}}});
  EXPECT_EQ(through(c, {R, Sum, Sum}), "sum");
  EXPECT_EQ(through(c, {R, Sum, R}), "no");
  EXPECT_EQ(through(c, {R, Max, R}), "max");
  EXPECT_EQ(through(c, {Any, R, R}), "no");
}

TEST(Homomorphism, Converts) {
  auto convert = [](DType from, const char* to, PendingKind k) {
    OpCase c("convert", {{from, {4}}});
    c.withWord("dtype", to);
    return through(c, {k});
  };
  EXPECT_EQ(convert(DType::BF16, "f32", Sum), "sum");
  EXPECT_EQ(convert(DType::F32, "f16", Sum), "no");
  EXPECT_EQ(convert(DType::F32, "f16", Max), "max");
  EXPECT_EQ(convert(DType::F32, "f8e4m3", Max), "no");
  EXPECT_EQ(convert(DType::Bool, "f32", Any), "max");
  EXPECT_EQ(convert(DType::Bool, "i32", All), "min");
  EXPECT_EQ(convert(DType::F32, "i32", Max), "no"); // NaN gives 0
  EXPECT_EQ(convert(DType::I8, "i32", Sum), "no");  // the narrow sum wraps
  EXPECT_EQ(convert(DType::I32, "i8", Sum), "sum");
}

TEST(Homomorphism, Predicates) {
  EXPECT_EQ(onF32("is_nan", {Max}), "any");
  EXPECT_EQ(onF32("is_inf", {Max}), "no");
  EXPECT_EQ(onF32("lt", {Max, R}), "all");
  EXPECT_EQ(onF32("lt", {Min, R}), "no"); // NaN
  EXPECT_EQ(onI32("lt", {Min, R}), "any");
  EXPECT_EQ(onF32("gt", {R, Max}), "all");
}

TEST(Homomorphism, KindsThatADTypeDoesNotHave) {
  EXPECT_EQ(onI32("neg", {Avg}), "no");
  EXPECT_EQ(onF32("neg", {Any}), "no");
  EXPECT_EQ(through("not", DType::Bool, {Sum}), "no");
}

} // namespace
} // namespace dtc::test
