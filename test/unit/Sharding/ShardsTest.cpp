#include "Support.h"
#include "dtc/Sharding/Canonical.h"
#include <gtest/gtest.h>
#include <numeric>

using namespace dtc;
using namespace dtc::test;

namespace {
std::vector<int64_t> elements(const std::vector<Interval>& list) {
  std::vector<int64_t> out;
  for (Interval i : list)
    for (int64_t x = i.begin; x < i.end; ++x) out.push_back(x);
  return out;
}
} // namespace

// sharding.md §1: the shards of all devices cover each dim once, in order, and differ by at most one.
TEST(Shards, CoverEveryDimOnce) {
  for (int64_t n = 0; n <= 64; ++n)
    for (int64_t k = 1; k <= 16; ++k) {
      int64_t at = 0;
      for (int64_t i = 0; i < k; ++i) {
        const Interval p = shardInterval(n, k, i);
        EXPECT_EQ(p.begin, at);
        EXPECT_GE(p.size(), n / k);
        EXPECT_LE(p.size(), (n + k - 1) / k);
        at = p.end;
      }
      EXPECT_EQ(at, n);
    }
}

// Gathering the minor axis of (a, b) gives exactly the shard of a; for every n.
TEST(Shards, GatheringMinorAxesGivesTheCoarser) {
  for (int64_t ka = 1; ka <= 4; ++ka)
    for (int64_t kb = 1; kb <= 4; ++kb) {
      World w({ka, kb});
      for (int64_t n = 0; n <= 64; ++n)
        for (int64_t coordinate = 0; coordinate < ka * kb; ++coordinate) {
          std::vector<int64_t> gathered;
          const std::vector<AxisRef> minor = {w.axis('b')};
          for (int64_t p : w.mesh().groupOf(minor, coordinate))
            for (int64_t x : elements(dimShards(w.dim("ab"), w.mesh(), n, p))) gathered.push_back(x);
          EXPECT_EQ(gathered, elements(dimShards(w.dim("a"), w.mesh(), n, coordinate)))
              << n << " " << ka << " " << kb;
        }
    }
}

TEST(Shards, AnAxisIsItsSubAxes) {
  for (int64_t size : {4, 6, 12}) {
    World w({size});
    for (int64_t major = 2; major < size; ++major) {
      if (size % major != 0) continue;
      DimSharding split;
      split.parts = {{w.axis('a', 1, major), 0}, {w.axis('a', major, size / major), 0}};
      for (int64_t n = 0; n <= 64; ++n)
        for (int64_t p = 0; p < size; ++p)
          EXPECT_EQ(dimShards(split, w.mesh(), n, p), dimShards(w.dim("a"), w.mesh(), n, p));
    }
  }
}

TEST(Shards, StridedListsHoldEqualBlocks) {
  World w({2, 3});
  EXPECT_EQ(elements(dimShards(w.dim("2a"), w.mesh(), 8, 0)), (std::vector<int64_t>{0, 1, 4, 5}));
  EXPECT_EQ(elements(dimShards(w.dim("2a"), w.mesh(), 8, 3)), (std::vector<int64_t>{2, 3, 6, 7}));
  EXPECT_EQ(elements(dimShards(w.dim("b2a"), w.mesh(), 12, 4)), (std::vector<int64_t>{5, 7})); // a=1, b=1
  EXPECT_EQ(dimShardSize(w.dim("2a"), w.mesh(), 8, 1), 4);
}

TEST(Shards, EmptyOnes) {
  World w({4});
  int64_t empty = 0;
  for (int64_t p = 0; p < 4; ++p) empty += dimShardSize(w.dim("a"), w.mesh(), 3, p) == 0;
  EXPECT_EQ(empty, 1);
  EXPECT_EQ(dimShardSize(w.dim("a"), w.mesh(), 0, 2), 0);
}

TEST(Mesh, GroupsAndIndices) {
  World w({2, 6});
  const std::vector<AxisRef> b = {w.axis('b')}, sub = {w.axis('b', 1, 2)}, minor = {w.axis('b', 2, 3)};
  EXPECT_EQ(w.mesh().groupOf(b, 8), (std::vector<int64_t>{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(w.mesh().groupOf(sub, 8), (std::vector<int64_t>{8, 11}));
  EXPECT_EQ(w.mesh().groupOf(minor, 8), (std::vector<int64_t>{6, 7, 8}));
  const std::vector<AxisRef> ba = {w.axis('b', 2, 3), w.axis('a')};
  EXPECT_EQ(w.mesh().groupOf(ba, 4), (std::vector<int64_t>{3, 9, 4, 10, 5, 11}));
  for (int64_t coordinate = 0; coordinate < 12; ++coordinate) {
    const auto group = w.mesh().groupOf(ba, coordinate);
    EXPECT_EQ(group[static_cast<size_t>(w.mesh().indexAlong(ba, coordinate))], coordinate);
  }
}

TEST(Mesh, SubAxesOverlap) {
  World w({12});
  EXPECT_TRUE(overlaps(w.axis('a'), w.axis('a', 2, 3), w.mesh()));
  EXPECT_FALSE(overlaps(w.axis('a', 1, 2), w.axis('a', 2, 3), w.mesh()));
  EXPECT_FALSE(overlaps(w.axis('a', 6, 2), w.axis('a', 1, 2), w.mesh()));
  EXPECT_TRUE(overlaps(w.axis('a', 1, 4), w.axis('a', 2, 3), w.mesh()));
  EXPECT_TRUE(overlaps(w.axis('a', 1, 3), w.axis('a', 2, 2), w.mesh()));
}

TEST(LocalDim, QuotientsAndShardSizes) {
  World w({2, 3});
  auto print = [&](std::optional<Dim> d) { return d ? printDim(*d, w.dims, w.strings) : "none"; };
  const Dim batch = w.dims.intern({1, {w.strings.intern("B")}, {}});
  EXPECT_EQ(print(localDim(w.dim("ab"), w.mesh(), Dim(12), w.dims)), "2");
  EXPECT_EQ(print(localDim(w.dim("ab"), w.mesh(), Dim(7), w.dims)), "7/(a, b)");
  EXPECT_EQ(print(localDim(w.dim("b"), w.mesh(), Dim(11), w.dims)), "11/b");
  EXPECT_EQ(print(localDim(w.dim("a"), w.mesh(), batch, w.dims)), "B/a");
  EXPECT_EQ(print(localDim(w.dim("a"), w.mesh(), *w.dims.mul(Dim(4), batch), w.dims)), "2*B");
  EXPECT_EQ(print(localDim(w.dim("2a"), w.mesh(), Dim(8), w.dims)), "4");
  EXPECT_EQ(print(localDim(w.dim("2a"), w.mesh(), Dim(6), w.dims)), "none");
}

TEST(DimTable, ProductsAndQuotients) {
  World w({2});
  const Dim b = w.dims.intern({1, {w.strings.intern("B")}, {}});
  const Dim s = w.dims.intern({1, {w.strings.intern("S")}, {}});
  const Dim bs = *w.dims.mul(b, s);
  EXPECT_EQ(bs, *w.dims.mul(s, b));
  EXPECT_EQ(w.dims.divExact(bs, b), s);
  EXPECT_EQ(w.dims.divExact(b, s), std::nullopt);
  EXPECT_EQ(w.dims.divExact(*w.dims.mul(Dim(6), b), *w.dims.mul(Dim(2), b)), Dim(3));
  EXPECT_EQ(w.dims.mul(Dim(int64_t(1) << 62), Dim(4)), std::nullopt);
  EXPECT_EQ(w.dims.mul(bs, Dim(0)), Dim(0));
  const Dim sharded = w.dims.intern({11, {}, {w.axis('a')}});
  EXPECT_EQ(w.dims.mul(sharded, Dim(2)), std::nullopt);
  EXPECT_EQ(w.dims.mul(sharded, Dim(1)), sharded);
  EXPECT_EQ(w.dims.unsharded(sharded), Dim(11));
}

// The canonical form is the same shard on every device; every n.
TEST(LocalDim, CanonicalShardsAreTheSame) {
  World w({4, 6});
  for (int64_t n = 1; n <= 64; ++n)
    for (std::string_view axes : {"a", "b", "ab", "ba"}) {
      const DimSharding d = w.dim(axes);
      const DimExpr normal = w.dims.expr(canonicalShard({n, {}, d.axes()}, w.mesh(), w.dims));
      for (int64_t p = 0; p < 24; ++p) {
        const int64_t k = w.mesh().sizeOf(normal.axes);
        EXPECT_EQ(shardInterval(normal.coefficient, k, w.mesh().indexAlong(normal.axes, p)).size(),
                  dimShardSize(d, w.mesh(), n, p))
            << n << " " << axes;
      }
    }
}

// A dim that is sharded in steps has the same shards as one sharded at once: one form, whatever divides what.
TEST(LocalDim, ShardedInStepsIsTheSameShard) {
  World w({4, 6});
  const std::vector<std::vector<AxisRef>> lists = {
      {w.axis('a'), w.axis('b')},
      {w.axis('b'), w.axis('a')},
      {w.axis('a', 1, 2), w.axis('a', 2, 2), w.axis('b')},
      {w.axis('a', 2, 2), w.axis('a', 1, 2)},
      {w.axis('b', 1, 2), w.axis('b', 2, 3), w.axis('a')},
      {w.axis('b', 1, 3), w.axis('a', 1, 2), w.axis('b', 3, 2), w.axis('a', 2, 2)},
      {w.axis('b', 3, 2), w.axis('b', 1, 3)},
  };
  auto dimOf = [](std::span<const AxisRef> axes) {
    DimSharding d;
    for (const AxisRef& a : axes) d.parts.push_back({a, 0});
    return d;
  };
  for (int64_t n = 1; n <= 72; ++n)
    for (const std::vector<AxisRef>& list : lists) {
      const Dim whole = *localDim(dimOf(list), w.mesh(), Dim(n), w.dims);
      for (size_t first = 0; first <= list.size(); ++first) {
        DimExpr e = w.dims.expr(*localDim(dimOf(std::span(list).first(first)), w.mesh(), Dim(n), w.dims));
        divideOut(e, w.mesh());
        e.axes.insert(e.axes.end(), list.begin() + static_cast<ptrdiff_t>(first), list.end());
        EXPECT_EQ(canonicalShard(e, w.mesh(), w.dims), whole) << n << " after " << first;
      }
    }
}

TEST(LocalDim, AxesOfSizeOneDoNotShard) {
  World w({1, 4, 1});
  EXPECT_EQ(localDim(w.dim("a"), w.mesh(), Dim(7), w.dims), Dim(7));
  EXPECT_EQ(localDim(w.dim("abc"), w.mesh(), Dim(7), w.dims), localDim(w.dim("b"), w.mesh(), Dim(7), w.dims));
  EXPECT_EQ(localDim(w.dim("cba"), w.mesh(), Dim(8), w.dims), Dim(2));
}
