// var std norm: reductions over magnitudes.
#include "dtc/Ops/record/Scalar.h"
#include "record/CarriedSum.h"
#include "reduce/Merge.h"
#include "reduce/ReduceParts.h"
#include "reduce/SplitNorms.h"
#include <cmath>

namespace dtc {

namespace {

// --- var, std: sum of squared deviations over the number of elements minus `correction` ---

bool isDeviation(const OpQuery& q) { return std::string_view(q.record->name) == "std"; }

bool momentRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  return dims && reduceRuleOf(q, rule, *dims, FactorKind::Merge, PendingKind::None);
}

// Two passes. With no more elements than `correction` the result is 0/0, or infinite.
bool momentEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto dims = q.dimsAttr("dims", in[0]->rank());
  const int64_t correction = q.intAttr("correction");
  forEachRow(*in[0], *dims, [&](int64_t r, const std::vector<int64_t>& row) {
    const auto n = static_cast<int64_t>(row.size());
    long double mean = 0, squares = 0;
    for (int64_t i : row) mean = carried(q, mean + in[0]->getFloat(i));
    mean /= static_cast<long double>(n);
    for (int64_t i : row) {
      const long double c = in[0]->getFloat(i) - mean;
      squares = carried(q, squares + c * c);
    }
    const long double v = squares / static_cast<long double>(std::max<int64_t>(n - correction, 0));
    out[0]->setFloat(r, static_cast<double>(isDeviation(q) ? std::sqrt(v) : v));
  });
  return true;
}

// The number of elements minus the correction, at least 0: a number, or a value if sizes are symbolic.
struct Freedom {
  std::optional<int64_t> number;
  Expr value;
};
Freedom freedomOf(Builder& b, OpId op) {
  OpQuery q = queryOf(b.module, op, b.diags);
  const int64_t correction = q.intAttr("correction");
  const auto count = elementsReduced(q);
  if (count && count->isStatic()) return {std::max<int64_t>(count->value() - correction, 0), {}};
  const Expr n = countOf(b, q.type(0), *q.dimsAttr("dims", q.type(0).rank()));
  return {std::nullopt, max(n - correction, 0)};
}

Expr centred(const Reduced& r) { return r.x - mean(r.x, {.dims = r.dims, .keepdim = true}); }

bool momentDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const Reduced r = reducedOf(b, op, {});
  const bool root = std::string_view(b.module.record(op).name) == "std";
  const Expr c = centred(r), squares = c * c;
  const Freedom freedom = freedomOf(b, op);
  Expr v;
  if (freedom.number)
    v = mean(squares, {.dims = r.dims, .keepdim = r.keepdim, .count = *freedom.number});
  else
    v = sum(squares, {.dims = r.dims, .keepdim = r.keepdim}) / freedom.value;
  results.push_back(root ? sqrt(v) : v);
  return true;
}

// For var: 2 (x - mean) / freedom; for std half of that over y, and 0 if y is 0.
bool momentGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Reduced r = reducedOf(b, op, dy);
  const bool root = std::string_view(b.module.record(op).name) == "std";
  const Freedom freedom = freedomOf(b, op);
  Expr g = r.dy;
  if (root) {
    const Expr none = eq(r.y, 0);
    g = select(none, 0, g / r.y);
  } else {
    g = g * 2;
  }
  g = freedom.number ? g / *freedom.number : g / freedom.value;
  const Expr c = centred(r);
  dx.push_back(c * withDims(r, g));
  return true;
}

OpRecord moment(const char* name, const char* summary) {
  OpRecord r = reduction(name, summary);
  r.attrs.push_back(
      {"correction", AttrType::Int, "1", "subtracted from the number of elements; 0: biased variance"});
  r.operandClasses = kFloats;
  r.scalar = nullptr;
  r.rule = momentRule;
  r.eval = momentEval;
  r.decompose = momentDecompose;
  r.splitRows = splitMoment;
  r.checks = within({Domain::Small});
  r.shard = shardMoment;
  r.gradFn = momentGrad;
  r.lowering = Lowering::Rows;
  r.flopsPerPoint = 4;
  r.samples = "T[5, 3]\nT[5, 3] {dims = [1]}\nT[2, 5, 3] {dims = [0, 2], correction = 0}\n"
              "T[5, 3] {dims = [0], keepdim = true, correction = 2}";
  return r;
}

// --- norm: the p-th root of the sum of |x|^p ---

enum class NormKind : uint8_t { Count, Sum, Square, Power, Max, Min };
NormKind normKind(const OpQuery& q) {
  const double p = q.floatAttr("p");
  if (std::isinf(p)) return p > 0 ? NormKind::Max : NormKind::Min;
  return p == 0 ? NormKind::Count : p == 1 ? NormKind::Sum : p == 2 ? NormKind::Square : NormKind::Power;
}

static constexpr DiagKind kNormPower{"attribute-value",
                                     "'norm' takes a number for p, possibly infinite but not nan"};
bool normVerify(const OpQuery& q) {
  if (!std::isnan(q.floatAttr("p"))) return true;
  return q.diags->fail(kNormPower, q.loc);
}

// Sums without a root, max and min, are pending if the dim is sharded.
bool lpNormRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  const NormKind kind = normKind(q);
  const bool rooted = kind == NormKind::Square || kind == NormKind::Power;
  const PendingKind reduce = kind == NormKind::Max   ? PendingKind::Max
                             : kind == NormKind::Min ? PendingKind::Min
                                                     : PendingKind::Sum;
  return dims && reduceRuleOf(q, rule, *dims, rooted ? FactorKind::Merge : FactorKind::Reduce,
                              rooted ? PendingKind::None : reduce);
}

bool lpNormEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor& x = *in[0];
  const NormKind kind = normKind(q);
  const double p = q.floatAttr("p");
  const PendingKind reduce = kind == NormKind::Max ? PendingKind::Max : PendingKind::Min;
  forEachRow(x, *q.dimsAttr("dims", x.rank()), [&](int64_t r, const std::vector<int64_t>& row) {
    long double sum = 0;
    ScalarValue extreme = kind == NormKind::Max ? ScalarValue{} : reduceIdentity(reduce, x.dtype());
    for (int64_t i : row) {
      const double a = std::fabs(x.getFloat(i));
      const long double term = kind == NormKind::Count    ? (a == 0 ? 0 : 1)
                               : kind == NormKind::Square ? static_cast<long double>(a) * a
                               : kind == NormKind::Power  ? std::pow(a, p)
                                                          : a;
      sum = carried(q, sum + term);
      extreme = reduceCombine(reduce, x.dtype(), extreme, {a, 0});
    }
    if (kind == NormKind::Square) sum = std::sqrt(sum);
    if (kind == NormKind::Power) sum = std::pow(sum, 1 / static_cast<long double>(p));
    const bool isExtreme = kind == NormKind::Max || kind == NormKind::Min;
    out[0]->setFloat(r, isExtreme ? extreme.f : static_cast<double>(sum));
  });
  return true;
}

// In the accumulation dtype, because the exponent would be rounded otherwise. An empty sum is -0.0.
bool lpNormDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const Reduced r = reducedOf(b, op, {});
  Diagnostics none;
  const OpQuery q = queryOf(b.module, op, none);
  const DType dtype = q.type(0).dtype, wide = accumulationType(dtype);
  const double p = q.floatAttr("p");
  auto over = [&](PendingKind kind, Expr v) {
    return reduced(kind, v, {.dims = r.dims, .keepdim = r.keepdim});
  };
  const Expr x = r.x.as(wide);
  Expr y;
  switch (normKind(q)) {
  case NormKind::Count: y = over(PendingKind::Sum, ne(x, 0).as(wide)); break;
  case NormKind::Sum: y = over(PendingKind::Sum, abs(x)); break;
  case NormKind::Square: y = sqrt(abs(over(PendingKind::Sum, x * x))); break;
  case NormKind::Power:
    y = over(PendingKind::Sum, pow(abs(x), p));
    y = pow(abs(y), 1 / p);
    break;
  case NormKind::Max: y = max(over(PendingKind::Max, abs(x)), 0); break;
  case NormKind::Min: y = over(PendingKind::Min, abs(x)); break;
  }
  results.push_back(y.as(dtype));
  return true;
}

// The derivative of |x| is 0 at 0, and so is that of the norm of zeros; equal extremes share the cotangent
// evenly.
bool lpNormGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Reduced r = reducedOf(b, op, dy);
  Diagnostics none;
  const OpQuery q = queryOf(b.module, op, none);
  const DType dtype = q.type(0).dtype;
  const double p = q.floatAttr("p");
  const NormKind kind = normKind(q);
  const Expr y = withDims(r, r.y), g = withDims(r, r.dy);
  auto orZero = [&](Expr where, Expr v) { return select(eq(where, 0), 0, v); };
  const Expr sign = ops::sign(r.x);
  switch (kind) {
  case NormKind::Count: dx.push_back(b.constant(0, b.module[r.x].type)); break;
  case NormKind::Sum: dx.push_back(sign * g); break;
  case NormKind::Square: dx.push_back(r.x * orZero(y, g / y)); break;
  case NormKind::Max:
  case NormKind::Min: {
    const Expr mask = convert(eq(abs(r.x), y), dtype);
    const Expr ties = sum(mask, {.dims = r.dims, .keepdim = true});
    dx.push_back(mask / ties * g * sign);
    break;
  }
  case NormKind::Power: { // (|x| / y)^(p - 1)
    const Expr ratio = abs(r.x) / y;
    const Expr slope = sign * pow(ratio, p - 1);
    dx.push_back(orZero(r.x, orZero(y, slope)) * g);
    break;
  }
  }
  return true;
}

void addNorm(OpRegistry& ops) {
  OpRecord& r = ops.add(
      reduction("norm", "the p-th root of the sum of |x|^p; p = inf: the largest |x|, -inf: the smallest, "
                        "0: the number of nonzero elements; 0 if empty (p < 0: inf)"));
  r.attrs.push_back({"p", AttrType::Float, "2.0"});
  r.operandClasses = kFloats;
  r.rule = lpNormRule;
  r.verify = normVerify;
  r.scalar = nullptr;
  r.eval = lpNormEval;
  r.decompose = lpNormDecompose;
  r.checks = within({Domain::Small});
  r.lowering = Lowering::Rows;
  r.shard = shardNorm;
  r.gradFn = lpNormGrad;
  r.flopsPerPoint = 2;
  r.samples = "T[5, 3]\nT[5, 3] {dims = [1], p = 1.0}\nT[2, 5, 3] {dims = [0, 2], p = inf}\n"
              "T[5, 3] {dims = [0], keepdim = true, p = 3.0}\nT[5, 3] {dims = [0], p = -inf}\n"
              "T[5, 3] {dims = [1], p = 0.0}";
}

} // namespace

void addMomentOps(OpRegistry& ops) {
  ops.add(
      moment("var", "variance: sum of squared deviations over the number of elements minus `correction`"));
  ops.add(moment("std", "standard deviation: square root of var"));
  addNorm(ops);
}

} // namespace dtc
