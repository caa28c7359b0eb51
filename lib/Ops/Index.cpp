// gather scatter index_select embedding one_hot: elements chosen by number. What is looked up may be cut: each device
// answers for its own numbers, and the others give nothing (a masked sum).
#include "ShapeParts.h"
#include "dtc/Ops/Scalar.h"

#include <algorithm>
#include <limits>

namespace dtc {
namespace {

inline constexpr DiagKind kIndexRange{"index-out-of-range",
                                      "'{0}': index {1} is out of range: there are {2}, from 0"};

// The numbered dim of the operand that is looked into: cut, the result is a masked sum (of bools: any).
uint16_t addLookedUp(const OpQuery& q, Rule& rule, Dim size, DType dtype) {
  uint16_t f =
      addFactor(rule, size, "v", FactorKind::Reduce, isBool(dtype) ? PendingKind::Any : PendingKind::Sum);
  rule.factors[f].placed = true;
  (void)q;
  return f;
}

// Which row of the local piece an index means: -1 where another device has it. False with a diagnostic out of range.
bool rowOf(const OpQuery& q, int64_t index, int64_t size, const Tensor* offset, int64_t& row) {
  if (offset) {
    row = index - offset->getInt(0);
    if (row < 0 || row >= size) row = -1;
    return true;
  }
  row = index;
  if (index >= 0 && index < size) return true;
  q.diags->error(kIndexRange, q.loc, q.record->name, index, size);
  return false;
}

// What a device that does not have the row adds to a sum: -0.0, so that the sum is the row bit for bit.
void clearElement(Tensor& t, int64_t i) {
  if (isFloat(t.dtype())) t.setFloat(i, -0.0);
}

const Tensor* offsetOf(const OpQuery& q, std::span<const Tensor* const> in) {
  auto at = static_cast<size_t>(q.record->offsetOperand);
  return in.size() > at ? in[at] : nullptr;
}

// The row as a kernel's coordinate, and what it reads where the row is not here.
ElementNode rowNode(const OpQuery& q, ElementBuilder& b, ElementNode index) {
  auto at = static_cast<size_t>(q.record->offsetOperand);
  ElementNode row = b.convert(index, DType::I64);
  return q.operandTypes.size() > at ? b.sub(row, b.convert(b.load(at, {}, true), DType::I64)) : row;
}
ElementNode maskedLoad(const OpQuery& q, ElementBuilder& b, size_t operand, std::span<const ElementNode> at,
                       ElementNode row, Dim size) {
  ElementNode x = b.load(operand, at);
  DType dtype = q.type(operand).dtype;
  if (q.operandTypes.size() <= static_cast<size_t>(q.record->offsetOperand) || !isFloat(dtype)) return x;
  ElementNode inside = b.call("and", {b.call("ge", {row, b.index(0)}), b.call("lt", {row, b.size(size)})});
  return b.call("select", {inside, x, b.number(-0.0, dtype)});
}

// --- index_select, embedding: dim `dim` of x is replaced by the dims of the indices ---

struct Selection {
  size_t source = 0, indices = 1, dim = 0; // operands, and the dim of the source
};

std::optional<Selection> selectionOf(const OpQuery& q) {
  Selection s;
  if (std::string_view(q.record->operands).starts_with("indices")) {
    s.source = 1, s.indices = 0;
    if (q.type(1).rank() == 2) return s;
    if (q.diags) reportRank(q, 1, "2");
    return std::nullopt;
  }
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim) return std::nullopt;
  s.dim = static_cast<size_t>(*dim);
  return s;
}

bool selectRule(const OpQuery& q, Rule& rule) {
  auto s = selectionOf(q);
  if (!s) return false;
  const Type source = q.type(s->source), indices = q.type(s->indices);
  TensorMap x, n, y;
  for (size_t d = 0; d < indices.rank(); ++d)
    n.dims.push_back(plainDim(addFactor(rule, indices.dims[d], "n" + std::to_string(d))));
  for (size_t d = 0; d < source.rank(); ++d) {
    if (d == s->dim) {
      x.dims.push_back(freeDim(addLookedUp(q, rule, source.dims[d], source.dtype)));
      y.dims.insert(y.dims.end(), n.dims.begin(), n.dims.end());
    } else {
      x.dims.push_back(plainDim(addFactor(rule, source.dims[d], "i" + std::to_string(d))));
      y.dims.push_back(x.dims.back());
    }
  }
  rule.operands.resize(q.operandTypes.size());
  rule.operands[s->source] = std::move(x);
  rule.operands[s->indices] = std::move(n);
  rule.results.push_back(std::move(y));
  return true;
}

bool selectEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto s = selectionOf(q);
  if (!s) return false;
  const Tensor &x = *in[s->source], &n = *in[s->indices];
  const Tensor* offset = offsetOf(q, in);
  int64_t outer = 1, inner = 1, size = x.shape()[s->dim];
  for (size_t d = 0; d < s->dim; ++d) outer *= x.shape()[d];
  for (size_t d = s->dim + 1; d < x.rank(); ++d) inner *= x.shape()[d];
  int64_t count = n.numElements();
  for (int64_t k = 0; k < count; ++k) {
    int64_t row = 0;
    if (!rowOf(q, n.getInt(k), size, offset, row)) return false;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        int64_t to = (o * count + k) * inner + i;
        if (row < 0)
          clearElement(*out[0], to);
        else
          copyElement(*out[0], to, x, (o * size + row) * inner + i);
      }
  }
  return true;
}

uint32_t selectElement(const OpQuery& q, ElementBuilder& b, size_t) {
  Selection s = *selectionOf(q);
  const Type source = q.type(s.source);
  size_t k = q.type(s.indices).rank();
  std::vector<ElementNode> own = ownCoordinates(b, source.rank() - 1 + k);
  auto first = own.begin() + static_cast<ptrdiff_t>(s.dim), last = first + static_cast<ptrdiff_t>(k);
  ElementNode row = rowNode(q, b, b.load(s.indices, std::vector<ElementNode>(first, last), true));
  std::vector<ElementNode> at(own.begin(), first);
  at.push_back(row);
  at.insert(at.end(), last, own.end());
  return maskedLoad(q, b, s.source, at, row, source.dims[s.dim]);
}

// Sums the cotangents of every use of a row: scatter with sum, the indices spread over the other dims.
bool selectGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  Module& m = b.module;
  OpQuery q = queryOf(m, op, none);
  Selection s = *selectionOf(q);
  const Type source = q.type(s.source), indices = q.type(s.indices);
  std::optional<Dim> count = Dim(1);
  for (Dim d : indices.dims)
    if (count) count = m.dims.mul(*count, d);
  if (!count) return false;
  std::vector<Dim> wide = source.dims, thin(source.rank(), Dim(1));
  wide[s.dim] = *count;
  thin[s.dim] = *count;
  ValueId updates = b.value("reshape", {dy[0]}, {{"shape", sizesToAttr(m, wide)}});
  ValueId n = b.value("reshape", {m.operand(op, s.indices)}, {{"shape", sizesToAttr(m, thin)}});
  n = b.value("broadcast", {n}, {{"shape", sizesToAttr(m, wide)}});
  ValueId zeros = b.constant(0, m[m.operand(op, s.source)].type);
  ValueId sum = b.value(
      "scatter", {zeros, n, updates},
      {{"dim", b.integer(static_cast<int64_t>(s.dim))}, {"reduce", m.attrs.string(m.strings.intern("sum"))}});
  dx.resize(m[op].numOperands);
  dx[s.source] = sum;
  return true;
}

// --- gather ---

bool gatherRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim) return false;
  const Type source = q.type(0), indices = q.type(1);
  if (indices.rank() != source.rank()) return reportRank(q, 1, std::to_string(source.rank()));
  TensorMap x, n;
  for (size_t d = 0; d < source.rank(); ++d) {
    std::string name = "i" + std::to_string(d);
    if (static_cast<int64_t>(d) == *dim) {
      x.dims.push_back(freeDim(addLookedUp(q, rule, source.dims[d], source.dtype)));
      n.dims.push_back(plainDim(addFactor(rule, indices.dims[d], "n")));
      continue;
    }
    if (!(indices.dims[d] == source.dims[d])) return reportDims(q, "needs dim", "equal to dim", 0, d, 1, d);
    n.dims.push_back(plainDim(addFactor(rule, indices.dims[d], name)));
    x.dims.push_back(n.dims.back());
  }
  rule.operands = {std::move(x), n};
  rule.operands.resize(q.operandTypes.size());
  rule.results.push_back(std::move(n));
  return true;
}

bool gatherEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto dim = static_cast<size_t>(*q.dimAttr("dim", in[0]->rank()));
  std::vector<int64_t> strides = in[0]->strides(), from;
  const Tensor* offset = offsetOf(q, in);
  bool ok = true;
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t i) {
    from.assign(at.begin(), at.end());
    ok = ok && rowOf(q, in[1]->getInt(i), in[0]->shape()[dim], offset, from[dim]);
    if (!ok) return;
    if (from[dim] < 0)
      clearElement(*out[0], i);
    else
      copyElement(*out[0], i, *in[0], flatten(from, strides));
  });
  return ok;
}

uint32_t gatherElement(const OpQuery& q, ElementBuilder& b, size_t) {
  auto dim = static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()));
  std::vector<ElementNode> at = ownCoordinates(b, q.type(0).rank());
  ElementNode row = rowNode(q, b, b.load(1, at, true));
  at[dim] = row;
  return maskedLoad(q, b, 0, at, row, q.type(0).dims[dim]);
}

bool gatherGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  ValueId zeros = b.constant(0, m[m.operand(op, 0)].type);
  dx.resize(m[op].numOperands);
  dx[0] = b.value("scatter", {zeros, m.operand(op, 1), dy[0]},
                  {{"dim", m.attr(op, "dim")}, {"reduce", m.attrs.string(m.strings.intern("sum"))}});
  return true;
}

// --- scatter ---

struct ScatterKind {
  std::string_view name;
  PendingKind reduce;
  const char* number; // of the record's expressions: 1 for the kind that is meant
};
constexpr ScatterKind kScatterKinds[] = {
    {"set", PendingKind::None, "set"},   {"sum", PendingKind::Sum, "sum"},   {"add", PendingKind::Sum, "sum"},
    {"prod", PendingKind::Prod, "prod"}, {"mul", PendingKind::Prod, "prod"}, {"max", PendingKind::Max, "max"},
    {"min", PendingKind::Min, "min"}};

const ScatterKind* scatterKind(const OpQuery& q) {
  for (const ScatterKind& k : kScatterKinds)
    if (k.name == q.textAttr("reduce")) return &k;
  if (q.diags) reportShape(q, "has reduce = \"set\", \"sum\", \"prod\", \"max\" or \"min\"");
  return nullptr;
}

// The rows that are written are cut like x's: each device writes its own. Over cut updates the result is pending, and x,
// which enters as well, with it.
bool scatterRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  const ScatterKind* kind = scatterKind(q);
  if (!dim || !kind) return false;
  const Type x = q.type(0), n = q.type(1), u = q.type(2);
  if (isComplex(x.dtype) && kind->reduce != PendingKind::None && kind->reduce != PendingKind::Sum)
    return reportShape(q, "of complex numbers has reduce = \"set\" or \"sum\"");
  for (size_t i : {size_t(1), size_t(2)})
    if (q.type(i).rank() != x.rank()) return reportRank(q, i, std::to_string(x.rank()));
  TensorMap xs, ns;
  for (size_t d = 0; d < x.rank(); ++d) {
    std::string name = "i" + std::to_string(d);
    if (!(n.dims[d] == u.dims[d])) return reportDims(q, "needs dim", "equal to dim", 1, d, 2, d);
    if (static_cast<int64_t>(d) == *dim) {
      xs.dims.push_back(plainDim(addFactor(rule, x.dims[d], name, FactorKind::Place)));
      bool set = kind->reduce == PendingKind::None;
      uint16_t m =
          addFactor(rule, n.dims[d], "m", set ? FactorKind::Whole : FactorKind::Reduce, kind->reduce);
      ns.dims.push_back(plainDim(m));
      if (!set) rule.joins.push_back({0, m});
      continue;
    }
    if (!(n.dims[d] == x.dims[d])) return reportDims(q, "needs dim", "equal to dim", 0, d, 1, d);
    xs.dims.push_back(plainDim(addFactor(rule, x.dims[d], name)));
    ns.dims.push_back(xs.dims.back());
  }
  rule.operands = {xs, ns, ns};
  rule.operands.resize(q.operandTypes.size());
  rule.results.push_back(std::move(xs));
  return true;
}

// "set": the last update whose index is this row's; the other kinds are reductions.
uint32_t scatterElement(const OpQuery& q, ElementBuilder& b, size_t) {
  const ScatterKind* kind = scatterKind(q);
  if (!kind || kind->reduce != PendingKind::None) return kElementByRule;
  auto dim = static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()));
  std::vector<ElementNode> at = ownCoordinates(b, q.type(0).rank()), from = at;
  from[dim] = b.loop(q.type(1).dims[dim]);
  ElementNode last = b.lastWhere(from[dim], b.call("eq", {rowNode(q, b, b.load(1, from, true)), at[dim]}));
  from[dim] = b.convert(last, DType::I64);
  ElementNode none = b.convert(b.number(0, DType::I32), DType::I32);
  return b.call("select", {b.call("ge", {last, none}), b.load(2, from), b.load(0, at, true)});
}

void combineInto(Tensor& y, int64_t i, const Tensor& updates, int64_t j, PendingKind kind) {
  if (kind == PendingKind::None) return copyElement(y, i, updates, j);
  DType dtype = y.dtype();
  if (isFloat(dtype))
    y.setFloat(i, reduceCombine(kind, dtype, {y.getFloat(i), 0}, {updates.getFloat(j), 0}).f);
  else
    y.setInt(i, reduceCombine(kind, dtype, {0, y.getInt(i)}, {0, updates.getInt(j)}).i);
}

bool scatterEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto dim = static_cast<size_t>(*q.dimAttr("dim", in[0]->rank()));
  const ScatterKind* kind = scatterKind(q);
  const Tensor* offset = offsetOf(q, in);
  // Sums of narrow floats are rounded once, at the end.
  DType wide = isFloat(out[0]->dtype()) ? DType::F64 : out[0]->dtype();
  Tensor sum(wide, out[0]->shape()), updates(wide, in[2]->shape());
  auto convert = [](Tensor& to, const Tensor& from) {
    for (int64_t i = 0; i < from.numElements(); ++i) {
      if (isFloat(from.dtype()))
        to.setFloat(i, from.getFloat(i));
      else
        to.setInt(i, from.getInt(i));
    }
  };
  convert(sum, *in[0]);
  convert(updates, *in[2]);
  std::vector<int64_t> strides = sum.strides(), to;
  bool ok = true;
  forEachElement(in[1]->shape(), [&](std::span<const int64_t> at, int64_t j) {
    to.assign(at.begin(), at.end());
    ok = ok && rowOf(q, in[1]->getInt(j), sum.shape()[dim], offset, to[dim]);
    if (ok && to[dim] >= 0) combineInto(sum, flatten(to, strides), updates, j, kind->reduce);
  });
  convert(*out[0], sum);
  return ok;
}

// $dim, and $sum … for the kind that is meant.
std::optional<double> scatterNumbers(const OpQuery& q, std::string_view name) {
  if (name == "dim") return static_cast<double>(*q.dimAttr("dim", q.type(0).rank()));
  const ScatterKind* kind = scatterKind(q);
  for (const ScatterKind& k : kScatterKinds)
    if (k.number == name) return kind && kind->reduce == k.reduce;
  return std::nullopt;
}

// What the gradients of scatter are made of: x, updates, dy, and what moves between their shapes.
struct ScatterParts {
  ScatterParts(Builder& b, OpId op, ValueId dy)
      : b(b), m(b.module), x(m.operand(op, 0)), indices(m.operand(op, 1)), updates(m.operand(op, 2)), dy(dy),
        dim(m.attr(op, "dim")), dtype(m.typeOf(x).dtype) {}
  Builder& b;
  Module& m;
  ValueId x, indices, updates, dy;
  AttrId dim;
  DType dtype;

  ValueId gathered(ValueId v) { return b.value("gather", {v, indices}, {{"dim", dim}}); }
  ValueId scattered(ValueId into, ValueId v, const char* reduce) {
    return b.value("scatter", {into, indices, v},
                   {{"dim", dim}, {"reduce", m.attrs.string(m.strings.intern(reduce))}});
  }
  ValueId number(double v) { return b.literal(v, dtype); }
  ValueId mask(ValueId p) { return b.value("convert", {p}, {{"dtype", b.word(dtypeName(dtype))}}); }
};

// "set": the last update at a place has all of its cotangent. Updates are told apart by their number along the dim.
void setGradient(ScatterParts s, std::vector<ValueId>& dx) {
  auto typed = [&](ValueId like) { return s.m.tensorType(DType::I32, s.m.typeOf(like).dims); };
  const TypeId ofUpdates[] = {typed(s.updates)};
  const auto rank = static_cast<int64_t>(s.m.typeOf(s.x).rank());
  const int64_t dim = s.m.attrs[s.dim].i;
  const ValueId numbers =
      s.m.result(s.b.op("iota", {}, {{"dim", s.b.integer(dim < 0 ? dim + rank : dim)}}, ofUpdates));
  const ValueId none = s.b.constant(-1, typed(s.x)), last = s.scattered(none, numbers, "set");
  dx[0] = s.b.value("select", {s.b.value("lt", {last, s.b.literal(0, DType::I32)}), s.dy, s.number(0)});
  dx[2] = s.b.value("select", {s.b.value("eq", {s.gathered(last), numbers}), s.gathered(s.dy), s.number(0)});
}

// "max", "min": all that reach the result share its cotangent.
void extremeGradient(ScatterParts s, ValueId y, std::vector<ValueId>& dx) {
  const ValueId kept = s.mask(s.b.value("eq", {s.x, y})),
                put = s.mask(s.b.value("eq", {s.updates, s.gathered(y)}));
  const ValueId share = s.b.value("div", {s.dy, s.scattered(kept, put, "sum")});
  dx[0] = s.b.value("mul", {share, kept});
  dx[2] = s.b.value("mul", {s.gathered(share), put});
}

// "prod": the product of the others; where one factor is 0, only its own slope is left, and where two are, none.
void productGradient(ScatterParts s, std::vector<ValueId>& dx) {
  Builder& b = s.b;
  auto isZero = [&](ValueId v) { return b.value("eq", {v, s.number(0)}); };
  const ValueId xZero = isZero(s.x), uZero = isZero(s.updates);
  const ValueId x = b.value("select", {xZero, s.number(1), s.x});
  const ValueId u = b.value("select", {uZero, s.number(1), s.updates});
  const ValueId product = s.scattered(x, u, "prod"), zeros = s.scattered(s.mask(xZero), s.mask(uZero), "sum");
  auto others = [&](ValueId all, ValueId count, ValueId zero, ValueId own) {
    ValueId one = b.value("select", {b.value("eq", {count, s.number(1)}), all, s.number(0)});
    ValueId none =
        b.value("select", {b.value("eq", {count, s.number(0)}), b.value("div", {all, own}), s.number(0)});
    return b.value("select", {zero, one, none});
  };
  dx[0] = b.value("mul", {s.dy, others(product, zeros, xZero, x)});
  dx[2] = b.value("mul", {s.gathered(s.dy), others(s.gathered(product), s.gathered(zeros), uZero, u)});
}

bool scatterGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Diagnostics none;
  const ScatterKind* kind = scatterKind(queryOf(b.module, op, none));
  if (!kind) return false;
  dx.resize(b.module[op].numOperands);
  const ScatterParts parts(b, op, dy[0]);
  switch (kind->reduce) {
  case PendingKind::None: setGradient(parts, dx); return true;
  case PendingKind::Prod: productGradient(parts, dx); return true;
  case PendingKind::Max:
  case PendingKind::Min: extremeGradient(parts, b.module.result(op), dx); return true;
  default: break;
  }
  dx[0] = dy[0];
  dx[2] = b.value("gather", {dy[0], b.module.operand(op, 1)}, {{"dim", b.module.attr(op, "dim")}});
  return true;
}

// The row's kinds say which of them it is (see the record).
bool scatterThroughWhen(const OpQuery& q, const Through& row) {
  const ScatterKind* kind = scatterKind(q);
  if (!kind) return false;
  bool both = row.operands == 0b101;
  switch (row.row) {
  case ThroughRow::Choosing: return kind->reduce == PendingKind::None;
  case ThroughRow::Linear:
    if (row.kinds == kindBit(PendingKind::Sum)) return kind->reduce == PendingKind::Prod;
    return kind->reduce == PendingKind::Sum || (row.operands == 0b001 && kind->reduce == PendingKind::Prod);
  case ThroughRow::Affine: return kind->reduce == PendingKind::Sum;
  case ThroughRow::Multiplicative: return kind->reduce == PendingKind::Prod;
  case ThroughRow::LatticeMax: return kind->reduce == (both ? PendingKind::Max : PendingKind::Min);
  case ThroughRow::LatticeMin: return kind->reduce == (both ? PendingKind::Min : PendingKind::Max);
  default: return false;
  }
}

// --- one_hot ---

bool oneHotRule(const OpQuery& q, Rule& rule) {
  addOperandFactors(q, 0, rule);
  std::vector<Dim> depth;
  Dim size = q.sizeAttr("depth");
  TensorMap y = rule.operands[0];
  y.dims.push_back(plainDim(addFactor(rule, size, "d", FactorKind::Place)));
  rule.operands.resize(q.operandTypes.size());
  rule.results.push_back(std::move(y));
  return true;
}

void oneHotLocalise(const OpQuery& q, std::span<const TypeId>, std::span<const TypeId> results,
                    AttrList& attrs) {
  Dim depth[] = {q.module->types[results[0]].dims.back()};
  AttrId list = sizesToAttr(*q.module, depth);
  setListed(attrs, q.module->strings.intern("depth"), q.module->attrs[list].list[0]);
}

bool oneHotEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  int64_t depth = out[0]->shape().back();
  const Tensor* offset = offsetOf(q, in);
  for (int64_t i = 0; i < in[0]->numElements(); ++i) {
    int64_t row = 0;
    if (!rowOf(q, in[0]->getInt(i), depth, offset, row)) return false;
    if (row >= 0) out[0]->setInt(i * depth + row, 1);
  }
  return true;
}

std::optional<double> oneHotNumbers(const OpQuery& q, std::string_view name) {
  if (name == "last") return static_cast<double>(q.type(0).rank());
  return std::nullopt;
}

OpRecord lookUp(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "index", .summary = summary};
  r.complex = OpRecord::ComplexForm::Planes;
  r.operands = "x, indices, offset?";
  r.operandTypes = "T, int, i32";
  r.attrs = {{"dim", AttrType::Dim}};
  r.offsetOperand = 2;
  r.through = {moving()};
  r.flopsPerPoint = 0;
  return r;
}

OpRecord scatterRecord() {
  OpRecord scatter{.name = "scatter",
                   .family = "index",
                   .summary = "x with the updates written (or combined by `reduce`) at indices along `dim`"};
  scatter.operands = "x, indices, updates, offset?";
  scatter.operandTypes = "T, int, T, i32";
  scatter.operandClasses = kNumbers;
  scatter.attrs = {{"dim", AttrType::Dim},
                   {"reduce", AttrType::String, "set", "\"set\" \"sum\" \"prod\" \"max\" \"min\""}};
  scatter.rule = scatterRule;
  scatter.offsetOperand = 3;
  scatter.eval = scatterEval;
  scatter.complex = OpRecord::ComplexForm::Planes;
  scatter.element = scatterElement;
  scatter.derive = scatterNumbers;
  scatter.scalar =
      "select(b == index($dim) + d, c, select($sum, 0, select($prod, 1, select($max, -inf, inf))))";
  scatter.finish = "select($sum, a + acc, select($prod, a * acc, select($max, max(a, acc), min(a, acc))))";
  // set chooses; sum is linear in both and affine in x; prod is linear in x and multiplicative in both; max and min are
  // lattice rows of both, and of the other kind in x alone.
  constexpr uint16_t average = kindBit(PendingKind::Avg);
  scatter.through = {{ThroughRow::Choosing, 0b101},
                     linear(0b101),
                     {ThroughRow::Linear, 0b001, false, ~0u, average},
                     {ThroughRow::Linear, 0b100, false, ~0u, average},
                     {ThroughRow::Linear, 0b001, false, ~0u, kindBit(PendingKind::Sum)},
                     {ThroughRow::Affine, 0b001},
                     {ThroughRow::Multiplicative, 0b101},
                     {ThroughRow::LatticeMax, 0b101},
                     {ThroughRow::LatticeMin, 0b101},
                     {ThroughRow::LatticeMax, 0b001},
                     {ThroughRow::LatticeMin, 0b001}};
  scatter.throughWhen = scatterThroughWhen;
  scatter.gradFn = scatterGrad;
  scatter.samples = "T[5, 3], i32[4, 3] in 0..5, T[4, 3] {dim = 0, reduce = \"sum\"}\n"
                    "T[5, 3], i32[5, 2] in 0..3, T[5, 2] {dim = 1, reduce = \"max\"}\n"
                    "T[5, 3], i32[4, 3] in 0..5, T[4, 3] {dim = 0}\n"
                    "T[5, 3], i32[2, 3] in 0..5, T[2, 3] {dim = 0, reduce = \"prod\"}\n"
                    "T[4, 3], i32[4, 2] in 0..3, T[4, 2] {dim = -1, reduce = \"min\"}";
  return scatter;
}

} // namespace

void addIndexOps(OpRegistry& ops) {
  OpRecord gather = lookUp("gather", "y[i][j] = x[indices[i][j]][j] along `dim` (torch.gather)");
  gather.rule = gatherRule;
  gather.eval = gatherEval;
  gather.element = gatherElement;
  gather.gradFn = gatherGrad;
  gather.samples = "T[5, 3], i32[4, 3] in 0..5 {dim = 0}\n"
                   "T[5, 3], i64[5, 2] in 0..3 {dim = 1}";
  ops.add(std::move(gather));

  ops.add(scatterRecord());

  OpRecord select = lookUp(
      "index_select", "dim `dim` of x replaced by the rows that the indices name; i32[] takes the dim away");
  select.rule = selectRule;
  select.eval = selectEval;
  select.element = selectElement;
  select.gradFn = selectGrad;
  select.samples = "T[5, 3], i32[4] in 0..5 {dim = 0}\n"
                   "T[5, 3], i32[2, 3] in 0..3 {dim = 1}\n"
                   "T[5, 3], i32[] in 0..5 {dim = 0}";
  ops.add(std::move(select));

  OpRecord embedding = lookUp("embedding", "rows of the table, one per index");
  embedding.operands = "indices, table, offset?";
  embedding.operandTypes = "int, T, i32";
  embedding.attrs = {};
  embedding.rule = selectRule;
  embedding.through = {moving(0b010)};
  embedding.eval = selectEval;
  embedding.element = selectElement;
  embedding.gradFn = selectGrad;
  embedding.samples = "i32[5] in 0..6, T[6, 3]\n"
                      "u8[2, 3] in 0..5, T[5, 4]";
  ops.add(std::move(embedding));

  OpRecord oneHot{
      .name = "one_hot", .family = "index", .summary = "1 at the index along a new last dim, 0 elsewhere"};
  oneHot.operands = "indices, offset?";
  oneHot.operandTypes = "int, i32";
  oneHot.attrs = {{"depth", AttrType::Size}, {"dtype", AttrType::DTypeName}};
  oneHot.rule = oneHotRule;
  oneHot.resultType = OpRecord::ResultType::AttrDType;
  oneHot.offsetOperand = 1;
  oneHot.scalar = "select(a == index($last) + b, 1, 0)";
  oneHot.derive = oneHotNumbers;
  oneHot.eval = oneHotEval;
  oneHot.localise = oneHotLocalise;
  oneHot.throughNone = true;
  oneHot.gradNone = true;
  oneHot.samples = "i32[5] in 0..4 {depth = 4, dtype = T}\nu8[2, 3] in 0..5 {depth = 5, dtype = T}";
  ops.add(std::move(oneHot));
}

} // namespace dtc
