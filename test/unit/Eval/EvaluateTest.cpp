// The reference evaluator against numbers worked out by hand.
#include "EvalFixture.h"
#include <cmath>
#include <limits>

namespace dtc::test {
namespace {

const double kInf = std::numeric_limits<double>::infinity(), kNaN = std::nan("");

Tensor one(const std::string& text, std::vector<Tensor> args, Precision p = Precision::Rd) {
  return Program(text).run(std::move(args), p)[0];
}

TEST(Evaluate, MatmulBroadcastsItsBatchDims) {
  Tensor y = one("func @f(%a: f32[2, 1, 2], %b: f32[2, 3]) -> (f32[2, 1, 3]) {\n"
                 "  %y = matmul %a, %b\n  return %y\n}\n",
                 {f32({2, 1, 2}, {1, 2, 3, 4}), f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{9, 12, 15, 19, 26, 33}));
}

TEST(Evaluate, SumsAreRoundedOnceAtTheEnd) {
  // In bf16, 256 + 1 is 256: only a sum that is rounded at the end sees the ones.
  Tensor y = one("func @f(%x: bf16[5]) -> (bf16[]) {\n  %y = sum %x\n  return %y\n}\n",
                 {tensor(DType::BF16, {5}, {256, 1, 1, 1, 1})});
  EXPECT_EQ(y.getFloat(0), 260);
}

TEST(Evaluate, R64NeverRounds) {
  std::string text = "func @f(%x: f32[1]) -> (bf16[1]) {\n  %y = convert %x {dtype = bf16}\n  return %y\n}\n";
  EXPECT_EQ(one(text, {f32({1}, {1.0078125001})}, Precision::R64).dtype(), DType::F64);
  EXPECT_EQ(one(text, {f32({1}, {1 + 0x1p-20})}, Precision::R64).getFloat(0), 1 + 0x1p-20);
  EXPECT_EQ(one(text, {f32({1}, {1 + 0x1p-20})}).getFloat(0), 1);
}

TEST(Evaluate, AReductionOfNothingIsItsIdentity) {
  Program p("func @f(%x: f32[2, 0], %i: i8[2, 0]) -> (f32[2], f32[2], f32[2], i8[2], i8[2]) {\n"
            "  %s = sum %x {dims = [1]}\n  %m = max %x {dims = [1]}\n  %q = prod %x {dims = [1]}\n"
            "  %n = max %i {dims = [1]}\n  %o = min %i {dims = [1]}\n  return %s, %m, %q, %n, %o\n}\n");
  auto r = p.run({f32({2, 0}, {}), tensor(DType::I8, {2, 0}, {})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{0, 0}));
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{-kInf, -kInf}));
  EXPECT_EQ(valuesOf(r[2]), (std::vector<double>{1, 1}));
  EXPECT_EQ(valuesOf(r[3]), (std::vector<double>{-128, -128}));
  EXPECT_EQ(valuesOf(r[4]), (std::vector<double>{127, 127}));
}

TEST(Evaluate, IntegersFollowTheEdgesOfTheIr) {
  Program p(
      "func @f(%a: i8[4], %b: i8[4]) -> (i8[4], i8[4], i8[4], i8[4], i8[4]) {\n"
      "  %1 = div %a, %b\n  %2 = floor_div %a, %b\n  %3 = rem %a, %b\n  %4 = mod %a, %b\n  %5 = mul %a, %b\n"
      "  return %1, %2, %3, %4, %5\n}\n");
  auto r = p.run({tensor(DType::I8, {4}, {-7, -128, 5, 100}), tensor(DType::I8, {4}, {2, -1, 0, 3})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{-3, -128, 0, 33}));
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{-4, -128, 0, 33}));
  EXPECT_EQ(valuesOf(r[2])[0], -1);
  EXPECT_EQ(valuesOf(r[3])[0], 1);
  EXPECT_EQ(valuesOf(r[4]), (std::vector<double>{-14, -128, 0, 44})); // 300 wraps to 44
}

TEST(Evaluate, EveryDTypeAddsAndConverts) {
  for (int k = 0; k < kNumDTypes; ++k) {
    auto d = static_cast<DType>(k);
    if (isBool(d)) continue;
    std::string name(dtypeName(d));
    Tensor y = one("func @f(%x: " + name + "[3], %y: " + name +
                       "[3]) -> (f64[3]) {\n  %s = add %x, %y\n"
                       "  %c = convert %s {dtype = f64}\n  return %c\n}\n",
                   {tensor(d, {3}, {1, 2, 3}), tensor(d, {3}, {4, 2, 1})});
    EXPECT_EQ(valuesOf(y), (std::vector<double>{5, 4, 4})) << name;
  }
}

TEST(Evaluate, FloatToIntegerSaturatesAndNaNIsZero) {
  Tensor y = one("func @f(%x: f32[4]) -> (i8[4]) {\n  %y = convert %x {dtype = i8}\n  return %y\n}\n",
                 {f32({4}, {300, -300, kNaN, -1.9})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{127, -128, 0, -1}));
}

TEST(Evaluate, MaxAndClampKeepNaN) {
  Program p(
      "func @f(%x: f32[3]) -> (f32[3], f32[3], f32[]) {\n  %a = max %x, 0.0\n  %b = clamp %x, 2.0, 1.0\n"
      "  %c = max %x\n  return %a, %b, %c\n}\n");
  auto r = p.run({f32({3}, {-1, kNaN, 3})});
  EXPECT_EQ(r[0].getFloat(0), 0);
  EXPECT_TRUE(std::isnan(r[0].getFloat(1)));
  EXPECT_EQ(r[1].getFloat(0), 1); // lo > hi gives hi
  EXPECT_TRUE(std::isnan(r[1].getFloat(1)));
  EXPECT_TRUE(std::isnan(r[2].getFloat(0)));
}

TEST(Evaluate, ReshapesThatNoFactorSaysKeepTheOrder) {
  Tensor y = one("func @f(%x: f32[4, 3]) -> (f32[2, 6]) {\n  %t = transpose %x {perm = [1, 0]}\n"
                 "  %y = reshape %t {shape = [2, 6]}\n  return %y\n}\n",
                 {counted(DType::F32, {4, 3})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{1, 4, 7, 10, -2, -5, -8, -11, 3, 6, 9, 12}));
}

TEST(Evaluate, ShardsOfTensors) {
  Program p(
      "func @f(%x: i32[2, 3], %y: i32[2, 1]) -> (i32[2, 4], i32[2, 2, 3], i32[2, 2], i32[3, 6], i32[2, 3], "
      "i32[2, 3]) {\n"
      "  %c = concat %x, %y {dim = 1}\n  %s = stack %x, %x {dim = 1}\n"
      "  %l = slice %x {start = [0, 0], limit = [2, 3], stride = [1, 2]}\n"
      "  %p = pad %x, 9 {low = [1, 0], high = [0, -1], interior = [0, 1]}\n  %f = flip %x {dims = [0, 1]}\n"
      "  %r = roll %x {shifts = [1], dims = [1]}\n  %q = pad %p {low = [0, 0], high = [0, 2]}\n"
      "  return %c, %s, %l, %q, %f, %r\n}\n");
  auto r = p.run({i32({2, 3}, {1, 2, 3, 4, 5, 6}), i32({2, 1}, {7, 8})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{1, 2, 3, 7, 4, 5, 6, 8}));
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(valuesOf(r[2]), (std::vector<double>{1, 3, 4, 6}));
  EXPECT_EQ(valuesOf(r[3]), (std::vector<double>{9, 9, 9, 9, 0, 0, 1, 9, 2, 9, 0, 0, 4, 9, 5, 9, 0, 0}));
  EXPECT_EQ(valuesOf(r[4]), (std::vector<double>{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(valuesOf(r[5]), (std::vector<double>{3, 1, 2, 6, 4, 5}));
}

TEST(Evaluate, PadModes) {
  Program p("func @f(%x: i32[4]) -> (i32[9], i32[7]) {\n"
            "  %r = pad %x {low = [2], high = [3], mode = \"reflect\"}\n"
            "  %e = pad %x {low = [1], high = [2], mode = \"replicate\"}\n  return %r, %e\n}\n");
  auto r = p.run({i32({4}, {1, 2, 3, 4})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{3, 2, 1, 2, 3, 4, 3, 2, 1}));
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{1, 1, 2, 3, 4, 4, 4}));
}

TEST(Evaluate, LookUps) {
  Program p(
      "func @f(%x: f32[3, 2], %i: i32[2], %g: i32[1, 2]) -> (f32[2, 2], f32[1, 2], f32[3, 2], f32[2, 3], "
      "f32[2]) {\n"
      "  %s = index_select %x, %i {dim = 0}\n  %a = gather %x, %g {dim = 0}\n"
      "  %u = scatter %x, %g, %a {dim = 0, reduce = \"sum\"}\n  %o = one_hot %i {depth = 3, dtype = f32}\n"
      "  %n = constant {value = 1} : i32[]\n  %r = index_select %x, %n {dim = 0}\n  return %s, %a, %u, %o, "
      "%r\n}\n");
  auto r = p.run({f32({3, 2}, {1, 2, 3, 4, 5, 6}), i32({2}, {2, 0}), i32({1, 2}, {2, 1})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{5, 6, 1, 2}));
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{5, 4}));
  EXPECT_EQ(valuesOf(r[2]), (std::vector<double>{1, 2, 3, 8, 10, 6}));
  EXPECT_EQ(valuesOf(r[3]), (std::vector<double>{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(valuesOf(r[4]), (std::vector<double>{3, 4}));
}

TEST(Evaluate, TheLastOfEqualUpdatesWins) {
  Tensor y =
      one("func @f(%x: f32[3], %i: i32[3], %u: f32[3]) -> (f32[3]) {\n  %y = scatter %x, %i, %u {dim = 0}\n"
          "  return %y\n}\n",
          {f32({3}, {0, 0, 0}), i32({3}, {1, 1, 2}), f32({3}, {5, 6, 7})});
  EXPECT_EQ(valuesOf(y), (std::vector<double>{0, 6, 7}));
}

TEST(Evaluate, AnIndexOutOfRangeNamesOpAndLine) {
  Program p("func @f(%x: f32[3], %i: i32[1]) -> (f32[1]) {\n  %y = index_select %x, %i {dim = 0}\n  return "
            "%y\n}\n");
  EXPECT_EQ(p.errorOf({f32({3}, {1, 2, 3}), i32({1}, {3})}),
            "test.dt:2:8: 'index_select': index 3 is out of range for 3 entries, which count from 0");
}

TEST(Evaluate, SoftmaxOfLargeNumbers) {
  Program p("func @f(%x: f32[2, 2]) -> (f32[2, 2], f32[2, 2]) {\n  %s = softmax %x {dims = [1]}\n"
            "  %l = log_softmax %x {dims = [-1]}\n  return %s, %l\n}\n");
  auto r = p.run({f32({2, 2}, {1000, 1000, 0, -kInf})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{0.5, 0.5, 1, 0}));
  EXPECT_FLOAT_EQ(r[1].getFloat(0), -std::log(2.0));
  EXPECT_EQ(r[1].getFloat(3), -kInf);
}

TEST(Evaluate, Norms) {
  Program p("func @f(%x: f64[1, 4], %w: f64[4], %b: f64[4]) -> (f64[1, 4], f64[1, 4]) {\n"
            "  %l = layer_norm %x, %w, %b {dims = [1], eps = 0.0}\n  %r = rms_norm %x {dims = [1], eps = "
            "0.0}\n  return %l, %r\n}\n");
  auto r = p.run({tensor(DType::F64, {1, 4}, {1, 3, 1, 3}), tensor(DType::F64, {4}, {1, 2, 3, 4}),
                  tensor(DType::F64, {4}, {10, 0, 0, 0})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{9, 2, -3, 4}));
  EXPECT_DOUBLE_EQ(r[1].getFloat(1), 3 / std::sqrt(5.0));
}

TEST(Evaluate, CrossEntropy) {
  Program p("func @f(%x: f64[3, 2], %l: i32[3]) -> (f64[3], f64[3]) {\n  %a = cross_entropy %x, %l\n"
            "  %b = cross_entropy %x, %l {label_smoothing = 0.5}\n  return %a, %b\n}\n");
  auto r = p.run({tensor(DType::F64, {3, 2}, {0, 0, 0, 1, 5, 5}), i32({3}, {1, 0, -100})});
  EXPECT_DOUBLE_EQ(r[0].getFloat(0), std::log(2.0));
  EXPECT_DOUBLE_EQ(r[0].getFloat(1), std::log(1 + std::exp(1.0)));
  EXPECT_EQ(r[0].getFloat(2), 0);
  EXPECT_DOUBLE_EQ(r[1].getFloat(1), std::log(1 + std::exp(1.0)) - 0.25);
}

TEST(Evaluate, CausalAttentionSeesWhatCameBefore) {
  Tensor y =
      one("func @f(%q: f64[1, 2, 2, 1], %k: f64[1, 1, 2, 1], %v: f64[1, 1, 2, 1]) -> (f64[1, 2, 2, 1]) {\n"
          "  %y = attention %q, %k, %v {causal = true}\n  return %y\n}\n",
          {tensor(DType::F64, {1, 2, 2, 1}, {0, 0, 1, 1}), tensor(DType::F64, {1, 1, 2, 1}, {0, 2}),
           tensor(DType::F64, {1, 1, 2, 1}, {10, 20})});
  EXPECT_EQ(y.getFloat(0), 10);
  EXPECT_EQ(y.getFloat(1), 15);
  EXPECT_EQ(y.getFloat(2), 10);
  EXPECT_DOUBLE_EQ(y.getFloat(3), (10 + 20 * std::exp(2.0)) / (1 + std::exp(2.0)));
}

TEST(Evaluate, RopeTurnsPairs) {
  Program p(
      "func @f(%x: f64[1, 4], %p: i32[1]) -> (f64[1, 4], f64[1, 4]) {\n  %a = rope %x, %p {base = 100.0}\n"
      "  %b = rope %x, %p {base = 100.0, interleaved = true}\n  return %a, %b\n}\n");
  auto r = p.run({tensor(DType::F64, {1, 4}, {1, 2, 3, 4}), i32({1}, {2})});
  double c = std::cos(2.0), s = std::sin(2.0), c1 = std::cos(0.2), s1 = std::sin(0.2);
  EXPECT_DOUBLE_EQ(r[0].getFloat(0), c - 3 * s);
  EXPECT_DOUBLE_EQ(r[0].getFloat(2), 3 * c + s);
  EXPECT_DOUBLE_EQ(r[0].getFloat(3), 4 * c1 + 2 * s1);
  EXPECT_DOUBLE_EQ(r[1].getFloat(1), 2 * c + s);
  EXPECT_DOUBLE_EQ(r[1].getFloat(2), 3 * c1 - 4 * s1);
}

TEST(Evaluate, TrianglesOfOddShapes) {
  Program p(
      "func @f(%x: i32[2, 3]) -> (i32[2, 3], i32[2, 3]) {\n  %l = tril %x\n  %u = triu %x {diagonal = 1}\n"
      "  return %l, %u\n}\n");
  auto r = p.run({i32({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{0, 2, 3, 0, 0, 6}));
}

TEST(Evaluate, ControlFlow) {
  Program p("func @g(%x: i32[]) -> (i32[]) {\n  %y = mul %x, %x\n  return %y\n}\n"
            "func @f(%p: bool[], %x: i32[]) -> (i32[], i32[3], i32[], i32[]) {\n"
            "  %a = cond %p {\n    %1 = call @g(%x)\n    yield %1\n  } {\n    yield %x\n  }\n"
            "  %h, %ys = for %i in 0..3 (%c = %x) {\n    %2 = add %c, %i\n    yield %2, %c\n  }\n"
            "  %n, %z = while (%k = 0 : i32[], %v = %x) {\n    %3 = lt %v, 100\n    yield %3\n  } {\n"
            "    %4 = add %k, 1\n    %5 = mul %v, 2\n    yield %4, %5\n  }\n  return %a, %ys, %h, %n\n}\n");
  auto r = p.run({tensor(DType::Bool, {}, {1}), i32({}, {7})});
  EXPECT_EQ(r[0].getInt(0), 49);
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{7, 7, 8}));
  EXPECT_EQ(r[2].getInt(0), 10);
  EXPECT_EQ(r[3].getInt(0), 4);
}

TEST(Evaluate, SymbolsAreBoundByTheArguments) {
  Program p("func @f(%x: f32[B, 2]) -> (f32[2], f32[2*B]) {\n  %m = mean %x {dims = [0]}\n"
            "  %r = reshape %x {shape = [-1]}\n  return %m, %r\n}\n");
  auto r = p.run({f32({3, 2}, {1, 2, 3, 4, 5, 6})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{3, 4}));
  EXPECT_EQ(r[1].shape(), (std::vector<int64_t>{6}));
}

TEST(Evaluate, ArgumentsOfAnotherShapeAreAnError) {
  Program p("func @f(%x: f32[3]) -> (f32[3]) {\n  return %x\n}\n");
  EXPECT_EQ(p.errorOf({f32({4}, {1, 2, 3, 4})}), "argument %x has size 4 in dim 0, expected 3");
}

} // namespace
} // namespace dtc::test
