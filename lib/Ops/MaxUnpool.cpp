// max_unpool: the gradient of max_pool. What each window gave goes back to where it stood.
#include "CarriedSum.h"
#include "Pooling.h"
#include "Window.h"
#include "dtc/IR/LocalShape.h"

namespace dtc {

namespace {

// Element o of y, along a spatial dim, comes from [stride * o - low, stride * o - low + reach) of the `size` places of the result.
struct Origin {
  int64_t size = 0, stride = 1, low = 0, reach = 1, given = 0; // given: y's size
  // How many elements may come from one place.
  [[nodiscard]] int64_t most() const { return (reach + stride - 1) / stride; }
};

bool originsOf(const OpQuery& q, std::vector<Origin>& origins) {
  if (q.type(0).rank() < 3) return reportRank(q, 0, "3 or more");
  if (q.type(1).dims != q.type(0).dims) return reportShape(q, "needs one index for each element of y");
  const std::vector<int64_t> size = q.intsAttr("size"), stride = q.intsAttr("stride"),
                             low = q.intsAttr("low"), reach = q.intsAttr("reach");
  const size_t spatial = q.type(0).rank() - 2;
  for (const auto* list : {&size, &stride, &low, &reach})
    if (list->size() != spatial)
      return reportShape(q, "needs size, stride, low and reach with a number for each of " +
                                std::to_string(spatial) + " spatial dims");
  for (size_t i = 0; i < spatial; ++i) {
    const Dim given = q.type(0).dims[i + 2];
    if (!given.isStatic() || size[i] < 0 || stride[i] < 1 || low[i] < 0 || reach[i] < 1)
      return reportShape(q, "needs sizes that are numbers, and strides and reaches of at least 1");
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
    const uint16_t own = addWhole(rule, Dim(origins[i].given), "y" + std::to_string(i)),
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
  std::vector<uint64_t> whole(sums.size());
  forEachElement(in[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    int64_t rest = in[1]->getInt(i), to = at[0] * strides[0] + at[1] * strides[1];
    if (rest < 0) return;
    for (size_t d = origins.size(); d-- > 0;) {
      const Origin& o = origins[d];
      const int64_t place = d == 0 ? rest : rest % o.size, begin = o.stride * at[d + 2] - o.low;
      rest /= std::max<int64_t>(o.size, 1);
      if (place < begin || place >= begin + o.reach || place >= o.size) return;
      to += place * strides[d + 2];
    }
    if (floats)
      sums[static_cast<size_t>(to)] = carried(q, sums[static_cast<size_t>(to)] + in[0]->getFloat(i));
    else
      whole[static_cast<size_t>(to)] += static_cast<uint64_t>(in[0]->getInt(i));
  });
  for (size_t i = 0; i < sums.size(); ++i)
    if (floats)
      x.setFloat(static_cast<int64_t>(i), static_cast<double>(sums[i]));
    else
      x.setInt(static_cast<int64_t>(i), static_cast<int64_t>(whole[i]));
  return true;
}

// Every place asks the windows that see it.
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
    loops.push_back(b.loop(Dim(o.most())));
    const ElementNode at = b.at(i + 2), up = b.add(at, b.index(o.low));
    from.push_back(b.sub(b.floorDiv(up, o.stride), loops.back()));
    if (o.reach % o.stride != 0)
      require(b.call("lt", {b.sub(up, b.mul(from.back(), o.stride)), b.index(o.reach)}));
    flat = b.add(b.mul(flat, o.size), at);
  }
  // What lies outside reads as 0.
  require(b.call("eq", {b.load(1, from), b.convert(flat, q.type(1).dtype)}));
  const DType type = poolSumType(q.type(0).dtype);
  const ElementNode y = b.convert(b.load(0, from), type);
  return b.sum(loops, b.call("select", {seen, y, b.number(0, type)}));
}

// Zeros, and y's elements one after the other to where they belong: fewer steps than asking from every place. Sums of narrow floats
// are rounded once: place by place.
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
    const ElementNode place = i == 0 ? rest : b.mod(rest, size);
    if (i > 0) rest = b.floorDiv(rest, size);
    const ElementNode within = b.sub(place, b.sub(b.mul(from[i + 2], o.stride), b.index(o.low)));
    own = b.call("and", {own, b.call("ge", {within, b.index(0)})});
    own = b.call("and", {own, b.call("lt", {within, b.index(o.reach)})});
    if (i == 0) own = b.call("and", {own, b.call("lt", {place, b.index(o.size)})});
    to[i + 2] = place;
  }
  b.store(0, to, b.load(0, from, true), own, "add");
  return true;
}

// The places along each spatial dim that flat places (i64, none negative) stand for.
std::vector<ValueId> placesAlong(Builder& b, ValueId flat, const std::vector<Origin>& origins) {
  const Counts c{b};
  std::vector<ValueId> at(origins.size());
  for (size_t i = origins.size(); i-- > 0;) {
    at[i] = i == 0 ? flat : c.of("rem", flat, std::max<int64_t>(origins[i].size, 1));
    if (i > 0) flat = c.of("floor_div", flat, std::max<int64_t>(origins[i].size, 1));
  }
  return at;
}

ValueId within(Builder& b, ValueId v, ValueId begin, int64_t length, ValueId all) {
  const ValueId own = b.value("sub", {v, begin});
  const Counts c{b};
  const ValueId in = b.value("and", {c.of("ge", own, 0), c.of("lt", own, length)});
  return b.value("and", {all, in});
}

// Each element of y is the one of the cotangent at its index.
bool unpoolGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  std::vector<Origin> origins;
  if (!originsOf(q, origins)) return false;
  const Type y = q.type(0);
  int64_t places = 1, count = 1;
  for (const Origin& o : origins) places *= o.size, count *= o.given;
  if (places == 0 || count == 0) {
    dx = {b.constant(0, q.operandTypes[0]), {}};
    return true;
  }
  const Counts c{b};
  const ValueId index = c.as(m.operand(op, 1), DType::I64), inside = c.of("max", index, 0);
  const std::vector<ValueId> at = placesAlong(b, inside, origins);
  ValueId seen = c.of("ge", index, 0);
  for (size_t i = 0; i < origins.size(); ++i) {
    const Origin& o = origins[i];
    const ValueId begin =
        alongDim(b, c.of("sub", c.of("mul", c.places(o.given), o.stride), o.low), i, y.rank());
    seen = within(b, at[i], begin, o.reach, seen);
    seen = b.value("and", {seen, c.of("lt", at[i], o.size)});
  }
  auto flat = [&](ValueId v, int64_t n) {
    const std::vector<Dim> shape = {y.dims[0], y.dims[1], Dim(n)};
    return b.value("reshape", {v}, {{"shape", sizesToAttr(m, shape)}});
  };
  const ValueId from = flat(c.of("min", inside, places - 1), count);
  ValueId g = b.value("gather", {flat(dy[0], places), from}, {{"dim", b.integer(2)}});
  g = b.value("reshape", {g}, {{"shape", sizesToAttr(m, y.dims)}});
  dx = {b.value("select", {seen, g, b.literal(0, y.dtype)}), {}};
  return true;
}

// Each device fetches the elements that may come from its piece, lays them out from where the first may come, and takes its piece.
class UnpoolCutter {
public:
  UnpoolCutter(CutOp& op, const std::vector<Origin>& origins)
      : op_(op), b_(op.b), whole_(origins), local_(origins), y_(op.operands[0]), index_(op.operands[1]) {}

  bool write(std::vector<ValueId>& results) {
    for (size_t i = 0; i < whole_.size(); ++i) {
      shift_.emplace_back();
      start_.emplace_back();
      if (const CutFactor& cut = op_.resultCut(0, i + 2); cut.cut() && !fetch(i, cut)) return false;
    }
    relocate();
    std::vector<int64_t> size, stride, low, reach;
    for (const Origin& o : local_)
      size.push_back(o.size), stride.push_back(o.stride), low.push_back(o.low), reach.push_back(o.reach);
    ValueId x = b_.value("max_unpool", {y_, index_},
                         {{"size", b_.ints(size)},
                          {"stride", b_.ints(stride)},
                          {"low", b_.ints(low)},
                          {"reach", b_.ints(reach)}});
    for (size_t i = 0; i < whole_.size(); ++i)
      if (const CutFactor& cut = op_.resultCut(0, i + 2); cut.cut()) x = piece(x, i, cut);
    results.push_back(x);
    return true;
  }

private:
  // The local result begins where the buffer's first element may come from; where windows skip places, an element earlier.
  bool fetch(size_t i, const CutFactor& cut) {
    const Origin& o = whole_[i];
    if (o.size == 0 || o.given == 0) return false;
    WindowFetch f(op_, i + 2, cut);
    for (ValueId v : {y_, index_}) {
      WindowRead read{
          .result = o.size, .first = o.low - o.reach + o.stride, .last = o.low, .divide = o.stride};
      read.sources.push_back({.x = v, .size = o.given});
      read.fill = op_.scalar(0, v);
      f.add(std::move(read));
    }
    std::vector<ValueId> buffers;
    if (!f.run(buffers)) return false;
    y_ = buffers[0], index_ = buffers[1];
    const Counts c{b_};
    const int64_t earlier = o.reach < o.stride ? 1 : 0, rows = f.rows(0) + earlier;
    if (earlier > 0) {
      std::vector<int64_t> low(whole_.size() + 2), high = low;
      low[i + 2] = earlier;
      for (ValueId* v : {&y_, &index_})
        *v = b_.value("pad", {*v}, {{"low", b_.ints(low)}, {"high", b_.ints(high)}});
    }
    local_[i].given = rows;
    local_[i].low = 0;
    local_[i].size = std::max(o.stride * (rows - 1) + o.reach,
                              earlier * o.stride + o.reach - 1 + largestPiece(o.size, cut));
    const ValueId first = op_.convert(f.firstRow(0), DType::I64);
    shift_[i] = c.of("sub", c.of("mul", first, o.stride), o.low + earlier * o.stride);
    start_[i] = b_.value("sub", {op_.convert(f.firstResult(0), DType::I64), shift_[i]});
    return true;
  }

  // The indices in the local result.
  void relocate() {
    const Counts c{b_};
    const ValueId index = op_.convert(index_, DType::I64);
    const std::vector<ValueId> at = placesAlong(b_, c.of("max", index, 0), whole_);
    ValueId flat = c.number(0), inside = c.of("ge", index, 0);
    for (size_t i = 0; i < whole_.size(); ++i) {
      const ValueId begin = shift_[i].valid() ? shift_[i] : c.number(0);
      inside = within(b_, at[i], begin, local_[i].size, inside);
      flat = b_.value("add", {c.of("mul", flat, local_[i].size), b_.value("sub", {at[i], begin})});
    }
    index_ = op_.convert(b_.value("select", {inside, flat, c.number(-1)}), op_.dtypeOf(index_));
  }

  ValueId piece(ValueId x, size_t i, const CutFactor& cut) {
    std::vector<Dim> sizes = op_.typeOf(x).dims;
    sizes[i + 2] = Dim(largestPiece(whole_[i].size, cut));
    std::vector<ValueId> operands = {x};
    for (size_t d = 0; d < sizes.size(); ++d)
      operands.push_back(d == i + 2 ? start_[i] : integer(op_, 0, DType::I64));
    x = b_.module.result(b_.op("dynamic_slice", operands, {{"sizes", sizesToAttr(b_.module, sizes)}}));
    return trimmed(op_, x, i + 2, whole_[i].size, cut);
  }

  CutOp& op_;
  Builder& b_;
  const std::vector<Origin>& whole_;
  std::vector<Origin> local_;
  ValueId y_, index_;
  std::vector<ValueId> shift_,
      start_; // by spatial dim, i64: the place that local 0 is; where the piece begins. Invalid: not cut
};

bool cutUnpool(CutOp& op, std::vector<ValueId>& results) {
  std::vector<Origin> origins;
  return originsOf(op.whole, origins) && UnpoolCutter(op, origins).write(results);
}

} // namespace

void addMaxUnpoolOps(OpRegistry& ops) {
  OpRecord r{.name = "max_unpool",
             .family = "window",
             .summary =
                 "max_pool's gradient: y's elements [n, c, spatial…] added up where their indices (flat "
                 "over the spatial dims of the result) say; an index outside of where its element may come "
                 "from counts nothing"};
  r.operands = "y, indices";
  r.operandTypes = "T, int";
  r.operandClasses = kNumbers;
  r.attrs = {{"size", AttrType::Ints, nullptr, "of the result, one number per spatial dim"},
             {"stride", AttrType::Ints, nullptr,
              "element o may come from [stride * o - low, stride * o - low + reach)"},
             {"low", AttrType::Ints, nullptr, ""},
             {"reach", AttrType::Ints, nullptr, ""}};
  r.rule = unpoolRule;
  r.scalar = "a"; // of each place: no move
  r.through = {linear(1), moving(1)};
  r.throughWhen = [](const OpQuery& q, const Through& row) {
    const std::vector<int64_t> stride = q.intsAttr("stride"), reach = q.intsAttr("reach");
    return row.row != ThroughRow::Moving ||
           std::equal(reach.begin(), reach.end(), stride.begin(), stride.end(), std::less_equal<>());
  };
  r.cut = cutUnpool;
  r.eval = unpoolEval;
  r.element = unpoolElement;
  r.stores = unpoolStores;
  r.gradFn = unpoolGrad;
  r.samples =
      "T[2, 3, 4], i32[2, 3, 4] in 2..5 {size = [7], stride = [1], low = [0], reach = [4]}\n"
      "T[2, 1, 4, 3], i32[2, 1, 4, 3] in 3..7 {size = [5, 4], stride = [1, 1], low = [1, 0], reach = [3, "
      "2]}\n"
      "T[1, 2, 3], i32[1, 2, 3] in -1..8 {size = [8], stride = [3], low = [1], reach = [1]}";
  ops.add(std::move(r));
}

} // namespace dtc
