// avg_pool max_pool: what is left of each window of an image.
#include "Pooling.h"
#include "CarriedSum.h"
#include "Window.h"
#include "dtc/Ops/Scalar.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Counted.h"
#include <algorithm>
#include <cmath>

namespace dtc {

static constexpr int64_t kLargest = int64_t(1) << 31;

bool readPoolSizes(const OpQuery& q, Pools& pools) {
  if (q.type(0).rank() < 3) return reportRank(q, 0, "3 or more");
  pools.assign(q.type(0).rank() - 2, {});
  for (size_t i = 0; i < pools.size(); ++i) {
    const Dim size = q.type(0).dims[i + 2];
    if (!size.isStatic())
      return reportShape(q, "needs spatial sizes that are numbers, not " + dimText(q, size));
    if (size.value() >= kLargest) return reportShape(q, "has a spatial dim that is too long");
    pools[i].size = size.value();
  }
  return true;
}

bool readPoolList(const OpQuery& q, const char* name, int64_t least, Pools& pools, int64_t Pool::* member) {
  if (!q.rawAttr(name).valid()) return true;
  const std::vector<int64_t> v = q.intsAttr(name);
  const auto wrong = std::find_if(v.begin(), v.end(), [&](int64_t n) { return n < least || n >= kLargest; });
  if (v.size() == pools.size() && wrong != v.end())
    return reportShape(q, "has " + std::string(name) + " = " + std::to_string(*wrong) + ": expected " +
                              std::to_string(least) + " to " + std::to_string(kLargest - 1));
  if (v.size() != pools.size())
    return reportShape(q, "needs " + std::string(name) + " = [...] with a number of at least " +
                              std::to_string(least) + " for each of " + counted(pools.size(), "spatial dim"));
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
    for (AttrId side : pair) fits = fits && attrs[side].i >= 0 && attrs[side].i < kLargest;
    if (fits) pools[i].low = attrs[pair[0]].i, pools[i].high = attrs[pair[1]].i;
  }
  return fits || reportShape(q, "needs a padding [low, high] of at least 0 for each of " +
                                    counted(pools.size(), "spatial dim"));
}

// `ceil`: a last window that passes the end counts, if it begins before it.
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

void storeAverage(Tensor& out, int64_t i, long double sum, uint64_t whole, int64_t count) {
  if (isFloat(out.dtype()))
    out.setFloat(i, static_cast<double>(sum / static_cast<long double>(count)));
  else if (isUnsignedInt(out.dtype()))
    out.setInt(i, static_cast<int64_t>(whole / static_cast<uint64_t>(count)));
  else
    out.setInt(i, static_cast<int64_t>(whole) / count);
}

DType poolSumType(DType d) {
  return isFloat(d) ? accumulationType(d) : isUnsignedInt(d) ? DType::U64 : DType::I64;
}

ValueId alongDim(Builder& b, ValueId v, size_t i, size_t rank) {
  std::vector<Dim> shape(rank, Dim(1));
  shape[i + 2] = b.module.typeOf(v).dims[0];
  return b.value("reshape", {v}, {{"shape", sizesToAttr(b.module, shape)}});
}

ValueId countVector(Builder& b, const Pool& p, ValueId results, bool padded, DType dtype) {
  const Counts c{b};
  const ValueId begin = c.of("sub", c.of("mul", results, p.stride), p.low);
  auto places = [&](ValueId distance) {
    const ValueId up = c.of("add", c.of("max", distance, 0), p.dilation - 1);
    return c.of("min", c.of("div", up, p.dilation), p.length);
  };
  ValueId count = places(c.of("add", b.value("neg", {begin}), padded ? p.size + p.high : p.size));
  if (!padded) count = b.value("sub", {count, places(b.value("neg", {begin}))});
  return c.as(c.of("max", count, 1), dtype);
}

namespace {

// Batch and channels pass; along spatial dims each device fetches what its windows see.
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
                   k = addWhole(rule, Dim(p.length), "k" + name);
    in.dims.push_back(windowDim({DimMap::Affine, {{o, p.stride}, {k, p.dilation}}, -p.low}, o));
    out.dims.push_back(plainDim(o));
  }
  rule.operands.push_back(std::move(in));
  rule.results.assign(std::max<uint32_t>(1, numResultsOf(q)), out);
  return true;
}

// --- evaluation ---

// fn(result element, flat spatial place of x, element of x) for every element that a window sees, window by window.
template <class Fn> void forEachSeen(const Pools& pools, const Tensor& x, const Tensor& y, Fn&& fn) {
  const std::vector<int64_t> strides = x.strides();
  std::vector<int64_t> places;
  for (const Pool& p : pools) places.push_back(p.length);
  forEachElement(y.shape(), [&](std::span<const int64_t> at, int64_t to) {
    const int64_t base = at[0] * strides[0] + at[1] * strides[1];
    forEachElement(places, [&](std::span<const int64_t> k, int64_t) {
      int64_t flat = 0;
      for (size_t i = 0; i < k.size(); ++i) {
        const int64_t place = pools[i].start(at[i + 2]) + pools[i].dilation * k[i];
        if (place < 0 || place >= pools[i].size) return;
        flat += place * strides[i + 2];
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
  std::vector<uint64_t> whole(sums.size());
  forEachSeen(pools, x, *out[0], [&](int64_t to, int64_t, int64_t from) {
    if (floats)
      sums[static_cast<size_t>(to)] = carried(q, sums[static_cast<size_t>(to)] + x.getFloat(from));
    else
      whole[static_cast<size_t>(to)] += static_cast<uint64_t>(x.getInt(from));
  });
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    int64_t count = 1;
    for (size_t d = 0; d < pools.size(); ++d) count *= pools[d].count(pools[d].start(at[d + 2]), padded);
    storeAverage(*out[0], i, sums[static_cast<size_t>(i)], whole[static_cast<size_t>(i)],
                 std::max<int64_t>(count, 1));
  });
  return true;
}

bool maxEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  const Tensor& x = *in[0];
  const bool floats = isFloat(x.dtype());
  const ScalarValue least = reduceIdentity(PendingKind::Max, x.dtype());
  std::vector<int64_t> best(static_cast<size_t>(out[0]->numElements()), -1), places = best;
  auto greater = [&](int64_t i, int64_t j) {
    if (floats) return std::isnan(x.getFloat(i)) ? !std::isnan(x.getFloat(j)) : x.getFloat(i) > x.getFloat(j);
    if (isUnsignedInt(x.dtype()))
      return static_cast<uint64_t>(x.getInt(i)) > static_cast<uint64_t>(x.getInt(j));
    return x.getInt(i) > x.getInt(j);
  };
  forEachSeen(pools, x, *out[0], [&](int64_t to, int64_t flat, int64_t from) {
    const auto i = static_cast<size_t>(to);
    if (best[i] < 0 || greater(from, best[i])) best[i] = from, places[i] = flat;
  });
  for (size_t i = 0; i < best.size(); ++i) {
    const auto to = static_cast<int64_t>(i);
    if (best[i] >= 0)
      copyElement(*out[0], to, x, best[i]);
    else if (floats)
      out[0]->setFloat(to, least.f);
    else
      out[0]->setInt(to, least.i);
    if (out.size() > 1) out[1]->setInt(to, places[i]);
  }
  return true;
}

// --- kernels ---

// The place of x that window element `k` (one coordinate per spatial dim) stands at, and whether it is one.
struct Place {
  std::vector<ElementNode> at; // of x
  ElementNode inside = 0;
  bool tested = false;
};
Place placeOf(const Pools& pools, ElementBuilder& b, std::span<const ElementNode> k) {
  Place place{{b.at(0), b.at(1)}};
  auto require = [&](ElementNode c) {
    place.inside = place.tested ? b.call("and", {place.inside, c}) : c;
    place.tested = true;
  };
  for (size_t i = 0; i < pools.size(); ++i) {
    const Pool& p = pools[i];
    place.at.push_back(b.sub(b.add(b.mul(b.at(i + 2), p.stride), b.mul(k[i], p.dilation)), b.index(p.low)));
    if (p.low > 0) require(b.call("ge", {place.at.back(), b.index(0)}));
    if (p.passesEnd()) require(b.call("lt", {place.at.back(), b.index(p.size)}));
  }
  return place;
}

// Pool::count of the window at b.at(dim).
ElementNode countNode(const Pool& p, ElementBuilder& b, ElementNode o, bool padded) {
  const ElementNode zero = b.index(0), length = b.index(p.length);
  const ElementNode begin = b.sub(b.mul(o, p.stride), b.index(p.low));
  auto places = [&](ElementNode distance) { // of the window within it
    const ElementNode up = b.add(b.call("max", {distance, zero}), b.index(p.dilation - 1));
    return b.call("min", {length, b.floorDiv(up, p.dilation)});
  };
  ElementNode count = places(b.sub(b.index(padded ? p.size + p.high : p.size), begin));
  if (!padded && p.low > 0) count = b.sub(count, places(b.sub(zero, begin)));
  return count;
}

uint32_t avgElement(const OpQuery& q, ElementBuilder& b, size_t) {
  Pools pools;
  if (!poolsOf(q, pools)) return 0;
  const bool padded = q.boolAttr("count_include_pad");
  const DType type = poolSumType(q.type(0).dtype);
  std::vector<ElementNode> k;
  for (const Pool& p : pools) k.push_back(b.loop(Dim(p.length)));
  const ElementNode sum = b.sum(k, b.convert(b.load(0, placeOf(pools, b, k).at), type));
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

ElementNode leastNumber(ElementBuilder& b, DType d) {
  const ScalarValue least = reduceIdentity(PendingKind::Max, d);
  return isFloat(d) ? b.number(least.f, accumulationType(d)) : b.number(static_cast<double>(least.i), d);
}

ElementNode greatestSeen(const OpQuery& q, ElementBuilder& b, const Pools& pools) {
  std::vector<ElementNode> k;
  for (const Pool& p : pools) k.push_back(b.loop(Dim(p.length)));
  const Place place = placeOf(pools, b, k);
  ElementNode x = b.load(0, place.at, !place.tested);
  if (place.tested) x = b.call("select", {place.inside, x, leastNumber(b, q.type(0).dtype)});
  return b.greatest(k, x);
}

// The window's coordinates of its element number `flat`.
std::vector<ElementNode> coordinatesOf(const Pools& pools, ElementBuilder& b, ElementNode flat) {
  std::vector<ElementNode> k(pools.size());
  for (size_t i = pools.size(); i-- > 0;) {
    k[i] = i == 0 ? flat : b.mod(flat, pools[i].length);
    if (i > 0) flat = b.floorDiv(flat, pools[i].length);
  }
  return k;
}

// The first element of the window that is the greatest: the last, counted from the end.
uint32_t maxElement(const OpQuery& q, ElementBuilder& b, size_t result) {
  Pools pools;
  if (!poolsOf(q, pools)) return 0;
  const ElementNode greatest = greatestSeen(q, b, pools);
  if (result == 0) return greatest;
  int64_t places = 1;
  for (const Pool& p : pools) places *= p.length;
  const ElementNode step = b.loop(Dim(places)), end = b.index(places - 1);
  const Place place = placeOf(pools, b, coordinatesOf(pools, b, b.sub(end, step)));
  const ElementNode x = b.load(0, place.at, !place.tested);
  ElementNode match = b.call("eq", {x, greatest});
  if (isFloat(q.type(0).dtype)) match = b.call("or", {match, b.call("is_nan", {x})});
  if (place.tested) match = b.call("and", {match, place.inside});
  const ElementNode last = b.lastWhere(step, match), none = b.number(-1, DType::I32);
  const std::vector<ElementNode> found =
      placeOf(pools, b, coordinatesOf(pools, b, b.sub(end, b.convert(last, DType::I64)))).at;
  ElementNode flat = b.index(0);
  for (size_t i = 0; i < pools.size(); ++i) flat = b.add(b.mul(flat, pools[i].size), found[i + 2]);
  return b.call("select", {b.call("gt", {last, none}), b.convert(flat, DType::I32), none});
}

// --- gradients ---

// Each element of dy goes to all that its window sees: windows over dy spread out by the stride, which see it from where it was
// seen. What is averaged here again is made up for.
bool avgGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  const Type type = q.type(0);
  ValueId g = dy[0];
  std::vector<int64_t> low(2), high(2), interior(2), window, dilation;
  for (size_t i = 0; i < pools.size(); ++i) {
    const Pool& p = pools[i];
    if (p.result == 0) {
      dx.push_back(b.constant(0, q.operandTypes[0]));
      return true;
    }
    if (!p.full(q.boolAttr("count_include_pad"))) {
      g = b.value("div", {g, alongDim(b,
                                      countVector(b, p, Counts{b}.places(p.result),
                                                  q.boolAttr("count_include_pad"), type.dtype),
                                      i, type.rank())});
      g = b.value("mul", {g, b.literal(static_cast<double>(p.length), type.dtype)});
    }
    low.push_back(p.reach() - 1 - p.low);
    high.push_back(p.size + p.reach() - 1 - low.back() - (p.stride * (p.result - 1) + 1));
    interior.push_back(p.stride - 1);
    window.push_back(p.length);
    dilation.push_back(p.dilation);
  }
  g = b.value("pad", {g}, {{"low", b.ints(low)}, {"high", b.ints(high)}, {"interior", b.ints(interior)}});
  const std::vector<int64_t> ones(pools.size(), 1);
  dx.push_back(
      b.value("avg_pool", {g},
              {{"window", b.ints(window)}, {"stride", b.ints(ones)}, {"dilation", b.ints(dilation)}}));
  return true;
}

// By the indices that the op gave: autodiff asks for them.
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
  dx.push_back(b.value(
      "max_unpool", {dy[0], m.result(op, 1)},
      {{"size", b.ints(size)}, {"stride", b.ints(stride)}, {"low", b.ints(low)}, {"reach", b.ints(reach)}}));
  return true;
}

bool maxInfer(const OpQuery& q, std::vector<TypeId>& results) {
  Pools pools;
  if (!poolsOf(q, pools)) return false;
  std::vector<Dim> dims = {q.type(0).dims[0], q.type(0).dims[1]};
  std::optional<int64_t> places = 1;
  for (const Pool& p : pools) {
    dims.push_back(Dim(p.result));
    if (places) places = checkedMul(*places, p.size);
  }
  results = {q.module->tensorType(q.type(0).dtype, dims)};
  if (!q.boolAttr("indices")) return true;
  if (!places || *places > kLargest) return reportShape(q, "has more spatial elements than an i32 counts");
  results.push_back(q.module->tensorType(DType::I32, dims));
  return true;
}

// --- the records ---

OpRecord pooling(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "window", .summary = summary};
  r.operandClasses = kNumbers;
  r.scalar = "a"; // of each place: no move, whose readers would make it again
  r.attrs = {
      {"window", AttrType::Ints, nullptr, "its size, one per spatial dim"},
      {"stride", AttrType::Ints, "", "steps of the window (its size)"},
      {"padding", AttrType::Pairs, "", "[[low, high], …]: room around x that windows may reach into (0s)"},
      {"dilation", AttrType::Ints, "", "distance of the window's elements (1s)"},
      {"ceil", AttrType::Bool, "false",
       "a last window that passes the end counts, if it begins before the end of x"}};
  r.rule = poolRule;
  return r;
}

} // namespace

void addPoolingOps(OpRegistry& ops) {
  OpRecord average =
      pooling("avg_pool", "mean of each window of x [n, c, spatial…]; integers truncate; of none 0");
  average.attrs.push_back({"count_include_pad", AttrType::Bool, "true", "divide by the padding, too"});
  average.through = {linear(1, kFloats)};
  average.cut = cutPool;
  average.eval = avgEval;
  average.element = avgElement;
  average.gradFn = avgGrad;
  average.samples =
      "T[2, 3, 7] {window = [3], stride = [2]}\n"
      "T[2, 2, 5, 4] {window = [2, 3], stride = [1, 2], padding = [[1, 0], [1, 1]], "
      "count_include_pad = false}\n"
      "T[1, 3, 6, 5] {window = [3, 2], stride = [2, 2], padding = [[1, 1], [0, 0]], ceil = true}\n"
      "T[2, 1, 3, 4, 3] {window = [2, 2, 2], stride = [1, 1, 2], dilation = [1, 2, 1]}";
  ops.add(std::move(average));

  OpRecord greatest = pooling(
      "max_pool",
      "maximum of each window of x [n, c, spatial…], NaN before all; of none -inf or the least integer");
  greatest.results = "y, indices?";
  greatest.attrs.push_back(
      {"indices", AttrType::Bool, "false",
       "give its index, too: flat over the spatial dims, the first of equals, -1 of none"});
  greatest.resultType = OpRecord::ResultType::Custom;
  greatest.infer = maxInfer;
  greatest.through = {{ThroughRow::LatticeMax, 1, false, 1u}};
  greatest.cut = cutPool;
  greatest.eval = maxEval;
  greatest.element = maxElement;
  greatest.gradFn = maxGrad;
  greatest.samples =
      "T[2, 3, 7] {window = [3], stride = [2]}\n"
      "T[2, 2, 5, 4] {window = [2, 3], stride = [1, 2], padding = [[1, 0], [1, 1]]}\n"
      "T[1, 3, 6, 5] {window = [3, 2], padding = [[1, 1], [0, 0]], ceil = true, indices = true}\n"
      "T[2, 1, 3, 4, 3] {window = [2, 2, 2], stride = [1, 1, 2], dilation = [1, 2, 1]}";
  ops.add(std::move(greatest));
  addMaxUnpoolOps(ops);
  addAdaptivePoolOps(ops);
}

} // namespace dtc
