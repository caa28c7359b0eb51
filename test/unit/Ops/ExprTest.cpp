// IR built from C++ expressions, as text.
#include "OpFixture.h"
#include "dtc/Ops/Loop.h"
#include "dtc/Ops/OpFunctions.h"
#include <gtest/gtest.h>

namespace dtc::test {
namespace {

// The ops that `build(x, n)` appends for x: f32[4, 6] and n: i32[4], one a line.
template <class Build> std::string built(Build&& build) {
  Module m(standardOps());
  Diagnostics diags;
  EXPECT_TRUE(
      parseModule({"test", "func @f(%x: f32[4, 6], %n: i32[4]) -> (%y: f32[4, 6]) {\n  return %x\n}\n"},
                  standardOps(), m, diags));
  const BlockId body = m.functions[0].body;
  std::vector<OpId> list;
  Builder b(m, body, list, diags);
  build(Expr(b, m[body].args[0]), Expr(b, m[body].args[1]));
  std::string text;
  for (OpId o : list) text += printOp(m, o) + "\n";
  return text;
}

TEST(Expr, OperatorsTakeValuesAndNumbers) {
  EXPECT_EQ(built([](Expr x, Expr n) {
              Expr y = 2 * x - x / 3;
              y = select((y < 0) & (y >= -1.5), 0, -y);
              (n + 1) % 2;
              1 - n;
            }),
            "%?3 = mul 2.0, %x : f32[4, 6]\n"
            "%?5 = div %x, 3.0 : f32[4, 6]\n"
            "%?6 = sub %?3, %?5 : f32[4, 6]\n"
            "%?8 = lt %?6, 0.0 : bool[4, 6]\n"
            "%?10 = ge %?6, -1.5 : bool[4, 6]\n"
            "%?11 = and %?8, %?10 : bool[4, 6]\n"
            "%?12 = neg %?6 : f32[4, 6]\n"
            "%?14 = select %?11, 0.0, %?12 : f32[4, 6]\n"
            "%?16 = add %n, 1 : i32[4]\n"
            "%?18 = rem %?16, 2 : i32[4]\n"
            "%?20 = sub 1, %n : i32[4]\n");
}

TEST(Expr, AttributesAreMembers) {
  EXPECT_EQ(built([](Expr x, Expr n) {
              const std::vector<int64_t> dims = {1};
              Expr y = mean(x, {.dims = dims, .keepdim = true});
              y = reshape(transpose(x, {1, 0}), {Dim(3), Dim(8)});
              y = layer_norm(x, {.dims = {1}, .eps = 0.5});
              const auto [best, where] = topk(x, {.k = 2});
              ops::concat(x.builder(), {x, y}, 0);
              ops::iota(x.builder(), n.typeId(), {.dim = 0});
              gather(x, where, {.dim = 1});
              dynamic_slice(x, {0, 2}, {Dim(4), Dim(2)});
              EXPECT_EQ(ValueId(x.as(DType::F32)), ValueId(x)); // has the dtype
              y = x.as(DType::F64);
            }),
            "%?2 = mean %x {dims = [1], keepdim = true} : f32[4, 1]\n"
            "%?3 = transpose %x {perm = [1, 0]} : f32[6, 4]\n"
            "%?4 = reshape %?3 {shape = [3, 8]} : f32[3, 8]\n"
            "%?5 = layer_norm %x {dims = [1], eps = 0.5} : f32[4, 6]\n"
            "%?6, %?7 = topk %x {k = 2} : f32[4, 2], i32[4, 2]\n"
            "%?8 = concat %x, %?5 {dim = 0} : f32[8, 6]\n"
            "%?9 = iota : i32[4]\n"
            "%?10 = gather %x, %?7 {dim = 1} : f32[4, 2]\n"
            "%?13 = dynamic_slice %x, 0, 2 {sizes = [4, 2]} : f32[4, 2]\n"
            "%?14 = convert %x {dtype = f64} : f64[4, 6]\n");
}

// A loop returns what it carries, then what it stacks.
TEST(Expr, LoopsAreFunctions) {
  built([](Expr x, Expr n) {
    const std::vector<Expr> made =
        ops::forLoop(x.builder(), 2, 5, {n}, [](Builder& in, Expr i, std::span<const ValueId> carried) {
          const Expr next = Expr(in, carried[0]) + i;
          return std::vector<ValueId>{next, exp(next.as(DType::F32))};
        });
    ASSERT_EQ(made.size(), 2u);
    EXPECT_EQ(made[0].typeId(), n.typeId());
    EXPECT_EQ(made[1].dims(), (std::vector<Dim>{Dim(3), Dim(4)}));
    EXPECT_EQ(made[1].dtype(), DType::F32);
    Module& m = x.builder().module;
    EXPECT_EQ(m[m.region(m.definingOp(made[0]))].ops.size(), 3u);
    EXPECT_EQ(x.builder().out.size(), 1u);
  });
}

// An optional operand is a member, too; an absent one is not passed.
TEST(Expr, OptionalOperandsAreMembers) {
  EXPECT_EQ(built([](Expr x, Expr) {
              const Expr none, weight = x.literal(1);
              tril(x, {.row_offset = none, .diagonal = 1});
              tril(x, {.row_offset = 2});
              weight + x;
            }),
            "%?3 = tril %x {diagonal = 1} : f32[4, 6]\n"
            "%?5 = tril %x, 2 : f32[4, 6]\n"
            "%?6 = add 1.0, %x : f32[4, 6]\n");
}

TEST(Expr, IntegersAreExact) {
  EXPECT_EQ(built([](Expr, Expr n) {
              Expr wide = n.as(DType::I64);
              wide + ((int64_t(1) << 53) + 1);
              wide * 2.5; // truncated
            }),
            "%?2 = convert %n {dtype = i64} : i64[4]\n"
            "%?4 = add %?2, 9007199254740993 : i64[4]\n"
            "%?6 = mul %?2, 2 : i64[4]\n");
}

} // namespace
} // namespace dtc::test
