// sort argsort topk: stable; NaN is the max.
#include "index/IndexParts.h"
#include "reduce/Merge.h"
#include "rows/SplitRows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dtc {
namespace {

bool sortRule(const OpQuery& q, Rule& rule) {
  const auto dim = q.dimAttr("dim", q.type(0).rank());
  if (!dim || !indexesWithI32(q, static_cast<size_t>(*dim))) return false;
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
    y.dims[at] = freeDim(addUnsharded(rule, Dim(k), "k"));
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

// Whether element i of the row comes before element j, if they differ.
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
      const int64_t slot = to + i * indices.strides()[dim];
      out[out.size() - 1]->setInt(slot, order[static_cast<size_t>(i)]);
      if (out.size() == 2) copyElement(*out[0], slot, x, from + order[static_cast<size_t>(i)] * stride);
    }
  });
  return true;
}

bool sortStores(const OpQuery& q, ElementBuilder& b) {
  b.sortOrder(0, static_cast<size_t>(*q.dimAttr("dim", q.type(0).rank())), q.boolAttr("descending"));
  return true;
}

// Sorts, keeps the first k, and gathers their values.
bool sortDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  Module& m = b.module;
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  const Type type = q.type(0);
  const Expr x(b, m.operand(op, 0));
  const int64_t dim = *q.dimAttr("dim", type.rank());
  Expr order = argsort(x, {.dim = dim, .descending = q.boolAttr("descending")});
  // a slice of an unevenly sharded dim would differ in size between devices
  if (q.has("k") && !type.dims[static_cast<size_t>(dim)].isStatic()) {
    const TypeId numbers = m.tensorType(DType::I32, std::array{Dim(q.intAttr("k"))});
    const Expr first = ops::iota(b, numbers, {.dim = 0});
    order = index_select(order, first, {.dim = dim});
  } else if (q.has("k")) {
    const std::vector<int64_t> start(type.rank());
    std::vector<Dim> limit = type.dims;
    limit[static_cast<size_t>(dim)] = Dim(q.intAttr("k"));
    order = slice(order, {.start = start, .limit = limit});
  }
  results = {order};
  if (m[op].numResults == 2) results = {gather(x, order, {.dim = dim}), order};
  return true;
}

// Scatters the cotangents back to the positions of their values.
bool sortGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  Module& m = b.module;
  if (!dy[0].valid()) {
    dx.push_back(ValueId());
    return true;
  }
  Diagnostics none;
  const OpQuery q = queryOf(m, op, none);
  const int64_t dim = *q.dimAttr("dim", q.type(0).rank());
  const Expr zeros(b, b.constant(0, m[m.operand(op, 0)].type));
  dx.push_back(scatter(zeros, m.result(op, 1), dy[0], {.dim = dim, .reduce = "sum"}));
  return true;
}

OpRecord sorting(const char* name, const char* summary) {
  OpRecord r{.name = name, .family = "index", .summary = summary};
  r.results = "y, indices";
  r.operandClasses = kNumbers;
  r.attrs = {{"dim", AttrType::Dim, "-1"},
             {"descending", AttrType::Bool, "false"},
             {"stable", AttrType::Bool, "true", "ignored: the sort is always stable"}};
  r.rule = sortRule;
  r.resultType = OpRecord::ResultType::Custom;
  r.infer = sortInfer;
  r.eval = sortEval;
  r.checks = exactJump();
  r.decompose = sortDecompose;
  r.shard = shardSort;
  r.lowering = Lowering::Decompose;
  r.gradFn = sortGrad;
  r.flopsPerPoint = 0;
  r.samples = "T[5, 3] {dim = 0}\n"
              "T[4, 5] {descending = true}\n"
              "T[71] {dim = 0}";
  return r;
}

} // namespace

void addSortOps(OpRegistry& ops) {
  ops.add(sorting("sort", "sorts x along `dim`, and returns the original indices; NaN is the max"));

  OpRecord& argsort = ops.add(sorting("argsort", "the indices that sort x along `dim`; NaN is the max"));
  argsort.results = "indices";
  argsort.operandClasses = kAnyDType;
  argsort.decompose = nullptr;
  argsort.lowering = Lowering::Loops;
  argsort.stores = sortStores;
  argsort.splitRows = splitArgsort;
  argsort.gradFn = nullptr;
  argsort.gradNone = true;

  OpRecord& topk = ops.add(
      sorting("topk", "the k largest (smallest) elements of x along `dim`, sorted, and their indices"));
  topk.shard = shardTopk;
  topk.splitRows = splitTopk;
  topk.attrs = {{"k", AttrType::Int},
                {"dim", AttrType::Dim, "-1"},
                {"descending", AttrType::Bool, "true"},
                {"stable", AttrType::Bool, "true", "ignored: the sort is always stable"}};
  topk.samples = "T[5, 3] {k = 2, dim = 0}\n"
                 "T[4, 5] {k = 3, descending = false}\n"
                 "T[7] {k = 7}";
}

} // namespace dtc
