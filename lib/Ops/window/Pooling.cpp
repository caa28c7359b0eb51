// avg_pool max_pool: reductions over the windows of an image.
#include "window/Pooling.h"
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Counted.h"
#include "record/CarriedSum.h"
#include "window/Resize.h"
#include "window/Window.h"
#include <algorithm>
#include <cmath>

namespace dtc {

static constexpr int64_t kLargestPooled = int64_t(1) << 31;

bool readPoolSizes(const OpQuery& q, Pools& pools) {
  if (q.type(0).rank() < 3) return reportRank(q, 0, "3 or more");
  pools.assign(q.type(0).rank() - 2, {});
  for (size_t i = 0; i < pools.size(); ++i) {
    const Dim size = q.type(0).dims[i + 2];
    if (!size.isStatic()) return reportShape(q, "needs static spatial sizes, not " + dimText(q, size));
    if (size.value() >= kLargestPooled) return reportShape(q, "has a spatial dim of more than 2^31 elements");
    pools[i].size = size.value();
  }
  return true;
}

bool readPoolList(const OpQuery& q, const char* name, int64_t min, Pools& pools, int64_t Pool::* member) {
  if (!q.rawAttr(name).valid()) return true;
  const std::vector<int64_t> v = q.intsAttr(name);
  const auto wrong = std::ranges::find_if(v, [&](int64_t n) { return n < min || n >= kLargestPooled; });
  if (v.size() == pools.size() && wrong != v.end())
    return reportShape(q, "has " + std::string(name) + " = " + std::to_string(*wrong) + ": expected " +
                              std::to_string(min) + " to " + std::to_string(kLargestPooled - 1));
  if (v.size() != pools.size())
    return reportShape(q, "needs " + std::string(name) + " = [...] with a number of at least " +
                              std::to_string(min) + " for each of " + counted(pools.size(), "spatial dim"));
  for (size_t i = 0; i < v.size(); ++i) pools[i].*member = v[i];
  return true;
}

static bool readPadding(const OpQuery& q, Pools& pools) {
  const AttrId padding = q.rawAttr("padding");
  if (!padding.valid()) return true;
  const AttrTable& attrs = q.module->attrs;
  const std::vector<AttrId>& pairs = attrs[padding].list;
  bool fits = pairs.size() == pools.size();
  for (size_t i = 0; i < pools.size() && fits; ++i) {
    const std::vector<AttrId>& pair = attrs[pairs[i]].list;
    fits = pair.size() == 2;
    for (AttrId side : pair) fits = fits && attrs[side].i >= 0 && attrs[side].i < kLargestPooled;
    if (fits) pools[i].low = attrs[pair[0]].i, pools[i].high = attrs[pair[1]].i;
  }
  return fits || reportShape(q, "needs a padding [low, high] of at least 0 for each of " +
                                    counted(pools.size(), "spatial dim"));
}

// `ceil`: includes a last window that exceeds the end, if it begins before it.
bool poolsOf(const OpQuery& q, Pools& pools) {
  if (!readPoolSizes(q, pools) || !readPoolList(q, "window", 1, pools, &Pool::length)) return false;
  for (Pool& p : pools) p.stride = p.length;
  if (!readPoolList(q, "stride", 1, pools, &Pool::stride) ||
      !readPoolList(q, "dilation", 1, pools, &Pool::dilation) || !readPadding(q, pools))
    return false;
  for (Pool& p : pools) {
    const int64_t room = p.size + p.low + p.high - p.reach();
    p.result = room < 0 ? 0 : room / p.stride + 1;
    if (!q.boolAttr("ceil") || p.size == 0) continue;
    if (room + p.stride > 0) p.result = (room + p.stride - 1) / p.stride + 1;
    if (p.result > 0 && p.start(p.result - 1) >= p.size) --p.result;
  }
  return true;
}

void storeAverage(Tensor& out, int64_t i, long double sum, uint64_t integerSum, int64_t count) {
  if (isFloat(out.dtype()))
    out.setFloat(i, static_cast<double>(sum / static_cast<long double>(count)));
  else if (isUnsignedInt(out.dtype()))
    out.setInt(i, static_cast<int64_t>(integerSum / static_cast<uint64_t>(count)));
  else
    out.setInt(i, static_cast<int64_t>(integerSum) / count);
}

DType poolSumType(DType d) {
  return isFloat(d) ? accumulationType(d) : isUnsignedInt(d) ? DType::U64 : DType::I64;
}

Expr countingVector(Builder& b, int64_t n) {
  return ops::iota(b, b.module.tensorType(DType::I64, {n}), {.dim = 0});
}

Expr alongDim(Expr v, size_t i, size_t rank) {
  std::vector<Dim> shape(rank, Dim(1));
  shape[i + 2] = v.dims()[0];
  return reshape(v, shape);
}

Expr countVector(const Pool& p, Expr results, bool padded, DType dtype) {
  const Expr begin = results * p.stride - p.low;
  auto positions = [&](Expr distance) {
    const Expr up = max(distance, 0) + (p.dilation - 1);
    return min(up / p.dilation, p.length);
  };
  Expr count = positions(-begin + (padded ? p.size + p.high : p.size));
  if (!padded) count = count - positions(-begin);
  return max(count, 1).as(dtype);
}

namespace {

// Batch and channels pass; along spatial dims each device fetches the rows that its windows read.
bool poolRule(const OpQuery& q, Rule& rule) {
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  const Type& x = q.type(0);
  TensorMap in{{plainDim(addFactor(rule, x.dims[0], "n")), plainDim(addFactor(rule, x.dims[1], "c"))}};
  TensorMap out = in;
  for (size_t i = 0; i < pools.size(); ++i) {
    const Pool& p = pools[i];
    const std::string name = std::to_string(i);
    const uint16_t o = addWindow(rule, Dim(p.result), "y" + name),
                   k = addUnsharded(rule, Dim(p.length), "k" + name);
    in.dims.push_back(windowDim({DimMap::Affine, {{o, p.stride}, {k, p.dilation}}, -p.low}, o));
    out.dims.push_back(plainDim(o));
  }
  rule.operands.push_back(std::move(in));
  rule.results.assign(std::max<uint32_t>(1, numResultsOf(q)), out);
  return true;
}

// --- evaluation ---

// fn(result element, flat spatial index of x, element of x) for every element of each window, window by
// window.
template <class Fn> void forEachSeen(const Pools& pools, const Tensor& x, const Tensor& y, Fn&& fn) {
  const std::vector<int64_t> strides = x.strides();
  std::vector<int64_t> positions;
  for (const Pool& p : pools) positions.push_back(p.length);
  forEachElement(y.shape(), [&](std::span<const int64_t> at, int64_t to) {
    const int64_t base = at[0] * strides[0] + at[1] * strides[1];
    forEachElement(positions, [&](std::span<const int64_t> k, int64_t) {
      int64_t flat = 0;
      for (size_t i = 0; i < k.size(); ++i) {
        const int64_t position = pools[i].start(at[i + 2]) + pools[i].dilation * k[i];
        if (position < 0 || position >= pools[i].size) return;
        flat += position * strides[i + 2];
      }
      fn(to, flat, base + flat);
    });
  });
}

bool avgEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  const Tensor& x = *in[0];
  const bool padded = q.boolAttr("count_include_pad"), floats = isFloat(x.dtype());
  std::vector<long double> sums(static_cast<size_t>(out[0]->numElements()));
  std::vector<uint64_t> integerSum(sums.size());
  forEachSeen(pools, x, *out[0], [&](int64_t to, int64_t, int64_t from) {
    if (floats)
      sums[static_cast<size_t>(to)] = carried(q, sums[static_cast<size_t>(to)] + x.getFloat(from));
    else
      integerSum[static_cast<size_t>(to)] += static_cast<uint64_t>(x.getInt(from));
  });
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    int64_t count = 1;
    for (size_t d = 0; d < pools.size(); ++d) count *= pools[d].count(pools[d].start(at[d + 2]), padded);
    storeAverage(*out[0], i, sums[static_cast<size_t>(i)], integerSum[static_cast<size_t>(i)],
                 std::max<int64_t>(count, 1));
  });
  return true;
}

bool maxEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  const Tensor& x = *in[0];
  const bool floats = isFloat(x.dtype());
  const ScalarValue lowest = reduceIdentity(PendingKind::Max, x.dtype());
  std::vector<int64_t> best(static_cast<size_t>(out[0]->numElements()), -1), positions = best;
  auto greater = [&](int64_t i, int64_t j) {
    if (floats) return std::isnan(x.getFloat(i)) ? !std::isnan(x.getFloat(j)) : x.getFloat(i) > x.getFloat(j);
    if (isUnsignedInt(x.dtype()))
      return static_cast<uint64_t>(x.getInt(i)) > static_cast<uint64_t>(x.getInt(j));
    return x.getInt(i) > x.getInt(j);
  };
  forEachSeen(pools, x, *out[0], [&](int64_t to, int64_t flat, int64_t from) {
    const auto i = static_cast<size_t>(to);
    if (best[i] < 0 || greater(from, best[i])) best[i] = from, positions[i] = flat;
  });
  for (size_t i = 0; i < best.size(); ++i) {
    const auto to = static_cast<int64_t>(i);
    if (best[i] >= 0)
      copyElement(*out[0], to, x, best[i]);
    else if (floats)
      out[0]->setFloat(to, lowest.f);
    else
      out[0]->setInt(to, lowest.i);
    if (out.size() > 1) out[1]->setInt(to, positions[i]);
  }
  return true;
}

// --- kernels ---

// The position in x of window element `k` (one coordinate per spatial dim), and whether it is in bounds.
struct WindowPosition {
  std::vector<ElementNode> at; // of x
  ElementNode inside = 0;
  bool tested = false;
};
WindowPosition positionOf(const Pools& pools, ElementBuilder& b, std::span<const ElementNode> k) {
  WindowPosition position{{b.at(0), b.at(1)}};
  auto require = [&](ElementNode c) {
    position.inside = position.tested ? b.call("and", {position.inside, c}) : c;
    position.tested = true;
  };
  for (size_t i = 0; i < pools.size(); ++i) {
    const Pool& p = pools[i];
    position.at.push_back(
        b.sub(b.add(b.mul(b.at(i + 2), p.stride), b.mul(k[i], p.dilation)), b.index(p.low)));
    if (p.low > 0) require(b.call("ge", {position.at.back(), b.index(0)}));
    if (p.passesEnd()) require(b.call("lt", {position.at.back(), b.index(p.size)}));
  }
  return position;
}

// Pool::count of the window at b.at(dim).
ElementNode countNode(const Pool& p, ElementBuilder& b, ElementNode o, bool padded) {
  const ElementNode zero = b.index(0), length = b.index(p.length);
  const ElementNode begin = b.sub(b.mul(o, p.stride), b.index(p.low));
  auto positions = [&](ElementNode distance) { // offsets within the window
    const ElementNode up = b.add(b.call("max", {distance, zero}), b.index(p.dilation - 1));
    return b.call("min", {length, b.floorDiv(up, p.dilation)});
  };
  ElementNode count = positions(b.sub(b.index(padded ? p.size + p.high : p.size), begin));
  if (!padded && p.low > 0) count = b.sub(count, positions(b.sub(zero, begin)));
  return count;
}

uint32_t avgElement(const OpQuery& q, ElementBuilder& b, size_t) {
  Pools pools;
  if (!poolsOf(q, pools)) return 0;
  const bool padded = q.boolAttr("count_include_pad");
  const DType type = poolSumType(q.type(0).dtype);
  std::vector<ElementNode> k;
  for (const Pool& p : pools) k.push_back(b.loop(Dim(p.length)));
  const ElementNode sum = b.sum(k, b.convert(b.load(0, positionOf(pools, b, k).at), type));
  double known = 1;
  ElementNode count = 0;
  bool counted = false;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].full(padded)) {
      known *= static_cast<double>(pools[i].length);
      continue;
    }
    const ElementNode own = b.convert(countNode(pools[i], b, b.at(i + 2), padded), type);
    count = counted ? b.call("mul", {count, own}) : own;
    counted = true;
  }
  if (!counted) return b.call("div", {sum, b.number(known, type)});
  if (known != 1) count = b.call("mul", {count, b.number(known, type)});
  return b.call("div", {sum, b.call("max", {count, b.number(1, type)})});
}

ElementNode minNumber(ElementBuilder& b, DType d) {
  const ScalarValue lowest = reduceIdentity(PendingKind::Max, d);
  return isFloat(d) ? b.number(lowest.f, accumulationType(d)) : b.number(static_cast<double>(lowest.i), d);
}

ElementNode maxInWindow(const OpQuery& q, ElementBuilder& b, const Pools& pools) {
  std::vector<ElementNode> k;
  for (const Pool& p : pools) k.push_back(b.loop(Dim(p.length)));
  const WindowPosition position = positionOf(pools, b, k);
  ElementNode x = b.load(0, position.at, !position.tested);
  if (position.tested) x = b.call("select", {position.inside, x, minNumber(b, q.type(0).dtype)});
  return b.maxOver(k, x);
}

// The window coordinates of its element number `flat`.
std::vector<ElementNode> coordinatesOf(const Pools& pools, ElementBuilder& b, ElementNode flat) {
  std::vector<ElementNode> k(pools.size());
  for (size_t i = pools.size(); i-- > 0;) {
    k[i] = i == 0 ? flat : b.mod(flat, pools[i].length);
    if (i > 0) flat = b.floorDiv(flat, pools[i].length);
  }
  return k;
}

// The first max element of the window: the last, counted from the end.
uint32_t maxElement(const OpQuery& q, ElementBuilder& b, size_t result) {
  Pools pools;
  if (!poolsOf(q, pools)) return 0;
  const ElementNode maximum = maxInWindow(q, b, pools);
  if (result == 0) return maximum;
  int64_t positions = 1;
  for (const Pool& p : pools) positions *= p.length;
  const ElementNode step = b.loop(Dim(positions)), end = b.index(positions - 1);
  const WindowPosition position = positionOf(pools, b, coordinatesOf(pools, b, b.sub(end, step)));
  const ElementNode x = b.load(0, position.at, !position.tested);
  ElementNode match = b.call("eq", {x, maximum});
  if (isFloat(q.type(0).dtype)) match = b.call("or", {match, b.call("is_nan", {x})});
  if (position.tested) match = b.call("and", {match, position.inside});
  const ElementNode last = b.lastWhere(step, match), none = b.number(-1, DType::I32);
  const std::vector<ElementNode> found =
      positionOf(pools, b, coordinatesOf(pools, b, b.sub(end, b.convert(last, DType::I64)))).at;
  ElementNode flat = b.index(0);
  for (size_t i = 0; i < pools.size(); ++i) flat = b.add(b.mul(flat, pools[i].size), found[i + 2]);
  return b.call("select", {b.call("gt", {last, none}), b.convert(flat, DType::I32), none});
}

// --- gradients ---

// Each element of dy is added to all elements of its window: pooling of dy with dilated strides, aligned with
// the reads. Compensates for the averaging.
bool avgGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  const Type type = q.type(0);
  Expr g(b, dy[0]);
  std::vector<int64_t> low(2), high(2), interior(2), window, dilation;
  for (size_t i = 0; i < pools.size(); ++i) {
    const Pool& p = pools[i];
    if (p.result == 0) {
      dx.push_back(b.constant(0, q.operandTypes[0]));
      return true;
    }
    if (!p.full(q.boolAttr("count_include_pad"))) {
      const Expr counts =
          countVector(p, countingVector(b, p.result), q.boolAttr("count_include_pad"), type.dtype);
      g = g / alongDim(counts, i, type.rank()) * p.length;
    }
    low.push_back(p.reach() - 1 - p.low);
    high.push_back(p.size + p.reach() - 1 - low.back() - (p.stride * (p.result - 1) + 1));
    interior.push_back(p.stride - 1);
    window.push_back(p.length);
    dilation.push_back(p.dilation);
  }
  g = pad(g, {.low = low, .high = high, .interior = interior});
  const std::vector<int64_t> ones(pools.size(), 1);
  dx.push_back(avg_pool(g, {.window = window, .stride = ones, .dilation = dilation}));
  return true;
}

// Uses the op's indices, which autodiff requests.
bool maxGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  if (m[op].numResults < 2) return false;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  std::vector<int64_t> size, stride, low, reach;
  for (const Pool& p : pools)
    size.push_back(p.size), stride.push_back(p.stride), low.push_back(p.low), reach.push_back(p.reach());
  dx.push_back(max_unpool(Expr(b, dy[0]), m.result(op, 1),
                          {.size = size, .stride = stride, .low = low, .reach = reach}));
  return true;
}

bool maxInfer(const OpQuery& q, std::vector<TypeId>& results) {
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  std::vector<Dim> dims = {q.type(0).dims[0], q.type(0).dims[1]};
  std::optional<int64_t> positions = 1;
  for (const Pool& p : pools) {
    dims.push_back(Dim(p.result));
    if (positions) positions = checkedMul(*positions, p.size);
  }
  results = {q.module->tensorType(q.type(0).dtype, dims)};
  if (!q.boolAttr("indices")) return true;
  if (!positions || *positions > kLargestPooled)
    return reportShape(q, "has more spatial elements than i32 can index");
  results.push_back(q.module->tensorType(DType::I32, dims));
  return true;
}

// --- the records ---

OpRecord pooling(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "window", .summary = summary};
  r.operandClasses = kNumbers;
  r.scalar = "a"; // not data movement, which consumers would recompute
  r.attrs = {{"window", AttrType::Ints, nullptr, "size of the window per spatial dim"},
             {"stride", AttrType::Ints, "", "stride of the window; default: its size"},
             {"padding", AttrType::Pairs, "", "[[low, high], …]: padding of x; default: 0"},
             {"dilation", AttrType::Ints, "", "distance between window elements; default: 1"},
             {"ceil", AttrType::Bool, "false",
              "include a last window that exceeds the end, if it begins before the end of x"}};
  r.rule = poolRule;
  return r;
}

} // namespace

void addPoolingOps(OpRegistry& ops) {
  OpRecord& average = ops.add(
      pooling("avg_pool", "mean of each window of x [n, c, spatial…]; integers truncate; 0 if empty"));
  average.attrs.push_back({"count_include_pad", AttrType::Bool, "true", "count padding in the divisor"});
  average.through = {linear(1, kFloats)};
  average.shard = shardPool;
  average.eval = avgEval;
  average.element = avgElement;
  average.gradFn = avgGrad;
  average.samples =
      "T[2, 3, 7] {window = [3], stride = [2]}\n"
      "T[2, 2, 5, 4] {window = [2, 3], stride = [1, 2], padding = [[1, 0], [1, 1]], "
      "count_include_pad = false}\n"
      "T[1, 3, 6, 5] {window = [3, 2], stride = [2, 2], padding = [[1, 1], [0, 0]], ceil = true}\n"
      "T[2, 1, 3, 4, 3] {window = [2, 2, 2], stride = [1, 1, 2], dilation = [1, 2, 1]}";

  OpRecord& maxPool = ops.add(pooling(
      "max_pool",
      "maximum of each window of x [n, c, spatial…]; NaN is the max; if empty -inf or the min integer"));
  maxPool.results = "y, indices?";
  maxPool.attrs.push_back(
      {"indices", AttrType::Bool, "false",
       "also return its index: flat over the spatial dims, the lowest among equals, -1 if empty"});
  maxPool.resultType = OpRecord::ResultType::Custom;
  maxPool.infer = maxInfer;
  maxPool.through = {{ThroughRow::LatticeMax, 1, false, 1u}};
  maxPool.checks = exactJump();
  maxPool.shard = shardPool;
  maxPool.eval = maxEval;
  maxPool.element = maxElement;
  maxPool.gradFn = maxGrad;
  maxPool.samples =
      "T[2, 3, 7] {window = [3], stride = [2]}\n"
      "T[2, 2, 5, 4] {window = [2, 3], stride = [1, 2], padding = [[1, 0], [1, 1]]}\n"
      "T[1, 3, 6, 5] {window = [3, 2], padding = [[1, 1], [0, 0]], ceil = true, indices = true}\n"
      "T[2, 1, 3, 4, 3] {window = [2, 2, 2], stride = [1, 1, 2], dilation = [1, 2, 1]}";
  addMaxUnpoolOps(ops);
  addAdaptivePoolOps(ops);
  addResizeOps(ops);
  addGridSampleOps(ops);
}

} // namespace dtc
