// max_unpool: the gradient of max_pool. Adds each element at its index.
#include "dtc/IR/LocalShape.h"
#include "record/CarriedSum.h"
#include "window/Pooling.h"
#include "window/Window.h"

namespace dtc {

namespace {

// Element o of y, along a spatial dim, comes from [stride * o - low, stride * o - low + reach) of the `size`
// positions of the result.
struct Origin {
  int64_t size = 0, stride = 1, low = 0, reach = 1, given = 0; // given: y's size
  // The max number of elements that come from one position.
  [[nodiscard]] int64_t maxWindows() const { return (reach + stride - 1) / stride; }
};

bool originsOf(const OpQuery& q, std::vector<Origin>& origins) {
  if (q.type(0).rank() < 3) return reportRank(q, 0, "3 or more");
  if (q.type(1).dims != q.type(0).dims) return reportShape(q, "needs one index for each element of y");
  const std::vector<int64_t> size = q.intsAttr("size"), stride = q.intsAttr("stride"),
                             low = q.intsAttr("low"), reach = q.intsAttr("reach");
  const size_t spatial = q.type(0).rank() - 2;
  for (const auto* list : {&size, &stride, &low, &reach})
    if (list->size() != spatial)
      return reportShape(q, "needs size, stride, low and reach with one entry for each of " +
                                std::to_string(spatial) + " spatial dims");
  for (size_t i = 0; i < spatial; ++i) {
    const Dim given = q.type(0).dims[i + 2];
    if (!given.isStatic() || size[i] < 0 || stride[i] < 1 || low[i] < 0 || reach[i] < 1)
      return reportShape(q, "needs static sizes, and strides and reaches of at least 1");
    origins.push_back({size[i], stride[i], low[i], reach[i], given.value()});
  }
  return true;
}

bool unpoolRule(const OpQuery& q, Rule& rule) {
  std::vector<Origin> origins;
  if (!originsOf(q, origins)) return false;
  const Type& y = q.type(0);
  TensorMap in{{plainDim(addFactor(rule, y.dims[0], "n")), plainDim(addFactor(rule, y.dims[1], "c"))}};
  TensorMap out = in;
  for (size_t i = 0; i < origins.size(); ++i) {
    const uint16_t own = addUnsharded(rule, Dim(origins[i].given), "y" + std::to_string(i)),
                   x = addWindow(rule, Dim(origins[i].size), "x" + std::to_string(i));
    in.dims.push_back(windowDim(freeDim(own), x));
    out.dims.push_back(plainDim(x));
  }
  rule.operands = {in, in};
  rule.results.push_back(std::move(out));
  return true;
}

bool unpoolEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  std::vector<Origin> origins;
  if (!originsOf(q, origins)) return false;
  const bool floats = isFloat(q.type(0).dtype);
  Tensor& x = *out[0];
  const std::vector<int64_t> strides = x.strides();
  std::vector<long double> sums(static_cast<size_t>(x.numElements()));
  std::vector<uint64_t> integers(sums.size());
  forEachElement(in[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    int64_t rest = in[1]->getInt(i), to = at[0] * strides[0] + at[1] * strides[1];
    if (rest < 0) return;
    for (size_t d = origins.size(); d-- > 0;) {
      const Origin& o = origins[d];
      const int64_t position = d == 0 ? rest : rest % o.size, begin = o.stride * at[d + 2] - o.low;
      rest /= std::max<int64_t>(o.size, 1);
      if (position < begin || position >= begin + o.reach || position >= o.size) return;
      to += position * strides[d + 2];
    }
    if (floats)
      sums[static_cast<size_t>(to)] = carried(q, sums[static_cast<size_t>(to)] + in[0]->getFloat(i));
    else
      integers[static_cast<size_t>(to)] += static_cast<uint64_t>(in[0]->getInt(i));
  });
  for (size_t i = 0; i < sums.size(); ++i)
    if (floats)
      x.setFloat(static_cast<int64_t>(i), static_cast<double>(sums[i]));
    else
      x.setInt(static_cast<int64_t>(i), static_cast<int64_t>(integers[i]));
  return true;
}

// Every position reads the windows that contain it.
uint32_t unpoolElement(const OpQuery& q, ElementBuilder& b, size_t) {
  std::vector<Origin> origins;
  if (!originsOf(q, origins)) return 0;
  std::vector<ElementNode> loops, from = {b.at(0), b.at(1)};
  ElementNode flat = b.index(0), seen = 0;
  bool tested = false;
  auto require = [&](ElementNode c) {
    seen = tested ? b.call("and", {seen, c}) : c;
    tested = true;
  };
  for (size_t i = 0; i < origins.size(); ++i) {
    const Origin& o = origins[i];
    loops.push_back(b.loop(Dim(o.maxWindows())));
    const ElementNode at = b.at(i + 2), up = b.add(at, b.index(o.low));
    from.push_back(b.sub(b.floorDiv(up, o.stride), loops.back()));
    if (o.reach % o.stride != 0)
      require(b.call("lt", {b.sub(up, b.mul(from.back(), o.stride)), b.index(o.reach)}));
    flat = b.add(b.mul(flat, o.size), at);
  }
  // Out of bounds reads as 0.
  require(b.call("eq", {b.load(1, from), b.convert(flat, q.type(1).dtype)}));
  const DType type = poolSumType(q.type(0).dtype);
  const ElementNode y = b.convert(b.load(0, from), type);
  return b.sum(loops, b.call("select", {seen, y, b.number(0, type)}));
}

// Scatters y's elements into zeros: fewer steps than gathering for every position. Sums of narrow floats are
// rounded once per position.
bool unpoolStores(const OpQuery& q, ElementBuilder& b) {
  std::vector<Origin> origins;
  const Type& y = q.type(0);
  if (!originsOf(q, origins) || isNarrowFloat(y.dtype)) return false;
  b.begin();
  std::vector<ElementNode> from = {b.axis(y.dims[0]), b.axis(y.dims[1])}, to = from;
  for (const Origin& o : origins) to.push_back(b.axis(Dim(o.size)));
  b.store(0, to, b.number(0, y.dtype));
  for (const Origin& o : origins) from.push_back(b.steps(Dim(o.given)));
  ElementNode rest = b.convert(b.load(1, from, true), DType::I64);
  ElementNode own = b.call("ge", {rest, b.index(0)});
  for (size_t i = origins.size(); i-- > 0;) {
    const Origin& o = origins[i];
    const int64_t size = std::max<int64_t>(o.size, 1);
    const ElementNode position = i == 0 ? rest : b.mod(rest, size);
    if (i > 0) rest = b.floorDiv(rest, size);
    const ElementNode within = b.sub(position, b.sub(b.mul(from[i + 2], o.stride), b.index(o.low)));
    own = b.call("and", {own, b.call("ge", {within, b.index(0)})});
    own = b.call("and", {own, b.call("lt", {within, b.index(o.reach)})});
    if (i == 0) own = b.call("and", {own, b.call("lt", {position, b.index(o.size)})});
    to[i + 2] = position;
  }
  b.store(0, to, b.load(0, from, true), own, "add");
  return true;
}

// The coordinates along each spatial dim of flat indices (i64, nonnegative).
std::vector<Expr> coordinatesAlong(Expr flat, const std::vector<Origin>& origins) {
  std::vector<Expr> at(origins.size());
  for (size_t i = origins.size(); i-- > 0;) {
    at[i] = i == 0 ? flat : flat % std::max<int64_t>(origins[i].size, 1);
    if (i > 0) flat = floor_div(flat, std::max<int64_t>(origins[i].size, 1));
  }
  return at;
}

Expr within(Expr v, Expr begin, int64_t length, Expr all) {
  const Expr own = v - begin;
  const Expr begun = own >= 0;
  return all & (begun & (own < length));
}

// Each element of y is the element of the cotangent at its index.
bool unpoolGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  std::vector<Origin> origins;
  if (!originsOf(q, origins)) return false;
  const Type y = q.type(0);
  int64_t positions = 1, count = 1;
  for (const Origin& o : origins) positions *= o.size, count *= o.given;
  if (positions == 0 || count == 0) {
    dx = {b.constant(0, q.operandTypes[0]), {}};
    return true;
  }
  const Expr index = Expr(b, m.operand(op, 1)).as(DType::I64), inside = max(index, 0);
  const std::vector<Expr> at = coordinatesAlong(inside, origins);
  Expr seen = index >= 0;
  for (size_t i = 0; i < origins.size(); ++i) {
    const Origin& o = origins[i];
    const Expr begin = alongDim(countingVector(b, o.given) * o.stride - o.low, i, y.rank());
    seen = within(at[i], begin, o.reach, seen);
    seen = seen & (at[i] < o.size);
  }
  auto flat = [&](Expr v, int64_t n) { return reshape(v, {y.dims[0], y.dims[1], Dim(n)}); };
  const Expr from = flat(min(inside, positions - 1), count);
  Expr g = gather(flat(Expr(b, dy[0]), positions), from, {.dim = 2});
  g = reshape(g, y.dims);
  dx = {select(seen, g, 0), {}};
  return true;
}

// Each device fetches the elements that may come from its shard, unpools them from the first possible
// position, and slices its shard.
class ShardedUnpool {
public:
  ShardedUnpool(ShardedOp& op, const std::vector<Origin>& origins)
      : op_(op), origins_(origins), local_(origins), y_(op.operand(0)), index_(op.operand(1)) {}

  bool write(std::vector<ValueId>& results) {
    for (size_t i = 0; i < origins_.size(); ++i) {
      shift_.emplace_back();
      start_.emplace_back();
      if (const ShardedFactor& factor = op_.resultFactor(0, i + 2); factor.isSharded() && !fetch(i, factor))
        return false;
    }
    relocate();
    std::vector<int64_t> size, stride, low, reach;
    for (const Origin& o : local_)
      size.push_back(o.size), stride.push_back(o.stride), low.push_back(o.low), reach.push_back(o.reach);
    Expr x = max_unpool(y_, index_, {.size = size, .stride = stride, .low = low, .reach = reach});
    for (size_t i = 0; i < origins_.size(); ++i)
      if (const ShardedFactor& factor = op_.resultFactor(0, i + 2); factor.isSharded())
        x = shardOf(x, i, factor);
    results.push_back(x);
    return true;
  }

private:
  // The local result begins at the first position that the buffer's first element may come from; if windows
  // skip positions, one element earlier.
  bool fetch(size_t i, const ShardedFactor& factor) {
    const Origin& o = origins_[i];
    if (o.size == 0 || o.given == 0) return false;
    WindowFetch f(op_, i + 2, factor);
    for (Expr v : {y_, index_}) {
      WindowRead read{
          .result = o.size, .first = o.low - o.reach + o.stride, .last = o.low, .divide = o.stride};
      read.sources.push_back({.x = v, .size = o.given});
      read.fill = v.literal(0);
      f.add(std::move(read));
    }
    std::vector<Expr> buffers;
    if (!f.run(buffers)) return false;
    y_ = buffers[0], index_ = buffers[1];
    const int64_t earlier = o.reach < o.stride ? 1 : 0, rows = f.rows(0) + earlier;
    if (earlier > 0) {
      std::vector<int64_t> low(origins_.size() + 2), high = low;
      low[i + 2] = earlier;
      for (Expr* v : {&y_, &index_}) *v = pad(*v, {.low = low, .high = high});
    }
    local_[i].given = rows;
    local_[i].low = 0;
    local_[i].size = std::max(o.stride * (rows - 1) + o.reach,
                              earlier * o.stride + o.reach - 1 + largestShard(o.size, factor));
    const Expr first = op_.convert(f.firstRow(0), DType::I64);
    shift_[i] = first * o.stride - (o.low + earlier * o.stride);
    start_[i] = op_.convert(f.firstResult(0), DType::I64) - shift_[i];
    return true;
  }

  // The indices in the local result.
  void relocate() {
    const Expr index = op_.convert(index_, DType::I64);
    const std::vector<Expr> at = coordinatesAlong(max(index, 0), origins_);
    Expr flat = index.literal(0), inside = index >= 0;
    for (size_t i = 0; i < origins_.size(); ++i) {
      const Expr begin = shift_[i].valid() ? shift_[i] : index.literal(0);
      inside = within(at[i], begin, local_[i].size, inside);
      flat = flat * local_[i].size + (at[i] - begin);
    }
    index_ = select(inside, flat, -1).as(index_.dtype());
  }

  Expr shardOf(Expr x, size_t i, const ShardedFactor& factor) {
    std::vector<Dim> sizes = x.dims();
    sizes[i + 2] = Dim(largestShard(origins_[i].size, factor));
    std::vector<ops::Arg> starts(sizes.size(), start_[i].literal(0));
    starts[i + 2] = start_[i];
    return trimmed(dynamic_slice(x, starts, sizes), i + 2, origins_[i].size, factor);
  }

  ShardedOp& op_;
  const std::vector<Origin>& origins_;
  std::vector<Origin> local_;
  Expr y_, index_;
  // by spatial dim, i64: the global position of local 0; the offset of the shard. Invalid: unsharded
  std::vector<Expr> shift_, start_;
};

bool shardUnpool(ShardedOp& op, std::vector<ValueId>& results) {
  std::vector<Origin> origins;
  return originsOf(op.global, origins) && ShardedUnpool(op, origins).write(results);
}

} // namespace

void addMaxUnpoolOps(OpRegistry& ops) {
  OpRecord& r = ops.add(
      {.name = "max_unpool",
       .family = "window",
       .summary = "gradient of max_pool: adds y's elements [n, c, spatial…] at their indices (flat "
                  "over the spatial dims of the result); an index outside of the window of its element "
                  "is ignored"});
  r.operands = "y, indices";
  r.operandTypes = "T, int";
  r.operandClasses = kNumbers;
  r.attrs = {{"size", AttrType::Ints, nullptr, "size of the result per spatial dim"},
             {"stride", AttrType::Ints, nullptr,
              "element o may come from [stride * o - low, stride * o - low + reach)"},
             {"low", AttrType::Ints, nullptr, ""},
             {"reach", AttrType::Ints, nullptr, ""}};
  r.rule = unpoolRule;
  r.scalar = "a"; // sums per position: not data movement
  r.through = {linear(1), moving(1)};
  r.throughWhen = [](const OpQuery& q, const Through& row) {
    const std::vector<int64_t> stride = q.intsAttr("stride"), reach = q.intsAttr("reach");
    return row.row != ThroughRow::Moving ||
           std::equal(reach.begin(), reach.end(), stride.begin(), stride.end(), std::less_equal<>());
  };
  r.shard = shardUnpool;
  r.eval = unpoolEval;
  r.element = unpoolElement;
  r.stores = unpoolStores;
  r.gradFn = unpoolGrad;
  r.samples =
      "T[2, 3, 4], i32[2, 3, 4] in 2..5 {size = [7], stride = [1], low = [0], reach = [4]}\n"
      "T[2, 1, 4, 3], i32[2, 1, 4, 3] in 3..7 {size = [5, 4], stride = [1, 1], low = [1, 0], reach = [3, "
      "2]}\n"
      "T[1, 2, 3], i32[1, 2, 3] in -1..8 {size = [8], stride = [3], low = [1], reach = [1]}";
}

} // namespace dtc
