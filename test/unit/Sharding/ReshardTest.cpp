#include "dtc/Sharding/Reshard.h"
#include "Support.h"
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace dtc;
using namespace dtc::test;

namespace {

// A small dense array of numbers; what one device holds.
struct Local {
  std::vector<int64_t> shape, data;
};

int64_t count(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}
int64_t product(const std::vector<int64_t>& s, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= s[i];
  return n;
}

Local part(const Local& x, size_t dim, int64_t begin, int64_t end) {
  Local out{x.shape, {}};
  out.shape[dim] = end - begin;
  const int64_t outer = product(x.shape, 0, dim), inner = product(x.shape, dim + 1, x.shape.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < inner; ++j)
        out.data.push_back(x.data[static_cast<size_t>((o * x.shape[dim] + i) * inner + j)]);
  return out;
}

Local concat(const std::vector<Local>& shards, size_t dim) {
  Local out{shards[0].shape, {}};
  out.shape[dim] = 0;
  for (const Local& p : shards) out.shape[dim] += p.shape[dim];
  const int64_t outer = product(out.shape, 0, dim);
  for (int64_t o = 0; o < outer; ++o)
    for (const Local& p : shards) {
      const int64_t row = product(p.shape, dim, p.shape.size());
      out.data.insert(out.data.end(), p.data.begin() + o * row, p.data.begin() + (o + 1) * row);
    }
  return out;
}

int64_t combine(PendingKind k, int64_t a, int64_t b) {
  if (k == PendingKind::Sum) return a + b;
  if (k == PendingKind::Prod) return a * b;
  return k == PendingKind::Max ? std::max(a, b) : std::min(a, b);
}
int64_t neutral(PendingKind k, int64_t kept) {
  return k == PendingKind::Sum ? 0 : k == PendingKind::Prod ? 1 : kept;
}

struct Simulator {
  const Mesh& mesh;
  const std::vector<int64_t>& shape;
  std::vector<Local> devices = {};

  // The interval of a slot of its operand that device `coordinate` gets. Uneven dims: of the shard that it has and will have.
  Interval shardedOf(const ReshardStep& s, const Sharding& before, size_t coordinate, int64_t slotSize,
                     int64_t index) const {
    const auto d = static_cast<size_t>(s.split.dim);
    if (!viewSplits(s, s.split.dim).empty() || before.dims[d].strided())
      return shardInterval(slotSize, mesh.sizeOf(s.axes), index);
    std::vector<Interval> mine = dimShards(before.dims[d], mesh, shape[d], static_cast<int64_t>(coordinate));
    DimSharding finer = before.dims[d];
    for (const AxisRef& a : s.axes) {
      // An axis that leaves this dim shards it again: only for even dims, whose shards compose.
      for (const DimPart& p : finer.parts)
        if (overlaps(p.axis, a, mesh)) return shardInterval(slotSize, mesh.sizeOf(s.axes), index);
    }
    for (const AxisRef& a : s.axes) finer.parts.push_back({a, 0});
    const auto group = mesh.groupOf(s.axes, static_cast<int64_t>(coordinate));
    std::vector<Interval> wanted = dimShards(finer, mesh, shape[d], group[static_cast<size_t>(index)]);
    return {wanted[0].begin - mine[0].begin, wanted[0].end - mine[0].begin};
  }

  // The operand of a step in the step's view; the slot's dim in it.
  static Local viewed(const ReshardStep& s, const Local& x) {
    Local v{{}, x.data};
    for (size_t d = 0; d < x.shape.size(); ++d) {
      int64_t at = 1;
      for (int64_t split : viewSplits(s, static_cast<int>(d))) {
        EXPECT_EQ(split % at, 0);
        v.shape.push_back(split / at);
        at = split;
      }
      EXPECT_EQ(x.shape[d] % at, 0);
      v.shape.push_back(x.shape[d] / at);
    }
    return v;
  }
  static size_t slotDim(const ReshardStep& s, const StepSlot& slot) {
    size_t at = 0;
    for (int d = 0; d < slot.dim; ++d) at += viewSplits(s, d).size() + 1;
    for (int64_t split : viewSplits(s, slot.dim)) at += split <= slot.before;
    return at;
  }

  void run(const ReshardStep& s, const Sharding& before) {
    std::vector<Local> in;
    for (const Local& x : devices) in.push_back(viewed(s, x));
    std::vector<Local> out(in.size());
    for (size_t p = 0; p < in.size(); ++p) {
      const auto group = mesh.groupOf(s.axes, static_cast<int64_t>(p));
      const int64_t me = mesh.indexAlong(s.axes, static_cast<int64_t>(p));
      auto sliceOf = [&](const Local& x, size_t from, int64_t index) {
        const size_t dim = slotDim(s, s.split);
        const Interval i = shardedOf(s, before, from, x.shape[dim], index);
        return part(x, dim, i.begin, i.end);
      };
      auto reduce = [&] {
        Local sum = in[static_cast<size_t>(group[0])];
        for (size_t g = 1; g < group.size(); ++g)
          for (size_t e = 0; e < sum.data.size(); ++e)
            sum.data[e] = combine(s.op, sum.data[e], in[static_cast<size_t>(group[g])].data[e]);
        return sum;
      };
      std::vector<Local> shards;
      switch (s.kind) {
      case StepKind::AllGather:
        for (int64_t g : group) shards.push_back(in[static_cast<size_t>(g)]);
        out[p] = concat(shards, slotDim(s, s.concat));
        break;
      case StepKind::AllSlice: out[p] = sliceOf(in[p], p, me); break;
      case StepKind::AllToAll:
        for (int64_t g : group)
          shards.push_back(sliceOf(in[static_cast<size_t>(g)], static_cast<size_t>(g), me));
        out[p] = concat(shards, slotDim(s, s.concat));
        break;
      case StepKind::AllReduce: out[p] = reduce(); break;
      case StepKind::ReduceScatter: out[p] = sliceOf(reduce(), p, me); break;
      case StepKind::Permute:
        for (auto [from, to] : s.pairs)
          if (to == me) out[p] = in[static_cast<size_t>(group[static_cast<size_t>(from)])];
        break;
      case StepKind::MakePending:
        out[p] = in[p];
        if (me != 0)
          for (int64_t& v : out[p].data) v = neutral(s.op, v);
        break;
      }
      out[p].shape = localShape(s.result, mesh, shape, static_cast<int64_t>(p));
      EXPECT_EQ(count(out[p].shape), static_cast<int64_t>(out[p].data.size())) << stepName(s.kind);
    }
    devices = std::move(out);
  }
};

Local shardOf(const Local& global, const Sharding& s, const Mesh& mesh, int64_t coordinate) {
  Local x = global;
  for (size_t d = 0; d < s.dims.size(); ++d) {
    std::vector<Local> parts;
    for (Interval i : dimShards(s.dims[d], mesh, global.shape[d], coordinate))
      parts.push_back(part(x, d, i.begin, i.end));
    x = concat(parts, d);
  }
  return x;
}

std::vector<AxisRef> pendingAxes(const Sharding& s) {
  std::vector<AxisRef> axes;
  for (const PendingAxis& p : s.pending) axes.push_back(p.axis);
  return axes;
}

// Random sharding of `shape` over the world's mesh, closed, valid.
Sharding randomSharding(World& w, const std::vector<int64_t>& shape, PendingKind kind, std::mt19937& rng,
                        bool plain = false) {
  std::vector<Dim> dims(shape.begin(), shape.end());
  while (true) {
    Sharding s;
    s.mesh = w.id;
    s.dims.resize(shape.size());
    std::vector<AxisRef> axes;
    for (const MeshAxis& a : w.mesh().axes) {
      if (!plain && a.size % 2 == 0 && a.size > 2 && rng() % 2) {
        axes.push_back({a.name, 1, 2});
        axes.push_back({a.name, 2, a.size / 2});
      } else {
        axes.push_back({a.name});
      }
    }
    std::shuffle(axes.begin(), axes.end(), rng);
    for (const AxisRef& a : axes) {
      const size_t where = rng() % (shape.size() + 2);
      if (where < shape.size()) {
        if (!plain && rng() % 6 == 0) s.dims[where].parts.push_back({{}, 2});
        s.dims[where].parts.push_back({a, 0});
      } else if (where == shape.size() && kind != PendingKind::None) {
        s.pending.push_back({a, kind});
      }
    }
    s = w.table[w.table.intern(std::move(s))];
    if (validateSharding(s, w.mesh(), dims, w.dims, w.strings).empty()) return s;
  }
}

// Each device's shard of a random tensor that is `global` once its pending axes are reduced.
std::vector<Local> scatter(const Local& global, const Sharding& s, const Mesh& mesh, std::mt19937& rng) {
  const auto axes = pendingAxes(s);
  const PendingKind kind = s.pendingKind();
  std::vector<Local> parts; // by index along the pending axes
  const int64_t k = mesh.sizeOf(axes);
  for (int64_t i = 0; i < k; ++i) {
    Local x = global;
    if (i > 0)
      for (size_t e = 0; e < x.data.size(); ++e) {
        const auto r = static_cast<int64_t>(rng() % 10);
        if (kind == PendingKind::Sum) x.data[e] = r, parts[0].data[e] -= r;
        if (kind == PendingKind::Prod) x.data[e] = 1;
        if (kind == PendingKind::Max) x.data[e] -= r;
        if (kind == PendingKind::Min) x.data[e] += r;
      }
    parts.push_back(std::move(x));
  }
  std::vector<Local> out;
  for (int64_t p = 0; p < mesh.numDevices(); ++p)
    out.push_back(shardOf(parts[static_cast<size_t>(mesh.indexAlong(axes, p))], s, mesh, p));
  return out;
}

void expectHolds(const std::vector<Local>& devices, const Local& global, const Sharding& s, const Mesh& mesh,
                 const std::string& what) {
  const auto axes = pendingAxes(s);
  for (int64_t p = 0; p < mesh.numDevices(); ++p) {
    Local sum = devices[static_cast<size_t>(p)];
    const Local want = shardOf(global, s, mesh, p);
    if (!axes.empty()) {
      const auto group = mesh.groupOf(axes, p);
      sum = devices[static_cast<size_t>(group[0])];
      for (size_t g = 1; g < group.size(); ++g)
        for (size_t e = 0; e < sum.data.size(); ++e)
          sum.data[e] = combine(s.pendingKind(), sum.data[e], devices[static_cast<size_t>(group[g])].data[e]);
    }
    ASSERT_EQ(sum.shape, want.shape) << what;
    ASSERT_EQ(sum.data, want.data) << what << " device " << p;
  }
}

std::string planText(World& w, const Sharding& from, const ReshardPlan& plan) {
  std::string s = w.text(from);
  for (const ReshardStep& step : plan.steps) {
    s += " " + std::string(stepName(step.kind)) + "(";
    for (size_t i = 0; i < step.axes.size(); ++i) s += (i ? ", " : "") + printAxis(step.axes[i], w.strings);
    s += ") " + w.text(step.result);
  }
  return s;
}

ReshardPlan plan(World& w, const Sharding& a, const Sharding& b, const std::vector<int64_t>& shape) {
  return planReshard(a, b, w.mesh(), plannedSizes(shape), DType::F32);
}

} // namespace

TEST(Reshard, OneStepWhereOneDoes) {
  World w({2, 4});
  auto text = [&](const Sharding& a, const Sharding& b, std::vector<int64_t> shape = {64, 64}) {
    return planText(w, a, plan(w, a, b, shape));
  };
  EXPECT_EQ(text(w.sharding({"a", ""}, "b"), w.sharding({"a", ""})), "{a, _ | sum(b)} all_reduce(b) {a, _}");
  EXPECT_EQ(text(w.sharding({"", ""}, "ab"), w.sharding({"", ""})),
            "{_, _ | sum(a, b)} all_reduce(a, b) {_, _}");
  EXPECT_EQ(text(w.sharding({"", ""}, "b"), w.sharding({"b", ""})),
            "{_, _ | sum(b)} reduce_scatter(b) {b, _}");
  EXPECT_EQ(text(w.sharding({"", "b"}), w.sharding({"b", ""})), "{_, b} all_to_all(b) {b, _}");
  EXPECT_EQ(text(w.sharding({"ab", ""}), w.sharding({"", ""})), "{(a, b), _} all_gather(a, b) {_, _}");
  EXPECT_EQ(text(w.sharding({"a", ""}), w.sharding({"ab", ""})), "{a, _} all_slice(b) {(a, b), _}");
  EXPECT_EQ(text(w.sharding({"ab", ""}), w.sharding({"ba", ""})), "{(a, b), _} permute(a, b) {(b, a), _}");
  EXPECT_EQ(text(w.sharding({"", ""}), w.sharding({"", ""}, "b")), "{_, _} make_pending(b) {_, _ | sum(b)}");
  EXPECT_EQ(text(w.sharding({"2a", ""}), w.sharding({"a", ""})), "{(2, a), _} all_to_all(a) {a, _}");
  EXPECT_EQ(text(w.sharding({"2a", ""}), w.sharding({"", ""})), "{(2, a), _} all_gather(a) {_, _}");
  EXPECT_EQ(text(w.sharding({"", ""}), w.sharding({"2a", ""})), "{_, _} all_slice(a) {(2, a), _}");
}

TEST(Reshard, NeverReplicatesWhereABoundedPathExists) {
  World w({2, 4});
  const std::vector<int64_t> shape = {64, 64};
  for (auto [a, b] : {std::pair(w.sharding({"a", "b"}), w.sharding({"b", "a"})),
                      std::pair(w.sharding({"ab", ""}), w.sharding({"", "ba"})),
                      std::pair(w.sharding({"a", ""}), w.sharding({"b", ""}))}) {
    const ReshardPlan p = plan(w, a, b, shape);
    int64_t largest = 0;
    for (const Sharding* s : {&a, &b})
      largest = std::max(largest, count(localShape(*s, w.mesh(), shape, 0)) * 4);
    EXPECT_LE(p.peakBytes, 2 * largest) << planText(w, a, p);
  }
}

// The steps, executed on index sets, put exactly the right elements everywhere: random pairs, uneven sizes, sub-axes,
// strided lists, every pending kind.
TEST(Reshard, PlansMoveTheRightElements) {
  std::mt19937 rng(1);
  for (std::vector<int64_t> sizes :
       {std::vector<int64_t>{2}, {3}, {4}, {2, 3}, {4, 2}, {2, 2}, {2, 3, 2}, {2, 1, 4}}) {
    World w({});
    char name = 'a';
    for (int64_t s : sizes)
      w.table.mesh(w.id).axes.push_back({w.strings.intern(std::string_view(&name, 1)), s}), ++name;
    for (std::vector<int64_t> shape : {std::vector<int64_t>{8, 12}, {7, 5}, {24}, {3, 16, 2}, {1, 0}}) {
      for (int i = 0; i < 60; ++i) {
        const auto kind = std::vector{PendingKind::None, PendingKind::Sum, PendingKind::Prod,
                                      PendingKind::Max, PendingKind::Min}[rng() % 5];
        const Sharding from = randomSharding(w, shape, kind, rng), to = randomSharding(w, shape, kind, rng);
        const ReshardPlan p = plan(w, from, to, shape);
        Local global{shape, {}};
        for (int64_t e = 0; e < count(shape); ++e) global.data.push_back(static_cast<int64_t>(rng() % 1000));
        Simulator sim{w.mesh(), shape, scatter(global, from, w.mesh(), rng)};
        Sharding at = from;
        const std::string what = planText(w, from, p);
        for (const ReshardStep& step : p.steps) {
          const std::vector<Dim> dims(shape.begin(), shape.end());
          ASSERT_EQ(validateSharding(step.result, w.mesh(), dims, w.dims, w.strings), "") << what;
          sim.run(step, at);
          at = step.result;
          expectHolds(sim.devices, global, at, w.mesh(), what + " at " + w.text(at));
          if (testing::Test::HasFatalFailure()) return;
        }
        EXPECT_EQ(w.table.intern(at), w.table.intern(to)) << what << " wanted " << w.text(to);
      }
    }
  }
}

// Plans use the axes of their two ends only (an axis that replicates both is no scratch space), and hold no more than the
// larger of the two: so the way around may use no others and hold no more.
TEST(Reshard, PricesObeyTheTriangleInequality) {
  struct Case {
    std::initializer_list<int64_t> sizes;
    std::vector<int64_t> shape;
  };
  for (const auto& [sizes, shape] :
       {Case{{2, 4}, {4096, 4096}}, Case{{2, 4, 3}, {768, 1536}}, Case{{2, 2, 2}, {64, 64}},
        Case{{4, 2, 2}, {4096, 4096}}, Case{{2, 3, 2}, {48, 96, 24}}, Case{{2, 2, 4}, {1 << 20}}}) {
    World w(sizes);
    std::mt19937 rng(2);
    auto axesOf = [&](const Sharding& s) {
      std::set<StrId> axes;
      for (const DimSharding& d : s.dims)
        for (const AxisRef& a : d.axes()) axes.insert(a.name);
      for (const PendingAxis& p : s.pending) axes.insert(p.axis.name);
      return axes;
    };
    auto local = [&](const Sharding& s) { return count(localShape(s, w.mesh(), shape, 0)); };
    for (int compared = 0; compared < 200;) {
      const Sharding a = randomSharding(w, shape, PendingKind::Sum, rng, true),
                     b = randomSharding(w, shape, PendingKind::Sum, rng, true),
                     c = randomSharding(w, shape, PendingKind::Sum, rng, true);
      std::set<StrId> ends = axesOf(a), between = axesOf(b);
      ends.merge(axesOf(c));
      if (!std::includes(ends.begin(), ends.end(), between.begin(), between.end()) ||
          local(b) > std::max(local(a), local(c)))
        continue;
      const ReshardPlan direct = plan(w, a, c, shape), first = plan(w, a, b, shape),
                        second = plan(w, b, c, shape);
      EXPECT_LE(direct.price, (first.price + second.price) * (1 + 1e-6)) << planText(w, a, direct) << "\n"
                                                                         << planText(w, a, first) << "\n"
                                                                         << planText(w, b, second);
      ++compared;
    }
  }
}

// A step's operand and result are no larger than the larger of the two ends, on meshes of any sizes.
TEST(Reshard, NothingLargerThanTheEndsIsHeld) {
  for (const auto& sizes : {std::initializer_list<int64_t>{2, 4}, {2, 3}, {2, 2, 3}, {5, 2, 2}}) {
    World w(sizes);
    std::mt19937 rng(3);
    const std::vector<int64_t> shape = {240, 120};
    for (int i = 0; i < 150; ++i) {
      const Sharding a = randomSharding(w, shape, PendingKind::Max, rng, true),
                     b = randomSharding(w, shape, PendingKind::Max, rng, true);
      const ReshardPlan p = plan(w, a, b, shape);
      const int64_t largest =
          4 * std::max(count(localShape(a, w.mesh(), shape, 0)), count(localShape(b, w.mesh(), shape, 0)));
      EXPECT_LE(p.peakBytes, 2 * largest) << planText(w, a, p);
    }
  }
}

// What each device receives, against what is known of the change: n global bytes, k devices along an axis.
TEST(Reshard, ReceivesNoMoreThanTheClosedForm) {
  World w({2, 4, 3});
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{96, 96}, {24, 1200}, {1 << 14, 240}}) {
    const std::vector<int64_t> shape = {rows, columns};
    const double n = 4.0 * static_cast<double>(rows * columns);
    auto sum = [&](std::initializer_list<std::string_view> dims, std::string_view pending) {
      return w.sharding(dims, pending);
    };
    const Sharding replicated = w.sharding({"", ""});
    struct Known {
      Sharding from, to;
      double bytes;
    };
    for (const Known& known : {
             Known{w.sharding({"b", ""}), replicated, n * 3 / 4},                    // all_gather
             Known{w.sharding({"ab", ""}), replicated, n * 7 / 8},                   // over two axes
             Known{w.sharding({"a", "b"}), replicated, n * 7 / 8},                   // of two dims
             Known{w.sharding({"abc", ""}), w.sharding({"a", ""}), n / 2 * 11 / 12}, // of the minor ones
             Known{replicated, w.sharding({"c", "a"}), 0},                           // slices
             Known{replicated, sum({"", ""}, "ab"), 0},                              // made pending
             Known{sum({"", ""}, "b"), replicated, 2 * n * 3 / 4},                   // all_reduce
             Known{sum({"", ""}, "abc"), replicated, 2 * n * 23 / 24},               // over three axes
             Known{sum({"", ""}, "b"), w.sharding({"b", ""}), n * 3 / 4},            // reduce_scatter
             Known{sum({"a", ""}, "b"), w.sharding({"a", "b"}), n / 2 * 3 / 4},      // of a shard
             Known{sum({"", ""}, "ab"), w.sharding({"a", "b"}), n * 7 / 8},        // of two axes, to two dims
             Known{sum({"", ""}, "ab"), sum({"b", ""}, "a"), n * 3 / 4},           // of one of two
             Known{w.sharding({"b", ""}), w.sharding({"", "b"}), n / 4 * 3 / 4},   // all_to_all
             Known{w.sharding({"ab", ""}), w.sharding({"a", "b"}), n / 8 * 3 / 4}, // of the minor axis
             Known{w.sharding({"ab", ""}), w.sharding({"", "ab"}), n / 8 * 7 / 8}, // of both
             Known{w.sharding({"ab", ""}), w.sharding({"ba", ""}), n / 8},         // another order
             Known{w.sharding({"2a", ""}), w.sharding({"a", ""}), n / 2 / 2},      // strided to plain
             Known{w.sharding({"2b", ""}), w.sharding({"b", ""}),
                   n / 4}, // … where some device has nothing of its own
         }) {
      const ReshardPlan p = plan(w, known.from, known.to, shape);
      EXPECT_LE(static_cast<double>(p.bytesReceived), 1.1 * known.bytes + 64) << planText(w, known.from, p);
    }
  }
}

TEST(Reshard, ThePriceIsThatOfTheSteps) {
  World w({2, 4});
  const ReshardPlan p = plan(w, w.sharding({"a", "b"}), w.sharding({"b", "a"}), {64, 64});
  double sum = 0;
  int64_t bytes = 0;
  for (const ReshardStep& s : p.steps) sum += s.price, bytes += s.bytesReceived;
  EXPECT_DOUBLE_EQ(sum, p.price);
  EXPECT_EQ(bytes, p.bytesReceived);
  EXPECT_GT(bytes, 0);
}

// Eighteen axes in reverse order: no list of pairs, no exponential search.
TEST(Reshard, EndsOnLargeMeshes) {
  World w({2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
  const Sharding from = w.sharding({"abcdefghijklmnopqr"}), to = w.sharding({"rqponmlkjihgfedcba"});
  const ReshardPlan p = plan(w, from, to, {1 << 21});
  ASSERT_FALSE(p.steps.empty());
  EXPECT_EQ(w.table.intern(p.steps.back().result), w.table.intern(to));
}
