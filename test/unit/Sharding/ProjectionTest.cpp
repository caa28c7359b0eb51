// Dims to factors and back: which shardings a view keeps, and which it does not.
#include "dtc/Sharding/Projection.h"
#include <gtest/gtest.h>

namespace dtc {
namespace {

class ProjectionTest : public ::testing::Test {
protected:
  ProjectionTest() {
    mesh.name = strings.intern("m");
    a = {strings.intern("a")};
    b = {strings.intern("b")};
    mesh.axes = {{a.name, 2}, {b.name, 4}};
  }
  // One factor per size; a dim per list of factor numbers.
  Rule ruleOfSizes(std::vector<int64_t> sizes) {
    Rule r;
    for (int64_t s : sizes) r.factors.push_back({"", Dim(s), FactorKind::Pass, PendingKind::None});
    return r;
  }
  static TensorMap dims(std::vector<std::vector<uint16_t>> lists) {
    TensorMap t;
    for (auto& list : lists) {
      DimMap d;
      for (uint16_t f : list) d.terms.push_back({f, 1});
      t.dims.push_back(d);
    }
    return t;
  }
  static DimSharding cut(PartList parts) { return {std::move(parts), false, -1}; }

  StringTable strings;
  Mesh mesh;
  AxisRef a, b;
};

TEST_F(ProjectionTest, MajorFactorTakesDivisors) { // [8] -> [2, 4], sharded over a: the 2 is sharded
  Rule rule = ruleOfSizes({2, 4});
  auto p = projectDims(dims({{0, 1}}), rule, std::vector{cut({{a, 0}})}, mesh);
  ASSERT_TRUE(p.overflow.empty());
  EXPECT_EQ(p.entries[0].parts, (PartList{{a, 0}}));
  EXPECT_TRUE(p.entries[1].parts.empty());
}

TEST_F(ProjectionTest, LongAxisIsSplitIntoSubAxes) { // [2, 4] sharded over b=4: 2 of it shard the 2, 2 the 4
  Rule rule = ruleOfSizes({2, 4});
  auto p = projectDims(dims({{0, 1}}), rule, std::vector{cut({{b, 0}})}, mesh);
  ASSERT_TRUE(p.overflow.empty());
  EXPECT_EQ(p.entries[0].parts, (PartList{{{b.name, 1, 2}, 0}}));
  EXPECT_EQ(p.entries[1].parts, (PartList{{{b.name, 2, 2}, 0}}));
  auto back = unprojectDims(dims({{0, 1}}), rule, std::vector{p.entries[0].parts, p.entries[1].parts}, mesh);
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)[0].parts, (PartList{{b, 0}})); // and they join again
}

TEST_F(ProjectionTest, MinorShardingBecomesStrided) { // reshape 2x4 -> 8 with the 4 sharded over a: {(2, a)}
  Rule rule = ruleOfSizes({2, 4});
  auto back = unprojectDims(dims({{0, 1}}), rule, std::vector<PartList>{{}, {{a, 0}}}, mesh);
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)[0].parts, (PartList{{{}, 2}, {a, 0}}));
  auto p = projectDims(dims({{0, 1}}), rule, std::vector{(*back)[0]}, mesh);
  EXPECT_TRUE(p.entries[0].parts.empty());
  EXPECT_EQ(p.entries[1].parts, (PartList{{a, 0}}));
}

TEST_F(ProjectionTest, NonDivisorsOverflow) { // 12 as (3 4) sharded over a=2: no view
  Rule rule = ruleOfSizes({3, 4});
  auto p = projectDims(dims({{0, 1}}), rule, std::vector{cut({{a, 0}})}, mesh);
  ASSERT_EQ(p.overflow.size(), 1u);
  EXPECT_FALSE(unprojectDims(dims({{0, 1}}), rule, std::vector<PartList>{{{a, 0}}, {}}, mesh));
}

TEST_F(ProjectionTest, UnevenShardsOfPlainDimsAreAllowed) {
  Rule rule = ruleOfSizes({7});
  auto p = projectDims(dims({{0}}), rule, std::vector{cut({{b, 0}})}, mesh);
  EXPECT_TRUE(p.overflow.empty());
  EXPECT_EQ(p.entries[0].parts, (PartList{{b, 0}}));
}

TEST_F(ProjectionTest, CommonPrefixSeesSubAxes) {
  PartList whole = {{b, 0}}, half = {{{b.name, 1, 2}, 0}}, minor = {{{b.name, 2, 2}, 0}};
  EXPECT_EQ(commonPrefix(whole, half, mesh), half);
  EXPECT_TRUE(isPrefix(half, whole, mesh));
  EXPECT_TRUE(commonPrefix(whole, minor, mesh).empty());
}

} // namespace
} // namespace dtc
