// concat stack split slice pad: dims put together, taken apart, cut and lengthened.
#include "PieceDims.h"
#include "Window.h"
#include "dtc/Ops/Join.h"

#include <algorithm>

namespace dtc {
namespace {

// Factors of all dims but `dim`, shared by every operand (and result) that has them; `except` is the dim that differs.
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

// a + b, where both are numbers; symbolic sizes do not add.
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
    const uint16_t own = addWhole(rule, q.type(i).dims[at], "c" + std::to_string(i));
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

// Rows of `inner` elements: operand i gives runs of lengths[i] * inner to every outer row.
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

// The value of the operand whose part of the dim the coordinate is in.
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
  AttrId list = sizesToAttr(b.module, sizes);
  OpId split = b.op("split", {{dy[0]}}, {{"sizes", list}, {"dim", b.integer(*dim)}});
  for (size_t i = 0; i < sizes.size(); ++i) dx.push_back(b.module.result(split, i));
  return true;
}

bool stackGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  int64_t dim = *q.dimAttr("dim", q.type(0).rank() + 1);
  size_t count = q.operandTypes.size();
  std::vector<Dim> ones(count, Dim(1));
  AttrId list = sizesToAttr(b.module, ones), dims = b.ints({&dim, 1});
  OpId split = b.op("split", {{dy[0]}}, {{"sizes", list}, {"dim", b.integer(dim)}});
  for (size_t i = 0; i < count; ++i)
    dx.push_back(b.value("squeeze", {b.module.result(split, i)}, {{"dims", dims}}));
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
    if (!isSize(sizes[i])) return reportShape(q, "takes no negative size");
    if (total) total = plus(*total, sizes[i]);
    const uint16_t piece = addWhole(rule, sizes[i], "c" + std::to_string(i));
    rule.results.push_back(mapWith(factors, at, windowDim(freeDim(piece), c)));
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
  OpId joined = b.op("concat", parts, {{"dim", b.integer(dim)}});
  dx.push_back(b.module.result(joined));
  return true;
}

// --- slice ---

bool sliceRule(const OpQuery& q, Rule& rule) {
  std::vector<SliceDim> dims;
  if (!sliceDims(q, dims)) return false;
  TensorMap x, y;
  for (size_t d = 0; d < dims.size(); ++d) {
    std::string name = "i" + std::to_string(d);
    if (dims[d].whole) {
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

void sliceLocalise(const OpQuery& q, std::span<const TypeId> operands, std::span<const TypeId>,
                   AttrList& attrs) {
  std::vector<SliceDim> dims;
  if (!sliceDims(q, dims)) return;
  std::vector<Dim> limits = *sizesAttr(q, "limit");
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d].whole) limits[d] = q.module->types[operands[0]].dims[d];
  setListed(attrs, q.module->strings.intern("limit"), sizesToAttr(*q.module, limits));
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
    interior.push_back(s.whole ? 0 : s.stride - 1);
    int64_t covered = s.size == 0 ? s.start : s.start + (s.size - 1) * s.stride + 1;
    high.push_back(s.whole ? 0 : q.type(0).dims[d].value() - covered);
  }
  dx.push_back(b.value("pad", {dy[0]},
                       {{"low", b.ints(low)}, {"high", b.ints(high)}, {"interior", b.ints(interior)}}));
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
    const uint16_t own = addWhole(rule, Dim(p.size), name),
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
      // Coordinates below 0 would divide towards zero: shifted up by whole steps first.
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

// Where the filling comes from x, each element of dy goes back to where it came from, one dim after the other: dy without the
// filling, and each end of the filling laid where it was taken.
ValueId foldedBack(Builder& b, ValueId g, const PadDim& p, size_t dim, PadMode mode) {
  const Type type = b.module.typeOf(g);
  const int64_t length = type.dims[dim].value();
  auto along = [&](int64_t v) {
    std::vector<int64_t> list(type.rank());
    list[dim] = v;
    return b.ints(list);
  };
  auto laid = [&](ValueId v, int64_t low, int64_t high) {
    return b.value("pad", {v}, {{"low", along(low)}, {"high", along(high)}});
  };
  const AttrId only = b.ints(std::array{static_cast<int64_t>(dim)});
  ValueId sum = laid(g, -p.low, -p.high);
  auto addEnd = [&](int64_t filled, bool atFront) {
    if (filled <= 0) return;
    if (mode == PadMode::Circular) {
      const int64_t to = atFront ? p.size - p.low : -p.low - p.size;
      sum = b.value("add", {sum, laid(g, to, p.size - to - length)});
      return;
    }
    const int64_t count = std::min(filled, length), from = atFront ? 0 : length - count;
    std::vector<Dim> limit = type.dims;
    limit[dim] = Dim(from + count);
    ValueId end = b.value("slice", {g}, {{"start", along(from)}, {"limit", sizesToAttr(b.module, limit)}});
    int64_t to = atFront ? p.low - count + 1 : p.size - 1 - p.high;
    if (mode == PadMode::Reflect) {
      end = b.value("flip", {end}, {{"dims", only}});
    } else {
      if (count > 1) end = b.value("sum", {end}, {{"dims", only}, {"keepdim", b.boolean(true)}});
      to = atFront ? 0 : p.size - 1;
    }
    const int64_t rows = mode == PadMode::Reflect ? count : 1;
    sum = b.value("add", {sum, laid(end, to, p.size - to - rows)});
  };
  addEnd(p.low, true);
  addEnd(p.high, false);
  return sum;
}

// The sum of dy where the filling stands.
ValueId fillingsOf(Builder& b, ValueId dy, const std::vector<PadDim>& dims) {
  Module& m = b.module;
  const Type type = m.typeOf(dy);
  auto with = [&](const char* op, ValueId v, int64_t n) {
    return b.value(op, {v, m.makeLiteral(m.attrs.integer(n), DType::I64, b.loc)});
  };
  ValueId inside;
  for (size_t d = 0; d < dims.size(); ++d) {
    const PadDim& p = dims[d];
    if (p.none()) continue;
    const TypeId row[] = {m.tensorType(DType::I64, std::array{type.dims[d]})};
    const ValueId at = with("sub", m.result(b.op("iota", {}, {{"dim", b.integer(0)}}, row)), p.low);
    ValueId own = b.value("and", {with("ge", at, 0), with("lt", at, (p.interior + 1) * (p.size - 1) + 1)});
    if (p.interior > 0) own = b.value("and", {own, with("eq", with("rem", at, p.interior + 1), 0)});
    std::vector<Dim> thin(type.rank(), Dim(1));
    thin[d] = type.dims[d];
    own = b.value("reshape", {own}, {{"shape", sizesToAttr(m, thin)}});
    inside = inside.valid() ? b.value("and", {inside, own}) : own;
  }
  if (!inside.valid()) return b.constant(0, m.tensorType(type.dtype, std::initializer_list<int64_t>{}));
  return b.value("sum", {b.value("select", {inside, b.literal(0, type.dtype), dy})});
}

// The gradient of constant padding is the slice that undoes it; of its value, what is left.
bool padGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  OpQuery q = queryOf(b.module, op, none);
  std::vector<PadDim> dims;
  if (!padDims(q, dims)) return false;
  if (const PadMode mode = padMode(q); mode != PadMode::Constant) {
    dx.push_back(dy[0]);
    for (size_t d = 0; d < dims.size(); ++d)
      if (!dims[d].none()) dx[0] = foldedBack(b, dx[0], dims[d], d, mode);
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
  ValueId g = dy[0];
  if (crops) { // put back what was taken away before stepping over the interior
    g = b.value("pad", {g}, {{"low", b.ints(low)}, {"high", b.ints(high)}});
    for (size_t d = 0; d < dims.size(); ++d)
      if (!dims[d].none()) limit[d] = Dim(limit[d].value() + low[d] + high[d]);
  }
  g = b.value(
      "slice", {g},
      {{"start", b.ints(start)}, {"limit", sizesToAttr(b.module, limit)}, {"stride", b.ints(stride)}});
  dx.push_back(g);
  if (q.operandTypes.size() > 1) dx.push_back(fillingsOf(b, dy[0], dims));
  return true;
}

// A filling goes through a pending op where it combines with itself to itself.
bool padThroughWhen(const OpQuery& q, const Through& row) {
  if (padMode(q) != PadMode::Constant) return true;
  std::optional<double> filling = q.operandTypes.size() < 2 ? std::optional(0.0) : literalOperand(q, 1);
  if (row.kinds == kindBit(PendingKind::Sum)) return filling && *filling == 0;
  if (row.kinds == kindBit(PendingKind::Prod)) return filling && (*filling == 0 || *filling == 1);
  return true;
}

OpRecord moves(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "shape", .summary = summary};
  r.complex = OpRecord::ComplexForm::Planes;
  r.through = {moving()};
  r.flopsPerPoint = 0;
  return r;
}

} // namespace

static void addSlices(OpRegistry& ops) {
  OpRecord slice = moves("slice", "every stride-th element of [start, limit) in each dim");
  slice.attrs = {{"start", AttrType::Ints}, {"limit", AttrType::Sizes}, {"stride", AttrType::Ints, "", "1s"}};
  slice.rule = sliceRule;
  slice.follow = followByPosition;
  slice.cut = cutSlice;
  slice.localise = sliceLocalise;
  slice.gradFn = sliceGrad;
  slice.samples = "T[5, 6] {start = [0, 1], limit = [5, 5]}\n"
                  "T[7, 3] {start = [1, 0], limit = [7, 3], stride = [2, 1]}\n"
                  "T[5, 3] {start = [0, 0], limit = [5, 3]}";
  slice.identityWhenSameType = true;
  ops.add(std::move(slice));

  OpRecord pad =
      moves("pad", "x with `low` elements before it, `high` after it and `interior` between its own in each "
                   "dim; negative low and high take away");
  pad.operands = "x, value?";
  pad.attrs = {{"low", AttrType::Ints},
               {"high", AttrType::Ints},
               {"interior", AttrType::Ints, "", "0s"},
               {"mode", AttrType::String, "constant"}};
  pad.rule = padRule;
  pad.follow = followByPosition;
  pad.cut = cutPad;
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
  ops.add(std::move(pad));
}

void addPieceOps(OpRegistry& ops) {
  OpRecord concat = moves("concat", "one after the other along `dim`");
  concat.operands = "xs...";
  concat.attrs = {{"dim", AttrType::Dim}};
  concat.rule = concatRule;
  concat.follow = followByPosition;
  concat.cut = cutConcat;
  concat.through = {moving(~0u)};
  concat.eval = joinedEval;
  concat.element = concatElement;
  concat.gradFn = concatGrad;
  concat.samples = "T[5, 3], T[5, 4] {dim = 1}\n"
                   "T[5, 3], T[2, 3] {dim = 0}\n"
                   "T[4], T[3], T[2] {dim = -1}";
  concat.identityWhenSameType = true;
  ops.add(std::move(concat));

  OpRecord stack = moves("stack", "one beside the other along a new dim `dim`");
  stack.operands = "xs...";
  stack.attrs = {{"dim", AttrType::Dim}};
  stack.rule = stackRule;
  stack.cut = cutStack;
  stack.through = {moving(~0u)};
  stack.eval = joinedEval;
  stack.element = stackElement;
  stack.gradFn = stackGrad;
  stack.samples = "T[5, 3], T[5, 3] {dim = 0}\n"
                  "T[5, 3], T[5, 3], T[5, 3], T[5, 3] {dim = 2}";
  ops.add(std::move(stack));

  OpRecord split = moves("split", "x taken apart along `dim`: one result per size");
  split.results = "ys...";
  split.attrs = {{"sizes", AttrType::Sizes}, {"dim", AttrType::Dim}};
  split.rule = splitRule;
  split.follow = followByPosition;
  split.cut = cutSplit;
  split.eval = splitEval;
  split.element = splitElement;
  split.gradFn = splitGrad;
  split.samples = "T[5, 6] {sizes = [2, 4], dim = 1}\n"
                  "T[5, 3] {sizes = [1, 0, 4], dim = 0}";
  ops.add(std::move(split));
  addSlices(ops);
}

} // namespace dtc
