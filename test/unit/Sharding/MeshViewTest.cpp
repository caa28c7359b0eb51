#include "dtc/Sharding/MeshView.h"
#include "Support.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace dtc;
using namespace dtc::test;

namespace {

struct Meshes {
  StringTable strings;
  Mesh make(char first, const std::vector<int64_t>& sizes, std::vector<int64_t> devices = {}) {
    Mesh m;
    m.name = strings.intern("m");
    for (int64_t s : sizes) m.axes.push_back({strings.intern(std::string_view(&first, 1)), s}), ++first;
    m.devices = std::move(devices);
    return m;
  }
  // "x: (a, b:(1)2), y: b:(2)2"
  std::string text(const Mesh& seen, const MeshView& v) {
    std::string out;
    for (size_t i = 0; i < seen.axes.size(); ++i) {
      out += (i ? ", " : "") + std::string(strings[seen.axes[i].name]) + ":";
      for (const AxisRef& a : v.axes[i]) out += " " + printAxis(a, strings);
    }
    return out;
  }
};

int64_t placeOfDevice(const Mesh& m, int64_t device) {
  if (m.devices.empty()) return device;
  return std::find(m.devices.begin(), m.devices.end(), device) - m.devices.begin();
}

// On every device the same index along each axis and along what it is seen as.
void expectFaithful(const Mesh& seen, const Mesh& on, const MeshView& v) {
  for (int64_t device = 0; device < seen.numDevices(); ++device)
    for (size_t a = 0; a < seen.axes.size(); ++a)
      EXPECT_EQ(on.indexAlong(v.axes[a], placeOfDevice(on, device)),
                seen.indexAlong(AxisRef{seen.axes[a].name}, placeOfDevice(seen, device)));
}

} // namespace

TEST(MeshView, OtherFactorsAreSubAxes) {
  Meshes w;
  const Mesh on = w.make('a', {2, 4});
  auto seen = [&](const Mesh& m) {
    const auto v = viewMesh(m, on);
    EXPECT_TRUE(v && v->sameDevices);
    expectFaithful(m, on, *v);
    return w.text(m, *v);
  };
  EXPECT_EQ(seen(w.make('x', {4, 2})), "x: a b:(1)2, y: b:(2)2");
  EXPECT_EQ(seen(w.make('x', {8})), "x: a b");
  EXPECT_EQ(seen(w.make('x', {2, 2, 2})), "x: a, y: b:(1)2, z: b:(2)2");
  EXPECT_EQ(seen(w.make('x', {2, 1, 4})), "x: a, y:, z: b");
  // The same devices in column order: the axes change places.
  EXPECT_EQ(seen(w.make('x', {4, 2}, {0, 4, 1, 5, 2, 6, 3, 7})), "x: b, y: a");
  // The minor half of b major to all else.
  EXPECT_EQ(seen(w.make('x', {2, 4}, {0, 2, 4, 6, 1, 3, 5, 7})), "x: b:(2)2, y: a b:(1)2");
}

TEST(MeshView, InexpressibleOrdersAreRenumbered) {
  Meshes w;
  const Mesh on = w.make('a', {2, 3});
  const auto v = viewMesh(w.make('x', {3, 2}), on);
  ASSERT_TRUE(v);
  EXPECT_FALSE(v->sameDevices);
  EXPECT_EQ(w.text(w.make('x', {3, 2}), *v), "x: b, y: a");
  EXPECT_FALSE(viewMesh(w.make('x', {5}), on));
  EXPECT_FALSE(viewMesh(w.make('x', {6}, {1, 2, 3, 4, 5, 6}), on));
}

TEST(MeshView, RandomMeshesOverTheSameDevices) {
  Meshes w;
  std::mt19937 rng(4);
  const std::vector<std::vector<int64_t>> factors = {{24},      {2, 12},      {12, 2}, {4, 6},
                                                     {2, 3, 4}, {3, 2, 2, 2}, {8, 3}};
  int faithful = 0;
  for (int i = 0; i < 300; ++i) {
    const auto& sizes = factors[rng() % factors.size()];
    const Mesh on = w.make('a', factors[rng() % factors.size()]);
    // The devices of a row-major mesh read in another order of its axes; or any order.
    std::vector<int64_t> devices(24);
    if (rng() % 4 == 0) {
      std::iota(devices.begin(), devices.end(), 0);
      std::shuffle(devices.begin(), devices.end(), rng);
    } else {
      std::vector<int64_t> order = factors[rng() % factors.size()], strides(order.size(), 1);
      for (size_t k = order.size() - 1; k > 0; --k) strides[k - 1] = strides[k] * order[k];
      std::vector<size_t> axes(order.size());
      std::iota(axes.begin(), axes.end(), 0);
      std::shuffle(axes.begin(), axes.end(), rng);
      for (int64_t p = 0; p < 24; ++p) {
        int64_t rest = p, device = 0;
        for (size_t k = axes.size(); k-- > 0; rest /= order[axes[k]])
          device += rest % order[axes[k]] * strides[axes[k]];
        devices[static_cast<size_t>(p)] = device;
      }
    }
    const Mesh seen = w.make('p', sizes, devices);
    const auto v = viewMesh(seen, on);
    ASSERT_TRUE(v);
    std::vector<AxisRef> all;
    for (size_t a = 0; a < seen.axes.size(); ++a) {
      EXPECT_EQ(on.sizeOf(v->axes[a]), seen.axes[a].size);
      all.insert(all.end(), v->axes[a].begin(), v->axes[a].end());
    }
    for (size_t a = 0; a < all.size(); ++a)
      for (size_t b = 0; b < a; ++b) EXPECT_FALSE(overlaps(all[a], all[b], on));
    if (!v->sameDevices) continue;
    ++faithful;
    expectFaithful(seen, on, *v);
  }
  EXPECT_GT(faithful, 60);
}

// A device's shard of a tensor is the same by the sharding and by its view on another mesh.
TEST(MeshView, ShardsStay) {
  Meshes w;
  const Mesh on = w.make('a', {2, 4}), seen = w.make('x', {4, 2});
  const auto v = viewMesh(seen, on);
  ASSERT_TRUE(v);
  const AxisRef x{w.strings.intern("x")}, y{w.strings.intern("y")}, half{x.name, 2, 2};
  for (const std::vector<DimPart>& parts :
       {std::vector<DimPart>{{x, 0}}, {{y, 0}, {x, 0}}, {{half, 0}, {y, 0}}, {{{}, 2}, {y, 0}}}) {
    Sharding s{MeshId(0), {{}}, {{AxisRef{x.name, 1, 2}, PendingKind::Max}}, {}};
    for (const DimPart& p : parts) s.dims[0].parts.push_back(p);
    const auto t = throughView(s, seen, *v, MeshId(1), on);
    ASSERT_TRUE(t);
    for (int64_t p = 0; p < 8; ++p)
      EXPECT_EQ(dimShards(t->dims[0], on, 16, p), dimShards(s.dims[0], seen, 16, p));
    EXPECT_EQ(t->pending.size(), 1u);
  }
}
