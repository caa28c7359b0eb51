// The laws of the layout algebra, over random layouts, against the definition: offsets of linear indices.
#include "dtc/Support/Layout.h"
#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <random>

using namespace dtc;

namespace {

using Random = std::mt19937;
int64_t pick(Random& r, int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(r); }

// Leaves of small sizes with the strides of some order of them, at times with gaps, repeats and overlaps; grouped at random.
Layout randomLayout(Random& r, bool injective) {
  const size_t n = static_cast<size_t>(pick(r, 1, 4));
  std::vector<int64_t> shape(n), stride(n);
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i)
    shape[i] = std::array<int64_t, 6>{1, 2, 2, 3, 4, 6}[static_cast<size_t>(pick(r, 0, 5))], order[i] = i;
  std::shuffle(order.begin(), order.end(), r);
  int64_t next = 1;
  for (size_t i : order) {
    if (pick(r, 0, 4) == 0) next *= pick(r, 1, 3);
    stride[i] = next;
    next *= shape[i];
    if (!injective && pick(r, 0, 5) == 0) stride[i] = pick(r, 0, 5);
  }
  std::vector<Layout> modes;
  for (size_t i = 0; i < n; ++i) {
    if (!modes.empty() && pick(r, 0, 2) == 0)
      modes.back() = Layout({modes.back(), Layout(shape[i], stride[i])});
    else
      modes.emplace_back(shape[i], stride[i]);
  }
  return Layout(std::move(modes));
}

std::vector<int64_t> offsets(const Layout& l) {
  std::vector<int64_t> r;
  for (int64_t i = 0; i < l.size(); ++i) r.push_back(l(i));
  return r;
}

size_t leavesOf(const Layout& l) {
  if (l.isLeaf()) return 1;
  size_t n = 0;
  for (const Layout& mode : l.modes()) n += leavesOf(mode);
  return n;
}

constexpr int kTrials = 1500;

} // namespace

TEST(Layout, TextAndValues) {
  const int64_t shape[] = {4, 6};
  const Layout l = rowMajor(shape);
  EXPECT_EQ(layoutText(l), "(4, 6):(6, 1)");
  EXPECT_EQ(layoutText(Layout({Layout(4, 6), Layout({Layout(2, 3), Layout(3, 1)})})),
            "(4, (2, 3)):(6, (3, 1))");
  EXPECT_EQ(layoutText(Layout(std::vector<Layout>{})), "():()");
  EXPECT_EQ(l.size(), 24);
  EXPECT_EQ(l.cosize(), 24);
  const int64_t at[] = {2, 5};
  EXPECT_EQ(l(at), 17);
  EXPECT_EQ(layoutText(coalesce(l)), "24:1");
  EXPECT_EQ(Layout(0, 1).cosize(), 0);
}

TEST(Layout, CoalesceKeepsEveryOffset) {
  Random r(1);
  for (int t = 0; t < kTrials; ++t) {
    const Layout a = randomLayout(r, false), c = coalesce(a);
    EXPECT_EQ(offsets(a), offsets(c)) << layoutText(a);
    EXPECT_EQ(c, coalesce(c)) << layoutText(a);
    EXPECT_LE(leavesOf(c), leavesOf(a));
  }
}

TEST(Layout, CompositionIsComposition) {
  Random r(2);
  int defined = 0, associated = 0;
  for (int t = 0; t < kTrials; ++t) {
    const Layout a = randomLayout(r, false), b = randomLayout(r, false), c = randomLayout(r, true);
    const std::optional<Layout> ab = composition(a, b);
    if (!ab) continue;
    ++defined;
    ASSERT_EQ(ab->size(), b.size());
    ASSERT_EQ(ab->rank(), b.rank()); // compatible: every mode of b is a mode of the result
    for (int64_t i = 0; i < b.size(); ++i)
      ASSERT_EQ((*ab)(i), a(b(i))) << layoutText(a) << " o " << layoutText(b) << " = " << layoutText(*ab);
    const std::optional<Layout> bc = composition(b, c);
    const std::optional<Layout> left = composition(*ab, c), right = bc ? composition(a, *bc) : std::nullopt;
    if (!left || !right) continue;
    ++associated;
    ASSERT_EQ(offsets(*left), offsets(*right))
        << layoutText(a) << " o " << layoutText(b) << " o " << layoutText(c);
  }
  EXPECT_GT(defined, kTrials / 20);
  EXPECT_GT(associated, 20);
}

TEST(Layout, CompositionIsTotalWhereNothingCarries) {
  const Layout rows({Layout(4, 6), Layout(6, 1)});
  EXPECT_EQ(layoutText(*composition(rows, Layout(12, 2))), "12:2"); // one walk
  const Layout columns({Layout(4, 1), Layout(6, 4)});
  EXPECT_EQ(layoutText(*composition(columns, Layout(12, 2))), "(4, 3):(1, 8)");
  EXPECT_FALSE(composition(columns, Layout(6, 4)));                         // 4 does not divide 6
  EXPECT_FALSE(composition(columns, Layout({Layout(6, 1), Layout(2, 1)}))); // 5 + 1 carries
  EXPECT_FALSE(composition(columns, Layout(7, 4)));                         // past the end
}

TEST(Layout, ViewsOfTensors) {
  const int64_t shape[] = {2, 3, 4}, joined[] = {6, 4}, split[] = {4, 3, 2}, half[] = {2, 2, 6};
  const Layout l = rowMajor(shape), t({l.mode(2), l.mode(0), l.mode(1)});
  EXPECT_EQ(layoutText(t), "(4, 2, 3):(1, 12, 4)");
  EXPECT_EQ(layoutText(*reshaped(l, joined)), "(6, 4):(4, 1)");
  const int64_t back[] = {4, 6};
  EXPECT_EQ(layoutText(*reshaped(t, back)), "(4, 6):(1, 4)");        // a matrix, transposed
  EXPECT_EQ(layoutText(*reshaped(l, split)), "(4, 3, 2):(6, 2, 1)"); // dense: any shape
  EXPECT_EQ(layoutText(*reshaped(t, half)), "(2, 2, 6):(2, 1, 4)");
  const int64_t no[] = {3, 8};
  EXPECT_FALSE(reshaped(t, no)); // needs a copy
}

TEST(Layout, SlicesAreSlices) {
  Random r(7);
  int defined = 0;
  for (int t = 0; t < kTrials; ++t) {
    const Layout a = randomLayout(r, true);
    const size_t dim = static_cast<size_t>(pick(r, 0, static_cast<int64_t>(a.rank()) - 1));
    const int64_t n = a.mode(dim).size(), begin = pick(r, 0, n - 1), step = pick(r, 1, 3),
                  count = pick(r, 0, (n - 1 - begin) / step + 1);
    const std::optional<LayoutPart> s = sliceOf(a, dim, begin, count, step);
    if (!s) continue;
    ++defined;
    std::vector<int64_t> at(a.rank(), 0);
    for (int64_t i = 0; i < count; ++i) {
      at[dim] = i;
      const int64_t mine = s->offset + s->layout(at);
      at[dim] = begin + i * step;
      ASSERT_EQ(mine, a(at)) << layoutText(a) << " dim " << dim << " from " << begin << " by " << step;
    }
  }
  EXPECT_GT(defined, kTrials / 2);
}
