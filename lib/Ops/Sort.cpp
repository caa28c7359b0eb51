// sort argsort topk: NaN greatest, the first of equals first.
#include "IndexParts.h"
#include "Merge.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtc {
namespace {

bool sortRule(const OpQuery& q, Rule& rule) {
  const auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim) return false;
  addOperandFactors(q, 0, rule);
  const auto at = static_cast<size_t>(*dim);
  rule.factors[rule.operands[0].dims[at].terms[0].factor].kind =
      q.has("k") ? FactorKind::Merge : FactorKind::Exchange;
  rule.operands[0].dims[at].form = DimMap::Free;
  TensorMap y = rule.operands[0];
  if (q.has("k")) {
    const Dim n = q.type(0).dims[at];
    const int64_t k = q.intAttr("k");
    if (k < 0 || (n.isStatic() && k > n.value()))
      return reportShape(q, "cannot take " + std::to_string(k) + " of the " + dimText(q, n) +
                                " elements of dim " + std::to_string(*dim));
    y.dims[at] = freeDim(addWhole(rule, Dim(k), "k"));
  }
  rule.results.assign(std::string_view(q.record->results) == "indices" ? 1 : 2, y);
  return true;
}

bool sortInfer(const OpQuery& q, std::vector<TypeId>& results) {
  Rule rule;
  if (!ruleOf(q, rule)) return false;
  std::vector<Dim> dims;
  for (const DimMap& d : rule.results[0].dims) dims.push_back(rule.factors[d.terms[0].factor].size);
  results.assign(rule.results.size(), q.module->tensorType(DType::I32, dims));
  if (results.size() == 2) results[0] = q.module->tensorType(q.type(0).dtype, dims);
  return true;
}

// Is element i of the row before element j, were they not equal?
bool before(const Tensor& x, int64_t i, int64_t j) {
  if (isFloat(x.dtype())) {
    const double a = x.getFloat(i), b = x.getFloat(j);
    return std::isnan(b) ? !std::isnan(a) : a < b;
  }
  if (isUnsignedInt(x.dtype()))
    return static_cast<uint64_t>(x.getInt(i)) < static_cast<uint64_t>(x.getInt(j));
  return x.getInt(i) < x.getInt(j);
}

bool sortEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor& x = *in[0];
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", x.rank()));
  const bool descending = q.boolAttr("descending");
  const Tensor& indices = *out[out.size() - 1];
  std::vector<int64_t> rows = x.shape();
  const int64_t n = rows[dim], taken = indices.shape()[dim], stride = x.strides()[dim];
  rows[dim] = 1;
  std::vector<int64_t> order(static_cast<size_t>(n));
  forEachElement(rows, [&](std::span<const int64_t> at, int64_t) {
    const int64_t from = flatten(at, x.strides()), to = flatten(at, indices.strides());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const int64_t a = from + i * stride, b = from + j * stride;
      if (before(x, a, b)) return !descending;
      if (before(x, b, a)) return descending;
      return i < j;
    });
    for (int64_t i = 0; i < taken; ++i) {
      const int64_t place = to + i * indices.strides()[dim];
      out[out.size() - 1]->setInt(place, order[static_cast<size_t>(i)]);
      if (out.size() == 2) copyElement(*out[0], place, x, from + order[static_cast<size_t>(i)] * stride);
    }
  });
  return true;
}

bool sortStores(const OpQuery& q, ElementBuilder& b) {
  b.sortOrder(0, static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank())), q.boolAttr("descending"));
  return true;
}

// The order, of which the first k, and what stands there.
bool sortDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  const Type type = q.type(0);
  const ValueId x = m.operand(op, 0);
  const int64_t dim = *q.dimAttr("dim", type.rank());
  ValueId order =
      b.value("argsort", {x}, {{"dim", b.integer(dim)}, {"descending", b.boolean(q.boolAttr("descending"))}});
  if (q.has("k") &&
      !type.dims[static_cast<size_t>(dim)].isStatic()) { // no slice of an uneven piece is as long everywhere
    const TypeId numbers = m.tensorType(DType::I32, std::array{Dim(q.intAttr("k"))});
    const ValueId first = m.result(b.op("iota", {}, {{"dim", b.integer(0)}}, std::array{numbers}));
    order = b.value("index_select", {order, first}, {{"dim", b.integer(dim)}});
  } else if (q.has("k")) {
    const std::vector<int64_t> start(type.rank());
    std::vector<Dim> limit = type.dims;
    limit[static_cast<size_t>(dim)] = Dim(q.intAttr("k"));
    order = b.value("slice", {order}, {{"start", b.ints(start)}, {"limit", sizesToAttr(m, limit)}});
  }
  results = {order};
  if (m[op].numResults == 2) results = {takeAlong(b, x, order, dim), order};
  return true;
}

// The cotangents go back where their values stood.
bool sortGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  if (!dy[0].valid()) {
    dx.push_back(ValueId());
    return true;
  }
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  const int64_t dim = *q.dimAttr("dim", q.type(0).rank());
  dx.push_back(b.value("scatter", {b.constant(0, m[m.operand(op, 0)].type), m.result(op, 1), dy[0]},
                       {{"dim", b.integer(dim)}, {"reduce", m.attrs.string(m.strings.intern("sum"))}}));
  return true;
}

OpRecord sorting(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "index", .summary = summary};
  r.results = "y, indices";
  r.operandClasses = kNumbers;
  r.attrs = {{"dim", AttrType::Dim, "-1"},
             {"descending", AttrType::Bool, "false"},
             {"stable", AttrType::Bool, "true", "equal elements keep their order, whatever is said here"}};
  r.rule = sortRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = sortInfer;
  r.eval = sortEval;
  r.throughNone = true;
  r.decompose = sortDecompose;
  r.cut = cutSort;
  r.lowering = Lowering::Decompose;
  r.gradFn = sortGrad;
  r.flopsPerPoint = 0;
  r.samples = "T[5, 3] {dim = 0}\n"
              "T[4, 5] {descending = true}\n"
              "T[71] {dim = 0}";
  return r;
}

} // namespace

ValueId takeAlong(Builder& b, ValueId x, ValueId indices, int64_t dim) {
  return b.value("gather", {x, indices}, {{"dim", b.integer(dim)}});
}

void addSortOps(OpRegistry& ops) {
  ops.add(sorting("sort", "x in order along `dim`, and the index that each element had; NaN is the largest"));

  OpRecord argsort =
      sorting("argsort", "the indices of the elements of x in order along `dim`; NaN is the largest");
  argsort.results = "indices";
  argsort.operandClasses = kAnyDType;
  argsort.decompose = nullptr;
  argsort.lowering = Lowering::Loops;
  argsort.stores = sortStores;
  argsort.gradFn = nullptr;
  argsort.gradNone = true;
  ops.add(std::move(argsort));

  OpRecord topk = sorting("topk", "the k largest (smallest) of x along `dim` in order, and their indices");
  topk.cut = cutTopk;
  topk.attrs = {{"k", AttrType::Int},
                {"dim", AttrType::Dim, "-1"},
                {"descending", AttrType::Bool, "true"},
                {"stable", AttrType::Bool, "true", "the first of equals comes first, whatever is said here"}};
  topk.samples = "T[5, 3] {k = 2, dim = 0}\n"
                 "T[4, 5] {k = 3, descending = false}\n"
                 "T[7] {k = 7}";
  ops.add(std::move(topk));
}

} // namespace dtc
