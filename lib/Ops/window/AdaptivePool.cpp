// adaptive_avg_pool: a given number of windows for any size.
#include "record/CarriedSum.h"
#include "window/Pooling.h"
#include "window/Window.h"

namespace dtc {

bool poolSharesOf(const OpQuery& q, std::vector<PoolShare>& shares) {
  Pools pools;
  if (!readPoolSizes(q, pools) || !readPoolList(q, "output_size", 1, pools, &Pool::result)) return false;
  for (const Pool& p : pools) {
    if (p.size == 0) return reportShape(q, "cannot average a spatial dim of size 0");
    shares.push_back({p.size, p.result});
  }
  return true;
}

Expr lengthVector(const PoolShare& s, Expr windows, DType dtype) {
  const Expr scaled = windows * s.size;
  const Expr begin = scaled / s.result;
  const Expr end = (scaled + (s.size + s.result - 1)) / s.result;
  return (end - begin).as(dtype);
}

static bool adaptiveRule(const OpQuery& q, Rule& rule) {
  std::vector<PoolShare> shares;
  if (!poolSharesOf(q, shares)) return false;
  const Type& x = q.type(0);
  TensorMap in{{plainDim(addFactor(rule, x.dims[0], "n")), plainDim(addFactor(rule, x.dims[1], "c"))}};
  TensorMap out = in;
  for (size_t i = 0; i < shares.size(); ++i) {
    const uint16_t own = addUnsharded(rule, Dim(shares[i].size), "x" + std::to_string(i)),
                   y = addWindow(rule, Dim(shares[i].result), "y" + std::to_string(i));
    in.dims.push_back(windowDim(freeDim(own), y));
    out.dims.push_back(plainDim(y));
  }
  rule.operands.push_back(std::move(in));
  rule.results.push_back(std::move(out));
  return true;
}

static bool adaptiveEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  std::vector<PoolShare> shares;
  if (!poolSharesOf(q, shares)) return false;
  const Tensor& x = *in[0];
  const std::vector<int64_t> strides = x.strides();
  const bool floats = isFloat(x.dtype());
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t to) {
    std::vector<int64_t> lengths;
    int64_t base = at[0] * strides[0] + at[1] * strides[1], count = 1;
    for (size_t i = 0; i < shares.size(); ++i) {
      const int64_t begin = shares[i].begin(at[i + 2]);
      base += begin * strides[i + 2];
      lengths.push_back(shares[i].end(at[i + 2]) - begin);
      count *= lengths.back();
    }
    long double sum = 0;
    uint64_t integerSum = 0;
    forEachElement(lengths, [&](std::span<const int64_t> k, int64_t) {
      int64_t from = base;
      for (size_t i = 0; i < k.size(); ++i) from += k[i] * strides[i + 2];
      if (floats)
        sum = carried(q, sum + x.getFloat(from));
      else
        integerSum += static_cast<uint64_t>(x.getInt(from));
    });
    storeAverage(*out[0], to, sum, integerSum, count);
  });
  return true;
}

static uint32_t adaptiveElement(const OpQuery& q, ElementBuilder& b, size_t) {
  std::vector<PoolShare> shares;
  if (!poolSharesOf(q, shares)) return 0;
  const DType type = poolSumType(q.type(0).dtype);
  std::vector<ElementNode> loops, at = {b.at(0), b.at(1)};
  ElementNode inside = 0, count = b.number(1, type);
  bool tested = false;
  for (size_t i = 0; i < shares.size(); ++i) {
    const PoolShare& s = shares[i];
    loops.push_back(b.loop(Dim(s.longest())));
    const ElementNode o = b.at(i + 2);
    if (s.even()) {
      at.push_back(b.add(b.mul(o, s.size / s.result), loops.back()));
      count = b.call("mul", {count, b.number(static_cast<double>(s.size / s.result), type)});
      continue;
    }
    const ElementNode begin = b.floorDiv(b.mul(o, s.size), s.result);
    const ElementNode end = b.floorDiv(b.add(b.mul(o, s.size), b.index(s.size + s.result - 1)), s.result);
    at.push_back(b.add(begin, loops.back()));
    count = b.call("mul", {count, b.convert(b.sub(end, begin), type)});
    const ElementNode own = b.call("lt", {at.back(), end});
    inside = tested ? b.call("and", {inside, own}) : own;
    tested = true;
  }
  ElementNode x = b.convert(b.load(0, at, !tested), type);
  if (tested) x = b.call("select", {inside, x, b.number(0, type)});
  return b.call("div", {b.sum(loops, x), count});
}

// Element p is in window o iff o is in window p of the inverse pooling: the windows of `size` over `result`
// elements.
static bool adaptiveGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  const OpQuery q = queryOf(b.module, op, none);
  std::vector<PoolShare> shares;
  if (!poolSharesOf(q, shares)) return false;
  const Type type = q.type(0);
  auto lengths = [&](const PoolShare& s, size_t i) {
    if (s.even()) return Expr(b, b.literal(static_cast<double>(s.size / s.result), type.dtype));
    return alongDim(lengthVector(s, countingVector(b, s.result), type.dtype), i, type.rank());
  };
  std::vector<int64_t> sizes;
  Expr g(b, dy[0]);
  for (size_t i = 0; i < shares.size(); ++i) {
    g = g / lengths(shares[i], i);
    sizes.push_back(shares[i].size);
  }
  g = adaptive_avg_pool(g, sizes);
  for (size_t i = 0; i < shares.size(); ++i) g = g * lengths({shares[i].result, shares[i].size}, i);
  dx.push_back(g);
  return true;
}

void addAdaptivePoolOps(OpRegistry& ops) {
  OpRecord& adaptive = ops.add(
      {.name = "adaptive_avg_pool",
       .family = "window",
       .summary = "averages over a given number of windows: window o of n along a spatial dim of x [n, c, "
                  "spatial…] is [floor(o * size / n), ceil((o + 1) * size / n))"});
  adaptive.attrs = {{"output_size", AttrType::Ints, nullptr, "the number of windows per spatial dim"}};
  adaptive.operandClasses = kNumbers;
  adaptive.scalar = "a";
  adaptive.rule = adaptiveRule;
  adaptive.through = {linear(1, kFloats)};
  adaptive.shard = shardAdaptivePool;
  adaptive.eval = adaptiveEval;
  adaptive.element = adaptiveElement;
  adaptive.gradFn = adaptiveGrad;
  adaptive.samples = "T[2, 3, 7] {output_size = [3]}\nT[1, 2, 10, 3] {output_size = [5, 2]}\nT[2, 3, 4, 5] "
                     "{output_size = [2, 3]}\n"
                     "T[1, 2, 3, 2, 4] {output_size = [1, 4, 2]}";
}

} // namespace dtc
