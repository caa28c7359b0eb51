// scatter: updates written, or combined with existing elements, at indices along a dim.
#include "dtc/Ops/record/Scalar.h"
#include "index/IndexParts.h"

namespace dtc {
namespace {

// The written rows are sharded like x's: each device writes its own. If the updates are sharded, the result
// is pending, and so must be x, which is added.
bool scatterRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  const ScatterKind* kind = scatterKind(q);
  if (!dim || !kind || !combinesComplex(q, *kind)) return false;
  const Type x = q.type(0), n = q.type(1), u = q.type(2);
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

// "set": the last update of this row; the other kinds are reductions.
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

bool scatterEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto dim = static_cast<size_t>(*q.dimAttr("dim", in[0]->rank()));
  const ScatterKind* kind = scatterKind(q);
  const Tensor* offset = offsetOf(q, in);
  Tensor sum = widened(q, *in[0]);
  const Tensor updates = widened(q, *in[2]);
  std::vector<int64_t> strides = sum.strides(), to;
  bool ok = true;
  forEachElement(in[1]->shape(), [&](std::span<const int64_t> at, int64_t j) {
    to.assign(at.begin(), at.end());
    ok = ok && rowOf(q, in[1]->getInt(j), sum.shape()[dim], offset, to[dim]);
    if (ok && to[dim] >= 0) combineInto(sum, flatten(to, strides), updates, j, *kind);
  });
  narrowInto(*out[0], sum);
  return ok;
}

// $dim, and $sum … for the selected kind.
std::optional<double> scatterNumbers(const OpQuery& q, std::string_view name) {
  if (name == "dim") return static_cast<double>(*q.dimAttr("dim", q.type(0).rank()));
  const ScatterKind* kind = scatterKind(q);
  for (const ScatterKind& k : scatterKinds())
    if (k.number == name) return kind && kind->reduce == k.reduce;
  return std::nullopt;
}

// Applies the updates in order to a copy of x, in place if possible. Sums of narrow floats are rounded once,
// using the rule.
bool scatterStores(const OpQuery& q, ElementBuilder& b) {
  const ScatterKind* kind = scatterKind(q);
  const Type x = q.type(0);
  if (!kind || (kind->combine && isNarrowFloat(x.dtype))) return false;
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", x.rank()));
  b.begin();
  std::vector<ElementNode> at;
  for (Dim d : x.dims) at.push_back(b.axis(d));
  b.copy(0, at);
  at[dim] = b.steps(q.type(1).dims[dim]);
  std::vector<ElementNode> to = at;
  to[dim] = rowNode(q, b, b.load(1, at, true));
  const ElementNode inside =
      b.call("and", {b.call("ge", {to[dim], b.index(0)}), b.call("lt", {to[dim], b.size(x.dims[dim])})});
  b.store(0, to, b.load(2, at, true), inside, kind->combine);
  return true;
}

bool scatterAsChoice(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  const ScatterKind* kind = scatterKind(q);
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank()));
  if (!kind || m[op].numOperands != 3 || q.type(1).dims[dim] != Dim(1)) return true;
  const Expr x(b, m.operand(op, 0)), index(b, m.operand(op, 1)), update(b, m.operand(op, 2));
  const Expr chosen = scatteredChoice(x, dim, index, update, *kind);
  if (chosen.valid()) results.push_back(chosen);
  return true;
}

bool scatterGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  Diagnostics none;
  const ScatterKind* kind = scatterKind(queryOf(m, op, none));
  if (!kind) return false;
  const Expr indices(b, m.operand(op, 1));
  const AttrId dim = m.attr(op, "dim");
  const ScatterParts parts{Expr(b, m.operand(op, 0)), Expr(b, m.operand(op, 2)), Expr(b, dy[0]),
                           [&, indices](Expr v, double) { return gather(v, indices, {.dim = dim}); },
                           [&, indices](Expr into, Expr v, const char* reduce) {
                             return scatter(into, indices, v, {.dim = dim, .reduce = reduce});
                           }};
  dx.resize(m[op].numOperands);
  return scatterGradient(parts, Expr(b, m.result(op)), *kind, dx);
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
  scatter.stores = scatterStores;
  scatter.rewrites = 0;
  scatter.decompose = scatterAsChoice;
  scatter.derive = scatterNumbers;
  scatter.scalar =
      "select(b == index($dim) + d, c, select($sum, 0, select($prod, 1, select($max, -inf, inf))))";
  scatter.finish = "select($sum, a + acc, select($prod, a * acc, select($max, max(a, acc), min(a, acc))))";
  scatter.through = scatterThrough();
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

void addScatterOps(OpRegistry& ops) { ops.add(scatterRecord()); }

} // namespace dtc
