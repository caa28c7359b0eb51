// Result types and diagnostics that follow from the records' rules.
#include "OpFixture.h"

namespace dtc::test {
namespace {

constexpr DType F = DType::F32;

TEST(Infer, ElementwiseBroadcasts) {
  EXPECT_EQ(OpCase("add", {{F, {3, 1, 5}}, {F, {4, 1}}}).infer(), "f32[3, 4, 5]");
  EXPECT_EQ(OpCase("add", {{F, {3, 5}}, {F, {}}}).infer(), "f32[3, 5]");
  EXPECT_EQ(OpCase("mul", {{F, {0}}, {F, {1}}}).infer(), "f32[0]");
  EXPECT_EQ(OpCase("add", {{F, {3, 5}}, {F, {4, 5}}}).infer(),
            "'add' needs equal sizes, or 1: dim 0 of a (3) and dim 0 of b (4)");
}

TEST(Infer, DTypesAreNeverPromoted) {
  EXPECT_EQ(OpCase("add", {{F, {2}}, {DType::BF16, {2}}}).infer(),
            "'add' has a of f32 and b of bf16: dtypes are not promoted implicitly; write `convert b {dtype = "
            "f32}`");
  EXPECT_EQ(OpCase("exp", {{DType::I32, {2}}}).infer(),
            "'exp' takes a float or complex dtype for x, but it is i32[2]");
  EXPECT_EQ(OpCase("select", {{F, {2}}, {F, {2}}, {F, {2}}}).infer(),
            "'select' takes bool for p, but it is f32[2]");
  EXPECT_EQ(OpCase("pow", {{F, {2}}, {DType::I8, {2}}}).infer(), "f32[2]");
}

TEST(Infer, MatmulNamesTheContractedDims) {
  EXPECT_EQ(OpCase("matmul", {{F, {2, 64, 512}}, {F, {512, 8}}}).infer(), "f32[2, 64, 8]");
  EXPECT_EQ(OpCase("matmul", {{F, {64, 512}}, {F, {1024, 2048}}}).infer(),
            "'matmul' contracts dim 1 of a (512) with dim 0 of b (1024)");
  OpCase t("matmul", {{F, {5, 3}}, {F, {7, 5}}});
  t.with("transpose_a", t.m.attrs.boolean(true)).with("transpose_b", t.m.attrs.boolean(true));
  EXPECT_EQ(t.infer(), "f32[3, 7]");
  EXPECT_EQ(OpCase("matmul", {{F, {5}}, {F, {5, 2}}}).infer(),
            "'matmul' needs a with at least 2 dims, but it is f32[5]");
}

TEST(Infer, EinsumReadsItsEquation) {
  EXPECT_EQ(OpCase("einsum", {{F, {4, 6}}, {F, {8, 6}}}).withText("equation", "bi,oi->bo").infer(),
            "f32[4, 8]");
  EXPECT_EQ(OpCase("einsum", {{F, {2, 3, 3}}}).withText("equation", "...ii->...i").infer(), "f32[2, 3]");
  EXPECT_EQ(OpCase("einsum", {{F, {4, 6}}}).withText("equation", "bi->bz").infer(),
            "'einsum' has the equation \"bi->bz\": the letter 'z' of the result is in no operand");
}

TEST(Infer, ReductionsDropOrKeepDims) {
  EXPECT_EQ(OpCase("sum", {{F, {2, 3, 4}}}).infer(), "f32[]");
  EXPECT_EQ(OpCase("sum", {{F, {2, 3, 4}}}).withInts("dims", {}).infer(), "f32[2, 3, 4]");
  OpCase keep("max", {{F, {2, 3, 4}}});
  keep.withInts("dims", {-1, 0}).with("keepdim", keep.m.attrs.boolean(true));
  EXPECT_EQ(keep.infer(), "f32[1, 3, 1]");
  EXPECT_EQ(OpCase("sum", {{F, {2}}}).withInts("dims", {1}).infer(),
            "'sum': dims = 1 is not a dim of x, whose only dim is 0 (or -1)");
}

TEST(Infer, SymbolsAndShardSizesAreEqualOnlyToThemselves) {
  OpCase c("add", {});
  Dim b = c.m.dims.intern({1, {c.m.strings.intern("B")}, {}});
  Dim shard = c.m.dims.intern({11, {}, {{c.m.strings.intern("tp")}}});
  auto both = [&](Dim x, Dim y) {
    c.types = {c.m.tensorType(F, std::span<const Dim>(&x, 1)),
               c.m.tensorType(F, std::span<const Dim>(&y, 1))};
    c.record = &(*c.m.registry)[c.m.registry->find("add")];
    c.diags.clear();
    return c.infer();
  };
  EXPECT_EQ(both(b, b), "f32[B]");
  EXPECT_EQ(both(b, 1), "f32[B]");
  EXPECT_EQ(both(shard, shard), "f32[11/tp]");
  EXPECT_EQ(both(shard, 11), "'add' needs equal sizes, or 1: dim 0 of a (11/tp) and dim 0 of b (11)");
}

TEST(Infer, AttributesAreChecked) {
  EXPECT_EQ(OpCase("gelu", {{F, {2}}}).withText("aproximate", "tanh").infer(),
            "'gelu' has no attribute 'aproximate'; did you mean 'approximate'?");
  EXPECT_EQ(OpCase("argmax", {{F, {2}}}).infer(),
            "'argmax' needs the attribute 'dim' (a dim, counted from 0, negative ones from the end)");
  EXPECT_EQ(OpCase("sum", {{F, {2}}}).withText("dims", "x").infer(),
            "attribute 'dims' of 'sum' takes a list of dims such as [0, 1]");
}

TEST(Infer, CollectivesKnowShardSizes) {
  auto make = [](std::string_view op, Dim d) {
    OpCase c(op, {{F, {d, 3}}});
    c.m.shardings.addMesh(
        {c.m.strings.intern("pod"), {{c.m.strings.intern("dp"), 2}, {c.m.strings.intern("tp"), 4}}, {}});
    Attr list;
    list.kind = Attr::List;
    list.list = {c.m.attrs.word(c.m.strings.intern("tp"))};
    c.with("axes", c.m.attrs.intern(list));
    return c;
  };
  EXPECT_EQ(make("all_reduce", 5).infer(), "f32[5, 3]");
  OpCase gather = make("all_gather", 5);
  gather.with("dim", gather.m.attrs.integer(0));
  EXPECT_EQ(gather.infer(), "f32[20, 3]");
  OpCase slice = make("all_slice", 11);
  slice.with("dim", slice.m.attrs.integer(0));
  EXPECT_EQ(slice.infer(), "f32[11/tp, 3]");
  OpCase even = make("reduce_scatter", 12);
  even.with("dim", even.m.attrs.integer(0));
  EXPECT_EQ(even.infer(), "f32[3, 3]");
}

} // namespace
} // namespace dtc::test
