#include "Support.h"
#include <gtest/gtest.h>
#include <random>

using namespace dtc;
using namespace dtc::test;

namespace {
std::vector<int64_t> held(const DimSharding& d, const Mesh& mesh, int64_t n, int64_t coordinate) {
  std::vector<int64_t> out;
  for (Interval i : dimShards(d, mesh, n, coordinate))
    for (int64_t x = i.begin; x < i.end; ++x) out.push_back(x);
  return out;
}
} // namespace

TEST(Sharding, PrintsBothStyles) {
  World w({2, 4});
  EXPECT_EQ(w.text(w.sharding({"a", ""}, "b")), "{a, _ | sum(b)}");
  EXPECT_EQ(w.text(w.sharding({"a", ""}, "b"), ShardingStyle::Mesh), "[S(0), P(sum)]");
  EXPECT_EQ(w.text(w.sharding({"2a"})), "{(2, a)}");
  EXPECT_EQ(w.text(w.sharding({"2a"}), ShardingStyle::Mesh), "[S(0, 2), R]");
  EXPECT_EQ(w.text(w.sharding({"ba"})), "{(b, a)}");
  EXPECT_EQ(w.text(w.sharding({"ba"}), ShardingStyle::Mesh), "[S(0, 4), S(0)]");
  EXPECT_EQ(w.text(w.sharding({}, "ab", PendingKind::Max)), "{| max(a, b)}");
  EXPECT_EQ(w.text(w.sharding({})), "{}");
  Sharding s = w.sharding({"a", "", ""});
  s.dims[0].open = true;
  s.dims[0].priority = 0;
  s.dims[1].open = true;
  s.replicated = {w.axis('b', 2, 2)};
  EXPECT_EQ(w.text(s), "{a? p0, ?, _ | rep(b:(2)2)}");
  EXPECT_EQ(w.text(s, ShardingStyle::Mesh), w.text(s));
}

TEST(Sharding, InternedInCanonicalOrder) {
  World w({2, 4});
  Sharding s = w.sharding({""}), t = s;
  s.pending = {{w.axis('b', 2, 2), PendingKind::Sum},
               {w.axis('a'), PendingKind::Sum},
               {w.axis('b', 1, 2), PendingKind::Sum}};
  t.pending = {{w.axis('a'), PendingKind::Sum}, {w.axis('b'), PendingKind::Sum}};
  EXPECT_EQ(w.table.intern(s), w.table.intern(t));
  t.pending[0].kind = PendingKind::Avg;
  EXPECT_NE(w.table.intern(s), w.table.intern(t));
}

// Applying the placements one mesh axis at a time, each to the shard left by those before, gives the elements that the
// dim-style list gives: all lists of placements on one dim of 24 over a 2x3x2 mesh.
TEST(Placements, MeanTheSameShards) {
  World w({2, 3, 2});
  const std::vector<int64_t> blocks = {0, 1, 2, 3, 4, 6}; // 0: R
  int checked = 0;
  for (int64_t x : blocks)
    for (int64_t y : blocks)
      for (int64_t z : blocks) {
        std::vector<Placement> p(3);
        int i = 0;
        for (int64_t b : {x, y, z}) {
          if (b) p[static_cast<size_t>(i)] = {Placement::S, 0, b, PendingKind::None};
          ++i;
        }
        auto s = fromPlacements(p, w.id, w.mesh(), 1);
        if (!s) continue;
        const int64_t n = 144 * 6; // divisible whatever the blocks
        for (int64_t coordinate = 0; coordinate < 12; ++coordinate) {
          std::vector<int64_t> mine(static_cast<size_t>(n));
          for (size_t e = 0; e < mine.size(); ++e) mine[e] = static_cast<int64_t>(e);
          for (size_t a = 0; a < 3; ++a) {
            if (p[a].kind != Placement::S) continue;
            const int64_t k = w.mesh().axes[a].size,
                          index = w.mesh().indexAlong(AxisRef{w.mesh().axes[a].name}, coordinate);
            std::vector<int64_t> next;
            const auto len = static_cast<int64_t>(mine.size()) / p[a].blocks;
            for (int64_t b = 0; b < p[a].blocks; ++b)
              for (int64_t e = len * index / k; e < len * (index + 1) / k; ++e)
                next.push_back(mine[static_cast<size_t>(b * len + e)]);
            mine = std::move(next);
          }
          EXPECT_EQ(held(s->dims[0], w.mesh(), n, coordinate), mine) << w.text(*s);
        }
        ++checked;
      }
  EXPECT_GT(checked, 100);
}

// What mesh style can say comes back; and every list of whole axes can be said.
TEST(Placements, RoundTrip) {
  World w({2, 3, 4});
  for (std::string_view d0 :
       {"", "a", "b", "ab", "ba", "abc", "acb", "bac", "bca", "cab", "cba", "2a", "a2c", "2b"})
    for (std::string_view d1 : {"", "a", "b", "c", "cb", "3c"}) {
      if (d0.find_first_of(d1.substr(d1.find_first_not_of("0123456789") + (d1.empty() ? 1 : 0))) != d0.npos)
        continue;
      const Sharding s = w.sharding({d0, d1});
      const auto p = toPlacements(s, w.mesh());
      ASSERT_TRUE(p) << w.text(s);
      EXPECT_EQ(fromPlacements(*p, w.id, w.mesh(), 2), s) << w.text(s);
    }
}

TEST(Validate, SaidInWords) {
  World w({2, 4});
  const std::vector<Dim> shape = {Dim(8), Dim(6)};
  auto problem = [&](Sharding s) { return validateSharding(s, w.mesh(), shape, w.dims, w.strings); };
  EXPECT_EQ(problem(w.sharding({"a", "b"})), "");
  EXPECT_EQ(problem(w.sharding({"a"})), "the sharding has 1 entry, the tensor has 2 dims");
  EXPECT_EQ(problem(w.sharding({"x", ""})), "mesh @m has no axis 'x': its axes are a, b");
  EXPECT_EQ(problem(w.sharding({"a", "a"})), "axis 'a' is used twice in this sharding");
  EXPECT_EQ(problem(w.sharding({"a", "b"}, "b")), "axis 'b' is used twice in this sharding");
  EXPECT_EQ(problem(w.sharding({"", "4a"})),
            "dim 1 is sharded in 8 equal blocks, but they do not divide its size 6");
  EXPECT_EQ(problem(w.sharding({"4a", ""})), "");
  Sharding s = w.sharding({"", ""}, "a");
  s.pending.push_back({w.axis('b'), PendingKind::Max});
  EXPECT_EQ(problem(s), "a value cannot be pending by 'sum' and by 'max' at once: reduce one of them first");
  s.pending[1].kind = PendingKind::Avg;
  EXPECT_EQ(problem(s), "");
  s = w.sharding({"", ""});
  s.dims[0].parts = {{w.axis('b', 1, 2), 0}};
  s.dims[1].parts = {{w.axis('b'), 0}};
  EXPECT_EQ(problem(s), "'b:(1)2' and 'b' overlap");
  s.dims[1].parts = {{w.axis('b', 1, 3), 0}};
  EXPECT_EQ(problem(s),
            "sub-axis 'b:(1)3' does not divide its axis: 1 * 3 does not divide the 4 devices of axis 'b'");
}
