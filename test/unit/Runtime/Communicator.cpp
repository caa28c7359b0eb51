// The local communicator by itself: uneven shards, exact maxima, narrow sums, sub-axes, devices that receive nothing.
#include "dtc/Runtime/comm/Communicator.h"
#include "dtc/Support/Tensor.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace dtc;

namespace {

struct Setting {
  StringTable strings;
  Mesh mesh;
  explicit Setting(std::vector<std::pair<const char*, int64_t>> axes) {
    for (auto& [name, size] : axes) mesh.axes.push_back({strings.intern(name), size});
  }
  AxisRef axis(const char* name, int64_t pre = 1, int64_t size = 0) {
    return {strings.intern(name), pre, size};
  }

  // One operand per place -> one result per place; `shapes` are those of the results.
  std::vector<Tensor> run(CollectiveSpec spec, const std::vector<Tensor>& in,
                          std::vector<std::vector<int64_t>> shapes) {
    spec.dtype = in[0].dtype();
    if (spec.commDType == DType::F32) spec.commDType = spec.dtype;
    spec.operandShapes.emplace_back();
    for (const Tensor& t : in) spec.operandShapes[0].push_back(t.shape());
    spec.resultShapes = {shapes};
    auto plan = planCollective(spec, mesh);
    EXPECT_TRUE(plan) << plan.error().message;
    std::vector<Tensor> out;
    for (auto& s : shapes) out.emplace_back(spec.dtype, s);
    auto comm = makeLocalCommunicator();
    for (const CollectiveGroup& g : plan->groups) {
      std::vector<const std::byte*> from;
      std::vector<std::byte*> to;
      for (int64_t p : g.coordinates) {
        from.push_back(in[size_t(p)].bytes().data());
        to.push_back(out[size_t(p)].bytes().data());
      }
      for (size_t m = 0; m < g.coordinates.size(); ++m) EXPECT_TRUE(comm->share(*plan, g, m, from, to));
    }
    return out;
  }
};

Tensor tensor(DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
  Tensor t(dtype, std::move(shape));
  for (size_t i = 0; i < values.size(); ++i)
    isFloat(dtype) ? t.setFloat(int64_t(i), values[i]) : t.setInt(int64_t(i), int64_t(values[i]));
  return t;
}
std::vector<double> values(const Tensor& t) {
  std::vector<double> v;
  for (int64_t i = 0; i < t.numElements(); ++i) v.push_back(t.getFloat(i));
  return v;
}
const double kNaN = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

} // namespace

TEST(Communicator, SumsOverOneAxisOfTwo) {
  Setting s({{"a", 2}, {"b", 3}});
  std::vector<Tensor> in;
  for (int p = 0; p < 6; ++p) in.push_back(tensor(DType::I32, {2}, {double(p), 10.0 * p}));
  CollectiveSpec spec;
  spec.axes = {s.axis("b")};
  auto out = s.run(spec, in, std::vector<std::vector<int64_t>>(6, {2}));
  for (int p = 0; p < 6; ++p)
    EXPECT_EQ(values(out[size_t(p)]), (std::vector<double>{p < 3 ? 3.0 : 12.0, p < 3 ? 30.0 : 120.0}));
}

TEST(Communicator, MaximaKeepNaNAndTheSignOfZero) {
  Setting s({{"a", 3}});
  for (DType d : {DType::F32, DType::F64, DType::F16, DType::BF16}) {
    std::vector<Tensor> in = {tensor(d, {4}, {1, kNaN, -0.0, -kInf}), tensor(d, {4}, {kNaN, 2, 0.0, -kInf}),
                              tensor(d, {4}, {3, 4, -0.0, -kInf})};
    CollectiveSpec spec;
    spec.axes = {s.axis("a")};
    spec.op = PendingKind::Max;
    auto out = values(s.run(spec, in, {{4}, {4}, {4}})[1]);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
    EXPECT_FALSE(std::signbit(out[2]));
    EXPECT_EQ(out[3], -kInf);
  }
}

TEST(Communicator, IntegersWrapAndNarrowSumsAreRoundedOnce) {
  Setting s({{"a", 3}});
  CollectiveSpec spec;
  spec.axes = {s.axis("a")};
  auto ints = s.run(spec, std::vector<Tensor>(3, tensor(DType::I8, {1}, {100})), {{1}, {1}, {1}});
  EXPECT_EQ(ints[2].getInt(0), 300 - 256);
  // 256 + 1 + 1 is 258 in f32 and in bf16; with a rounding after each step it would stay 256.
  std::vector<Tensor> in = {tensor(DType::BF16, {1}, {256}), tensor(DType::BF16, {1}, {1}),
                            tensor(DType::BF16, {1}, {1})};
  EXPECT_EQ(s.run(spec, in, {{1}, {1}, {1}})[0].getFloat(0), 258);
}

TEST(Communicator, GatherAndScatterUnevenShards) {
  Setting s({{"b", 3}}); // shards of 11: 3, 4, 4
  std::vector<Tensor> in;
  double next = 0;
  for (int64_t n : {3, 4, 4}) {
    Tensor t(DType::F32, {2, n});
    for (int64_t i = 0; i < 2 * n; ++i) t.setFloat(i, next++);
    in.push_back(t);
  }
  CollectiveSpec gather;
  gather.kind = CollectiveKind::AllGather;
  gather.axes = {s.axis("b")};
  gather.dim = 1;
  auto gathered = s.run(gather, in, {{2, 11}, {2, 11}, {2, 11}});
  EXPECT_EQ(values(gathered[0]), (std::vector<double>{0, 1, 2, 6,  7,  8,  9,  14, 15, 16, 17,
                                                      3, 4, 5, 10, 11, 12, 13, 18, 19, 20, 21}));
  EXPECT_EQ(gathered[0], gathered[2]);
  CollectiveSpec scatter = gather;
  scatter.kind = CollectiveKind::ReduceScatter;
  auto sums = s.run(scatter, gathered, {{2, 3}, {2, 4}, {2, 4}});
  CollectiveSpec slice = gather;
  slice.kind = CollectiveKind::AllSlice;
  auto back = s.run(slice, gathered, {{2, 3}, {2, 4}, {2, 4}});
  for (size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(back[p], in[p]);
    for (int64_t i = 0; i < in[p].numElements(); ++i) EXPECT_EQ(sums[p].getFloat(i), 3 * in[p].getFloat(i));
  }
}

TEST(Communicator, ExchangeIsItsOwnInverse) {
  Setting s({{"a", 2}});
  std::vector<Tensor> in; // 5 x 3 sharded along dim 0: 2 and 3 rows
  double next = 0;
  for (int64_t n : {2, 3}) {
    Tensor t(DType::F64, {n, 3, 2});
    for (int64_t i = 0; i < n * 6; ++i) t.setFloat(i, next++);
    in.push_back(t);
  }
  CollectiveSpec there;
  there.kind = CollectiveKind::AllToAll;
  there.axes = {s.axis("a")};
  there.dim = 1;
  there.concatDim = 0;
  auto sharded = s.run(there, in, {{5, 1, 2}, {5, 2, 2}});
  EXPECT_EQ(values(sharded[0]), (std::vector<double>{0, 1, 6, 7, 12, 13, 18, 19, 24, 25}));
  CollectiveSpec back = there;
  std::swap(back.dim, back.concatDim);
  auto again = s.run(back, sharded, {{2, 3, 2}, {3, 3, 2}});
  EXPECT_EQ(again[0], in[0]);
  EXPECT_EQ(again[1], in[1]);
}

TEST(Communicator, WhoReceivesNothingGetsZeros) {
  Setting s({{"a", 3}});
  std::vector<Tensor> in;
  for (int p = 0; p < 3; ++p) in.push_back(tensor(DType::F32, {1}, {p + 1.0}));
  CollectiveSpec spec;
  spec.kind = CollectiveKind::Permute;
  spec.axes = {s.axis("a")};
  spec.sends = {{0, 0, 1}, {0, 1, 2}};
  auto out = s.run(spec, in, {{1}, {1}, {1}});
  EXPECT_EQ(out[0].getFloat(0), 0);
  EXPECT_EQ(out[1].getFloat(0), 1);
  EXPECT_EQ(out[2].getFloat(0), 2);
}

TEST(Communicator, SubAxesMakeSmallerGroups) {
  Setting s({{"a", 4}});
  std::vector<Tensor> in;
  for (int p = 0; p < 4; ++p) in.push_back(tensor(DType::F32, {1}, {double(1 << p)}));
  CollectiveSpec spec;
  spec.axes = {s.axis("a", 1, 2)}; // the major half of the axis: 0 with 2, 1 with 3
  auto out = s.run(spec, in, {{1}, {1}, {1}, {1}});
  EXPECT_EQ(out[0].getFloat(0), 5);
  EXPECT_EQ(out[3].getFloat(0), 10);
}

TEST(Communicator, ShardsThatDoNotFitAreAnError) {
  Setting s({{"a", 2}});
  CollectiveSpec spec;
  spec.kind = CollectiveKind::AllGather;
  spec.axes = {s.axis("a")};
  spec.operandShapes = {{{2}, {2}}};
  spec.resultShapes = {{{5}, {5}}};
  EXPECT_FALSE(planCollective(spec, s.mesh));
  spec.kind = CollectiveKind::BroadcastFrom;
  spec.root = 7;
  EXPECT_FALSE(planCollective(spec, s.mesh));
}
