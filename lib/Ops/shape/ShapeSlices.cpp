// concat stack split slice pad: joining, splitting, slicing and padding dims.
#include "dtc/Ops/shape/Join.h"
#include "record/SliceParameters.h"
#include "window/Window.h"

#include <algorithm>

namespace dtc {
namespace {

// Factors of all dims but `dim`, shared by every operand (and result) that has them; `except` is the dim that
// differs.
bool sharedFactors(const OpQuery& q, size_t except, Rule& rule, std::vector<uint16_t>& factors) {
  const std::vector<Dim> dims = q.type(0).dims;
  factors.assign(dims.size(), 0);
  bool ok = true;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d == except) continue;
    factors[d] = addFactor(rule, dims[d], "i" + std::to_string(d));
    for (size_t i = 1; i < q.operandTypes.size(); ++i)
      if (!(q.type(i).dims[d] == dims[d])) ok = reportDims(q, "needs dim", "equal to dim", 0, d, i, d);
  }
  return ok;
}

bool sameRanks(const OpQuery& q) {
  for (size_t i = 1; i < q.operandTypes.size(); ++i)
    if (q.type(i).rank() != q.type(0).rank()) return reportRank(q, i, std::to_string(q.type(0).rank()));
  return true;
}

// a + b, if both are static; symbolic sizes are not added.
std::optional<Dim> plus(Dim a, Dim b) {
  if (a == Dim(0)) return b;
  if (b == Dim(0)) return a;
  if (!a.isStatic() || !b.isStatic()) return std::nullopt;
  auto sum = checkedAdd(a.value(), b.value());
  return sum ? std::optional(Dim(*sum)) : std::nullopt;
}

TensorMap mapWith(const std::vector<uint16_t>& factors, size_t at, DimMap special) {
  TensorMap map;
  for (size_t d = 0; d < factors.size(); ++d) map.dims.push_back(d == at ? special : plainDim(factors[d]));
  return map;
}

// --- concat, stack ---

bool joinsNothing(const OpQuery& q) {
  return q.operandTypes.empty() && !reportShape(q, "takes at least one operand");
}

bool concatRule(const OpQuery& q, Rule& rule) {
  if (joinsNothing(q)) return false;
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim || !sameRanks(q)) return false;
  auto at = static_cast<size_t>(*dim);
  std::vector<uint16_t> factors;
  if (!sharedFactors(q, at, rule, factors)) return false;
  std::optional<Dim> total = Dim(0);
  for (size_t i = 0; i < q.operandTypes.size() && total; ++i) total = plus(*total, q.type(i).dims[at]);
  if (!total) return reportShape(q, "cannot add up symbolic sizes along dim " + std::to_string(at));
  const uint16_t c = addWindow(rule, *total, "c");
  for (size_t i = 0; i < q.operandTypes.size(); ++i) {
    const uint16_t own = addUnsharded(rule, q.type(i).dims[at], "c" + std::to_string(i));
    rule.operands.push_back(mapWith(factors, at, windowDim(freeDim(own), c)));
  }
  rule.results.push_back(mapWith(factors, at, plainDim(c)));
  return true;
}

bool stackRule(const OpQuery& q, Rule& rule) {
  if (joinsNothing(q)) return false;
  auto dim = q.dimAttr("dim", q.type(0).rank() + 1);
  if (!dim || !sameRanks(q)) return false;
  auto at = static_cast<size_t>(*dim);
  std::vector<uint16_t> factors;
  if (!sharedFactors(q, q.type(0).rank(), rule, factors)) return false;
  for (size_t i = 0; i < q.operandTypes.size(); ++i)
    rule.operands.push_back(mapWith(factors, factors.size(), {}));
  factors.insert(factors.begin() + static_cast<ptrdiff_t>(at), 0);
  const uint16_t number = addWindow(rule, Dim(static_cast<int64_t>(q.operandTypes.size())), "n");
  rule.results.push_back(mapWith(factors, at, plainDim(number)));
  return true;
}

// Rows of `inner` elements: operand i provides runs of lengths[i] * inner for every outer row.
bool joinEval(std::span<const Tensor* const> in, Tensor& out, size_t at) {
  auto bytes = static_cast<size_t>(dtypeBytes(out.dtype()));
  size_t outer = 1, offset = 0, row = 0;
  for (size_t d = 0; d < at; ++d) outer *= static_cast<size_t>(out.shape()[d]);
  if (outer == 0) return true;
  row = out.bytes().size() / outer;
  for (const Tensor* t : in) {
    size_t run = static_cast<size_t>(t->numElements()) / outer * bytes;
    if (run == 0) continue;
    for (size_t o = 0; o < outer; ++o)
      std::memcpy(out.bytes().data() + o * row + offset, t->bytes().data() + o * run, run);
    offset += run;
  }
  return true;
}

bool joinedEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  return joinEval(in, *out[0], static_cast<size_t>(*q.dimAttr("dim", out[0]->rank())));
}

// The value of the operand that contains the coordinate.
uint32_t concatElement(const OpQuery& q, ElementBuilder& b, size_t) {
  auto at = static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()));
  std::vector<ElementNode> own = ownCoordinates(b, q.type(0).rank());
  ElementNode value = 0, start = b.index(0);
  for (size_t i = 0; i < q.operandTypes.size(); ++i) {
    std::vector<ElementNode> coordinates = own;
    coordinates[at] = b.sub(own[at], start);
    ElementNode x = b.load(i, coordinates);
    value = i == 0 ? x : b.call("select", {b.call("lt", {own[at], start}), value, x});
    start = b.add(start, b.size(q.type(i).dims[at]));
  }
  return value;
}

uint32_t stackElement(const OpQuery& q, ElementBuilder& b, size_t) {
  size_t rank = q.type(0).rank() + 1;
  auto at = static_cast<size_t>(*q.dimAttr("dim", rank));
  std::vector<ElementNode> own = ownCoordinates(b, rank), inner = own;
  inner.erase(inner.begin() + static_cast<ptrdiff_t>(at));
  ElementNode value = 0;
  for (size_t i = 0; i < q.operandTypes.size(); ++i) {
    ElementNode x = b.load(i, inner, true);
    value =
        i == 0 ? x : b.call("select", {b.call("lt", {own[at], b.index(static_cast<int64_t>(i))}), value, x});
  }
  return value;
}

} // namespace

std::optional<JoinedDim> joinOf(const OpQuery& q) {
  const bool adds = q.record->element == stackElement;
  if ((!adds && q.record->element != concatElement) || q.operandTypes.empty()) return std::nullopt;
  const auto dim = q.dimAttr("dim", q.type(0).rank() + adds);
  if (!dim) return std::nullopt;
  return JoinedDim{static_cast<size_t>(*dim), adds};
}

namespace {

bool concatGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  auto dim = q.dimAttr("dim", q.type(0).rank());
  std::vector<Dim> sizes;
  for (size_t i = 0; i < q.operandTypes.size(); ++i)
    sizes.push_back(q.type(i).dims[static_cast<size_t>(*dim)]);
  for (Expr part : split(Expr(b, dy[0]), {.sizes = sizes, .dim = *dim})) dx.push_back(part);
  return true;
}

bool stackGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  int64_t dim = *q.dimAttr("dim", q.type(0).rank() + 1);
  const std::vector<Dim> ones(q.operandTypes.size(), Dim(1));
  for (Expr part : split(Expr(b, dy[0]), {.sizes = ones, .dim = dim})) dx.push_back(squeeze(part, {dim}));
  return true;
}

// --- split ---

bool splitRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim) return false;
  auto at = static_cast<size_t>(*dim);
  std::vector<Dim> sizes = *sizesAttr(q, "sizes");
  std::vector<uint16_t> factors;
  if (!sharedFactors(q, at, rule, factors)) return false;
  Dim own = q.type(0).dims[at];
  const uint16_t c = addWindow(rule, own, "c");
  rule.operands.push_back(mapWith(factors, at, plainDim(c)));
  std::optional<Dim> total = Dim(0);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!isSize(sizes[i])) return reportShape(q, "takes sizes of at least 0");
    if (total) total = plus(*total, sizes[i]);
    const uint16_t part = addUnsharded(rule, sizes[i], "c" + std::to_string(i));
    rule.results.push_back(mapWith(factors, at, windowDim(freeDim(part), c)));
  }
  if (sizes.empty()) return reportShape(q, "needs at least one size");
  if (total && *total == own) return true;
  return reportShape(q, (total ? "has sizes that add up to " + dimText(q, *total) + ", but dim "
                               : std::string("needs sizes that add up to the size of dim ")) +
                            std::to_string(at) + " has " + dimText(q, own));
}

bool splitEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto at = static_cast<size_t>(*q.dimAttr("dim", in[0]->rank()));
  size_t outer = 1, offset = 0;
  for (size_t d = 0; d < at; ++d) outer *= static_cast<size_t>(in[0]->shape()[d]);
  if (outer == 0) return true;
  size_t row = in[0]->bytes().size() / outer;
  for (Tensor* t : out) {
    size_t run = t->bytes().size() / outer;
    for (size_t o = 0; o < outer && run > 0; ++o)
      std::memcpy(t->bytes().data() + o * run, in[0]->bytes().data() + o * row + offset, run);
    offset += run;
  }
  return true;
}

uint32_t splitElement(const OpQuery& q, ElementBuilder& b, size_t result) {
  auto at = static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()));
  std::vector<Dim> sizes = *sizesAttr(q, "sizes");
  std::vector<ElementNode> own = ownCoordinates(b, q.type(0).rank());
  for (size_t i = 0; i < result; ++i) own[at] = b.add(own[at], b.size(sizes[i]));
  return b.load(0, own, true);
}

bool splitGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  int64_t dim = *q.dimAttr("dim", q.type(0).rank());
  std::vector<ValueId> parts;
  for (size_t i = 0; i < dy.size(); ++i)
    parts.push_back(dy[i].valid() ? dy[i] : b.constant(0, b.module[b.module.result(op, i)].type));
  dx.push_back(ops::concat(b, parts, dim));
  return true;
}

// --- slice ---

bool sliceRule(const OpQuery& q, Rule& rule) {
  std::vector<SliceDim> dims;
  if (!sliceDims(q, dims)) return false;
  TensorMap x, y;
  for (size_t d = 0; d < dims.size(); ++d) {
    std::string name = "i" + std::to_string(d);
    if (dims[d].full) {
      uint16_t f = addFactor(rule, q.type(0).dims[d], name);
      x.dims.push_back(plainDim(f));
      y.dims.push_back(plainDim(f));
      continue;
    }
    uint16_t f = addWindow(rule, Dim(dims[d].size), name);
    x.dims.push_back(windowDim({DimMap::Affine, {{f, dims[d].stride}}, dims[d].start}, f));
    y.dims.push_back(plainDim(f));
  }
  rule.operands.push_back(std::move(x));
  rule.results.push_back(std::move(y));
  return true;
}

void sliceLocalize(const OpQuery& q, std::span<const TypeId> operands, std::span<const TypeId>,
                   AttrList& attrs) {
  std::vector<SliceDim> dims;
  if (!sliceDims(q, dims)) return;
  std::vector<Dim> limits = *sizesAttr(q, "limit");
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d].full) limits[d] = q.module->types[operands[0]].dims[d];
  setListed(attrs, q.module->strings.intern("limit"), sizesAttr(*q.module, limits));
}

bool sliceGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  std::vector<SliceDim> dims;
  if (!sliceDims(q, dims)) return false;
  std::vector<int64_t> low, high, interior;
  for (size_t d = 0; d < dims.size(); ++d) {
    const SliceDim& s = dims[d];
    low.push_back(s.start);
    interior.push_back(s.full ? 0 : s.stride - 1);
    int64_t covered = s.size == 0 ? s.start : s.start + (s.size - 1) * s.stride + 1;
    high.push_back(s.full ? 0 : q.type(0).dims[d].value() - covered);
  }
  dx.push_back(pad(Expr(b, dy[0]), {.low = low, .high = high, .interior = interior}));
  return true;
}

// --- pad ---

bool padRule(const OpQuery& q, Rule& rule) {
  std::vector<PadDim> dims;
  if (!padDims(q, dims)) return false;
  if (q.operandTypes.size() > 1 && q.type(1).rank() != 0) return reportRank(q, 1, "0");
  TensorMap x, y;
  for (size_t d = 0; d < dims.size(); ++d) {
    const PadDim& p = dims[d];
    std::string name = "i" + std::to_string(d);
    if (p.none()) {
      uint16_t f = addFactor(rule, q.type(0).dims[d], name);
      x.dims.push_back(plainDim(f));
      y.dims.push_back(plainDim(f));
      continue;
    }
    auto between = checkedMul(p.interior, std::max<int64_t>(p.size - 1, 0));
    auto inner = between ? checkedAdd(*between, p.size) : std::nullopt;
    auto longer = inner ? checkedAdd(*inner, p.low + p.high) : std::nullopt;
    if (!longer || *longer < 0)
      return reportShape(q, longer ? "removes more elements than dim " + std::to_string(d) + " has"
                                   : "makes a dim of more than 2^63-1 elements");
    const uint16_t own = addUnsharded(rule, Dim(p.size), name),
                   o = addWindow(rule, Dim(*longer), "o" + std::to_string(d));
    x.dims.push_back(windowDim(freeDim(own), o));
    y.dims.push_back(plainDim(o));
  }
  rule.operands.push_back(std::move(x));
  if (q.operandTypes.size() > 1) rule.operands.emplace_back();
  rule.results.push_back(std::move(y));
  return true;
}

bool padEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  std::vector<PadDim> dims;
  if (!padDims(q, dims)) return false;
  const PadMode mode = padMode(q);
  for (size_t d = 0; d < dims.size(); ++d) dims[d].size = in[0]->shape()[d];
  std::vector<int64_t> strides = in[0]->strides();
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    int64_t from = 0;
    for (size_t d = 0; d < dims.size() && from >= 0; ++d) {
      int64_t s = dims[d].source(at[d], mode);
      from = s < 0 ? -1 : from + s * strides[d];
    }
    if (from >= 0)
      copyElement(*out[0], i, *in[0], from);
    else if (in.size() > 1)
      copyElement(*out[0], i, *in[1], 0);
  });
  return true;
}

uint32_t padElement(const OpQuery& q, ElementBuilder& b, size_t) {
  std::vector<PadDim> dims;
  if (!padDims(q, dims)) return 0;
  const PadMode mode = padMode(q);
  std::vector<ElementNode> at = ownCoordinates(b, dims.size());
  ElementNode zero = b.index(0), inside = 0;
  bool tested = false;
  auto require = [&](ElementNode test) {
    inside = tested ? b.call("and", {inside, test}) : test;
    tested = true;
  };
  for (size_t d = 0; d < dims.size(); ++d) {
    const PadDim& p = dims[d];
    if (p.none()) continue;
    ElementNode i = b.sub(at[d], b.index(p.low)), last = b.index(p.size - 1);
    if (mode == PadMode::Replicate) {
      at[d] = b.call("min", {b.call("max", {i, zero}), last});
    } else if (mode == PadMode::Circular) {
      at[d] = b.mod(b.add(i, b.index(p.size)), p.size);
    } else if (mode == PadMode::Reflect) {
      ElementNode mirrored = b.call("abs", {i});
      ElementNode back = b.sub(b.index(2 * (p.size - 1)), mirrored);
      at[d] = b.call("select", {b.call("lt", {last, mirrored}), back, mirrored});
    } else {
      int64_t step = p.interior + 1;
      // Division truncates, so negative coordinates are first shifted up by whole steps.
      int64_t shift = p.low > 0 ? (p.low + step - 1) / step * step : 0;
      ElementNode up = b.add(i, b.index(shift));
      at[d] = step == 1 ? i : b.sub(b.floorDiv(up, step), b.index(shift / step));
      require(b.call("ge", {at[d], zero}));
      require(b.call("le", {at[d], last}));
      if (step > 1) require(b.call("eq", {b.mod(up, step), zero}));
    }
  }
  ElementNode x = b.load(0, at);
  if (!tested) return x;
  DType dtype = q.type(0).dtype;
  return b.call("select", {inside, x, q.operandTypes.size() > 1 ? b.load(1, {}, true) : b.number(0, dtype)});
}

// If the padding is taken from x, each element of dy is added to its source, one dim after the other: dy
// without the padding, plus each end of the padding at its source.
Expr foldedBack(Expr g, const PadDim& p, size_t dim, PadMode mode) {
  const Type type = g.type();
  const int64_t length = type.dims[dim].value();
  auto along = [&](int64_t v) {
    std::vector<int64_t> list(type.rank());
    list[dim] = v;
    return g.builder().ints(list);
  };
  auto laid = [&](Expr v, int64_t low, int64_t high) {
    return pad(v, {.low = along(low), .high = along(high)});
  };
  const std::array only = {static_cast<int64_t>(dim)};
  Expr total = laid(g, -p.low, -p.high);
  auto addEnd = [&](int64_t filled, bool atFront) {
    if (filled <= 0) return;
    if (mode == PadMode::Circular) {
      const int64_t to = atFront ? p.size - p.low : -p.low - p.size;
      total = total + laid(g, to, p.size - to - length);
      return;
    }
    const int64_t count = std::min(filled, length), from = atFront ? 0 : length - count;
    std::vector<Dim> limit = type.dims;
    limit[dim] = Dim(from + count);
    Expr end = slice(g, {.start = along(from), .limit = limit});
    int64_t to = atFront ? p.low - count + 1 : p.size - 1 - p.high;
    if (mode == PadMode::Reflect) {
      end = flip(end, only);
    } else {
      if (count > 1) end = sum(end, {.dims = only, .keepdim = true});
      to = atFront ? 0 : p.size - 1;
    }
    const int64_t rows = mode == PadMode::Reflect ? count : 1;
    total = total + laid(end, to, p.size - to - rows);
  };
  addEnd(p.low, true);
  addEnd(p.high, false);
  return total;
}

// The sum of dy over the padding.
Expr fillingsOf(Expr dy, const std::vector<PadDim>& dims) {
  Builder& b = dy.builder();
  Module& m = b.module;
  const Type type = dy.type();
  Expr inside;
  for (size_t d = 0; d < dims.size(); ++d) {
    const PadDim& p = dims[d];
    if (p.none()) continue;
    const Expr at = ops::iota(b, m.tensorType(DType::I64, std::array{type.dims[d]}), {.dim = 0}) - p.low;
    Expr own = at >= 0;
    own = own & (at < (p.interior + 1) * (p.size - 1) + 1);
    if (p.interior > 0) own = own & eq(at % (p.interior + 1), 0);
    std::vector<Dim> thin(type.rank(), Dim(1));
    thin[d] = type.dims[d];
    own = reshape(own, thin);
    inside = inside.valid() ? inside & own : own;
  }
  if (!inside.valid())
    return Expr(b, b.constant(0, m.tensorType(type.dtype, std::initializer_list<int64_t>{})));
  return sum(select(inside, 0, dy));
}

// The gradient of constant padding is the inverse slice; that of the fill value is the sum of the rest.
bool padGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  std::vector<PadDim> dims;
  if (!padDims(q, dims)) return false;
  if (const PadMode mode = padMode(q); mode != PadMode::Constant) {
    Expr g(b, dy[0]);
    for (size_t d = 0; d < dims.size(); ++d)
      if (!dims[d].none()) g = foldedBack(g, dims[d], d, mode);
    dx.push_back(g);
    return true;
  }
  const Type out = b.module.typeOf(dy[0]);
  std::vector<int64_t> start, stride, low, high;
  std::vector<Dim> limit;
  for (size_t d = 0; d < dims.size(); ++d) {
    const PadDim& p = dims[d];
    low.push_back(std::max<int64_t>(-p.low, 0));
    high.push_back(std::max<int64_t>(-p.high, 0));
    start.push_back(std::max<int64_t>(p.low, 0));
    stride.push_back(p.interior + 1);
    limit.push_back(p.none() ? out.dims[d] : Dim(out.dims[d].value() - std::max<int64_t>(p.high, 0)));
  }
  bool crops = std::any_of(low.begin(), low.end(), [](int64_t v) { return v > 0; }) ||
               std::any_of(high.begin(), high.end(), [](int64_t v) { return v > 0; });
  Expr g(b, dy[0]);
  if (crops) { // restore cropped elements before skipping the interior
    g = pad(g, {.low = low, .high = high});
    for (size_t d = 0; d < dims.size(); ++d)
      if (!dims[d].none()) limit[d] = Dim(limit[d].value() + low[d] + high[d]);
  }
  g = slice(g, {.start = start, .limit = limit, .stride = stride});
  dx.push_back(g);
  if (q.operandTypes.size() > 1) dx.push_back(fillingsOf(Expr(b, dy[0]), dims));
  return true;
}

// Padding passes a pending op under which the fill value combines with itself to itself.
bool padThroughWhen(const OpQuery& q, const Through& row) {
  if (padMode(q) != PadMode::Constant) return true;
  std::optional<double> filling = q.operandTypes.size() < 2 ? std::optional(0.0) : literalOperand(q, 1);
  if (row.kinds == kindBit(PendingKind::Sum)) return filling && *filling == 0;
  if (row.kinds == kindBit(PendingKind::Prod)) return filling && (*filling == 0 || *filling == 1);
  return true;
}

} // namespace

static void addSlices(OpRegistry& ops) {
  OpRecord& slice =
      ops.add(dataMovement("slice", "shape", "every stride-th element of [start, limit) in each dim"));
  slice.attrs = {{"start", AttrType::Ints}, {"limit", AttrType::Sizes}, {"stride", AttrType::Ints, "", "1s"}};
  slice.rule = sliceRule;
  slice.follow = followByPosition;
  slice.shard = shardSlice;
  slice.localize = sliceLocalize;
  slice.gradFn = sliceGrad;
  slice.samples = "T[5, 6] {start = [0, 1], limit = [5, 5]}\n"
                  "T[7, 3] {start = [1, 0], limit = [7, 3], stride = [2, 1]}\n"
                  "T[5, 3] {start = [0, 0], limit = [5, 3]}";
  slice.identityWhenSameType = true;

  OpRecord& pad = ops.add(
      dataMovement("pad", "shape",
                   "x with `low` elements before it, `high` after it and `interior` between its own in each "
                   "dim; negative low and high crop"));
  pad.operands = "x, value?";
  pad.attrs = {{"low", AttrType::Ints},
               {"high", AttrType::Ints},
               {"interior", AttrType::Ints, "", "0s"},
               {"mode", AttrType::String, "constant"}};
  pad.rule = padRule;
  pad.follow = followByPosition;
  pad.shard = shardPad;
  pad.through = {{ThroughRow::Moving, 1, false, ~0u, kindBit(PendingKind::Sum)},
                 {ThroughRow::Moving, 1, false, ~0u, kindBit(PendingKind::Prod)},
                 {ThroughRow::Moving, 1, false, ~0u,
                  static_cast<uint16_t>(kindBit(PendingKind::Max) | kindBit(PendingKind::Min) |
                                        kindBit(PendingKind::Any) | kindBit(PendingKind::All) |
                                        kindBit(PendingKind::Avg))},
                 moving(0b11)};
  pad.throughWhen = padThroughWhen;
  pad.eval = padEval;
  pad.element = padElement;
  pad.gradFn = padGrad;
  pad.samples = "T[5, 3] {low = [0, 1], high = [0, 2]}\n"
                "T[5, 3], T[] {low = [1, 0], high = [-2, 0]}\n"
                "T[5, 3], 2.0 {low = [0, 1], high = [0, 0], interior = [0, 1]}\n"
                "T[5, 3], 0.0 {low = [0, 1], high = [1, 0]}\nT[5, 3], 1.0 {low = [1, 0], high = [0, 2]}\n"
                "T[5, 4] {low = [0, 2], high = [0, 3], mode = \"reflect\"}\n"
                "T[5, 3] {low = [2, 0], high = [1, 0], mode = \"replicate\"}\n"
                "T[5, 3] {low = [3, 0], high = [5, 0], mode = \"circular\"}";
}

void addSliceOps(OpRegistry& ops) {
  OpRecord& concat = ops.add(dataMovement("concat", "shape", "concatenates tensors along `dim`"));
  concat.operands = "xs...";
  concat.attrs = {{"dim", AttrType::Dim}};
  concat.rule = concatRule;
  concat.follow = followByPosition;
  concat.shard = shardConcat;
  concat.through = {moving(~0u)};
  concat.eval = joinedEval;
  concat.element = concatElement;
  concat.gradFn = concatGrad;
  concat.samples = "T[5, 3], T[5, 4] {dim = 1}\n"
                   "T[5, 3], T[2, 3] {dim = 0}\n"
                   "T[4], T[3], T[2] {dim = -1}";
  concat.identityWhenSameType = true;

  OpRecord& stack = ops.add(dataMovement("stack", "shape", "stacks tensors along a new dim `dim`"));
  stack.operands = "xs...";
  stack.attrs = {{"dim", AttrType::Dim}};
  stack.rule = stackRule;
  stack.shard = shardStack;
  stack.through = {moving(~0u)};
  stack.eval = joinedEval;
  stack.element = stackElement;
  stack.gradFn = stackGrad;
  stack.samples = "T[5, 3], T[5, 3] {dim = 0}\n"
                  "T[5, 3], T[5, 3], T[5, 3], T[5, 3] {dim = 2}";

  OpRecord& split = ops.add(dataMovement("split", "shape", "splits x along `dim`: one result per size"));
  split.results = "ys...";
  split.attrs = {{"sizes", AttrType::Sizes}, {"dim", AttrType::Dim}};
  split.rule = splitRule;
  split.follow = followByPosition;
  split.shard = shardSplit;
  split.eval = splitEval;
  split.element = splitElement;
  split.gradFn = splitGrad;
  split.samples = "T[5, 6] {sizes = [2, 4], dim = 1}\n"
                  "T[5, 3] {sizes = [1, 0, 4], dim = 0}";
  addSlices(ops);
}

} // namespace dtc
