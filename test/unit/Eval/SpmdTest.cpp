// The many-device evaluator: collectives on shards against their definition on global tensors.
#include "EvalFixture.h"

namespace dtc::test {
namespace {

// Gathers and slices the sharded dim again, on any mesh and size.
TEST(Spmd, GatherAndSliceUndoEachOther) {
  for (int64_t k : {1, 2, 3, 5})
    for (int64_t n : {1, 4, 7, 11}) {
      std::string mesh = "mesh @m = [b=" + std::to_string(k) + "]\n",
                  type = "f32[" + std::to_string(n) + ", 2]";
      std::string shard = n % k == 0 ? std::to_string(n / k) : std::to_string(n) + "/b";
      std::string local = "f32[" + shard + ", 2]";
      Program p(mesh + "spmd func @f(%x: " + local + " of " + type + " {b, _}) -> (" + local + " of " + type +
                " {b, _}, " + type + ") {\n  %g = all_gather %x {axes = [b], dim = 0} : " + type +
                "\n  %s = all_slice %g {axes = [b], dim = 0} : " + local + "\n  return %s, %g\n}\n");
      Tensor x = counted(DType::F32, {n, 2});
      auto r = p.runSpmd({x});
      EXPECT_EQ(r[0], x) << n << " over " << k;
      EXPECT_EQ(r[1], x) << n << " over " << k;
    }
}

TEST(Spmd, EveryReductionCombinesTheDevices) {
  const std::pair<const char*, double> cases[] = {
      {"sum", 2}, {"avg", 2.0 / 3}, {"prod", -24}, {"max", 4}, {"min", -3}};
  for (auto [op, want] : cases) {
    Program p("mesh @m = [b=3]\nspmd func @f(%x: f32[1] of f32[3] {b}) -> (f32[1]) {\n  %y = all_reduce %x "
              "{axes = [b], op = \"" +
              std::string(op) + "\"} : f32[1]\n  return %y\n}\n");
    EXPECT_FLOAT_EQ(p.runSpmd({f32({3}, {2, -3,
                                         op == std::string("sum")   ? 3.0
                                         : op == std::string("avg") ? 3.0
                                                                    : 4.0})})[0]
                        .getFloat(0),
                    want)
        << op;
  }
  Program any("mesh @m = [b=2]\nspmd func @f(%x: bool[1] of bool[2] {b}) -> (bool[1], bool[1]) {\n"
              "  %y = all_reduce %x {axes = [b], op = \"any\"} : bool[1]\n"
              "  %z = all_reduce %x {axes = [b], op = \"all\"} : bool[1]\n  return %y, %z\n}\n");
  auto r = any.runSpmd({tensor(DType::Bool, {2}, {1, 0})});
  EXPECT_EQ(r[0].getInt(0), 1);
  EXPECT_EQ(r[1].getInt(0), 0);
}

TEST(Spmd, ReduceScatterReturnsUnevenShards) {
  Program p("mesh @m = [b=3]\nspmd func @f(%x: f32[7] of f32[7] {_ | sum(b)}) -> (f32[7/b] of f32[7] {b}) {\n"
            "  %y = reduce_scatter %x {axes = [b], dim = 0} : f32[7/b]\n  return %y\n}\n");
  Tensor x = counted(DType::F32, {7});
  std::vector<std::vector<Tensor>> shards;
  EXPECT_EQ(p.runSpmd({x}, &shards)[0], x);
  EXPECT_EQ(shards[0][0].shape()[0], 2);
  EXPECT_EQ(shards[2][0].shape()[0], 3);
}

TEST(Spmd, AllToAllMovesTheSharding) {
  Program p(
      "mesh @m = [a=2, b=3]\n"
      "spmd func @f(%x: f32[4, 7/b] of f32[4, 7] {_, b}) -> (f32[4/b, 7] of f32[4, 7] {b, _}) {\n"
      "  %y = all_to_all %x {axes = [b], split_dim = 0, concat_dim = 1} : f32[4/b, 7]\n  return %y\n}\n");
  Tensor x = counted(DType::F32, {4, 7});
  EXPECT_EQ(p.runSpmd({x})[0], x);
}

TEST(Spmd, SlicingFurtherShardsTheGlobalDim) {
  // 4 over a=3 is 1, 1, 2; over (a, b) it is 0 1 0 1 1 1: shards of the shards would be different.
  Program p("mesh @m = [a=3, b=2]\nspmd func @f(%x: f32[4/a] of f32[4] {a}) -> (f32[4/(a, b)] of f32[4] {(a, "
            "b)}) {\n"
            "  %y = all_slice %x {axes = [b], dim = 0} : f32[4/(a, b)]\n  return %y\n}\n");
  Tensor x = counted(DType::F32, {4});
  EXPECT_EQ(p.runSpmd({x})[0], x);
}

TEST(Spmd, SubAxesAreGroupsOfTheirOwn) {
  Program p("mesh @m = [a=4]\nspmd func @f(%x: f32[1] of f32[4] {a}) -> (f32[1] of f32[4] {a}) {\n"
            "  %y = all_reduce %x {axes = [a:(2)2]} : f32[1]\n  return %y\n}\n");
  EXPECT_EQ(valuesOf(p.runSpmd({f32({4}, {1, 2, 10, 20})})[0]), (std::vector<double>{3, 3, 30, 30}));
}

TEST(Spmd, PermuteGivesZerosToWhomNoOneSends) {
  Program p("mesh @m = [b=3]\nspmd func @f(%x: f32[1] of f32[3] {b}) -> (f32[1] of f32[3] {b}) {\n"
            "  %y = permute %x {axes = [b], pairs = [[0, 1], [2, 0]]} : f32[1]\n  return %y\n}\n");
  EXPECT_EQ(valuesOf(p.runSpmd({f32({3}, {1, 2, 3})})[0]), (std::vector<double>{3, 1, 0}));
}

TEST(Spmd, PointToPointAndBroadcast) {
  Program p("mesh @m = [b=3]\nspmd func @f(%x: f32[1] of f32[3] {b}) -> (f32[1] of f32[3] {b}, f32[1] of "
            "f32[3] {b}, f32[1]) {\n"
            "  %y, %z = p2p %x, %x {axes = [b], sends = [[0, 0, 2], [1, 1, 1], [1, 2, 0]]} : f32[1], f32[1]\n"
            "  %r = broadcast_from %x {axes = [b], root = 2} : f32[1]\n  return %y, %z, %r\n}\n");
  auto r = p.runSpmd({f32({3}, {1, 2, 3})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{3, 2, 0}));
  EXPECT_EQ(valuesOf(r[2]), (std::vector<double>{3}));
}

TEST(Spmd, DevicesKnowTheirCoordinates) {
  Program p(
      "mesh @m = [a=2, b=3]\nspmd func @f(%x: f32[7/b] of f32[7] {b}) -> (i32[1] of i32[6] {(a, b)}, i32[1] "
      "of i32[3] {b}, i32[1] of i32[3] {b}) {\n"
      "  %i = axis_index {axes = [a, b]} : i32[]\n  %o = piece_offset {size = 7, axes = [b]} : i32[]\n"
      "  %s = piece_size {size = 7, axes = [b]} : i32[]\n  %i1 = reshape %i {shape = [1]}\n"
      "  %o1 = reshape %o {shape = [1]}\n  %s1 = reshape %s {shape = [1]}\n  return %i1, %o1, %s1\n}\n");
  auto r = p.runSpmd({counted(DType::F32, {7})});
  EXPECT_EQ(valuesOf(r[0]), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(valuesOf(r[1]), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(valuesOf(r[2]), (std::vector<double>{2, 2, 3}));
}

TEST(Spmd, FillAndTrimAreShardToBlockAndBack) {
  Program p("mesh @m = [b=3]\nspmd func @f(%x: f32[11/b] of f32[11] {b}) -> (f32[11/b] of f32[11] {b}, "
            "f32[4] of f32[12] {b}) {\n"
            "  %f = fill_piece %x {dim = 0, value = -1.0} : f32[4]\n"
            "  %t = trim_piece %f {dim = 0, size = 11, axes = [b]} : f32[11/b]\n  return %t, %f\n}\n");
  Tensor x = counted(DType::F32, {11});
  auto r = p.runSpmd({x});
  EXPECT_EQ(r[0], x);
  EXPECT_EQ(r[1].getFloat(3), -1); // 3 elements and the filling
}

TEST(Spmd, LocalInAGlobalProgramRunsPerDevice) {
  Program p(
      "mesh @m = [a=2, b=3]\nfunc @f(%x: f32[5, 11] @m{a, b}, %w: f32[11, 4] @m{b, _}) -> (f32[5, 4]) {\n"
      "  %y = local (%l = %x @m{a, b}, %r = %w @m{b, _}) {\n    %1 = matmul %l, %r\n"
      "    %2 = all_reduce %1 {axes = [b]}\n    yield %2\n  } : f32[5, 4] @m{a, _}\n  return %y\n}\n");
  Program global(
      "func @f(%x: f32[5, 11], %w: f32[11, 4]) -> (f32[5, 4]) {\n  %y = matmul %x, %w\n  return %y\n}\n");
  Tensor x = counted(DType::F32, {5, 11}), w = counted(DType::F32, {11, 4}, 3);
  EXPECT_EQ(p.run({x, w})[0], global.run({x, w})[0]);
}

TEST(Spmd, BranchesMayDifferBetweenDevices) {
  Program p("mesh @m = [b=3]\nspmd func @f(%x: f32[1] of f32[3] {b}) -> (f32[1] of f32[3] {b}) {\n"
            "  %i = axis_index {axes = [b]} : i32[]\n  %p = gt %i, 0\n  %y = cond %p {\n    %1 = neg %x\n    "
            "yield %1\n  } {\n"
            "    yield %x\n  }\n  return %y\n}\n");
  EXPECT_EQ(valuesOf(p.runSpmd({f32({3}, {1, 2, 3})})[0]), (std::vector<double>{1, -2, -3}));
}

} // namespace
} // namespace dtc::test
