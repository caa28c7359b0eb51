// var std norm: what is left of many numbers when their signs are gone.
#include "CarriedSum.h"
#include "Merge.h"
#include "ReduceParts.h"
#include "dtc/Ops/Scalar.h"
#include <cmath>

namespace dtc {

namespace {

// --- var, std: squares about the mean, over the number of elements less `correction` ---

bool isDeviation(const OpQuery& q) { return std::string_view(q.record->name) == "std"; }

bool momentRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  return dims && reduceRuleOf(q, rule, *dims, FactorKind::Merge, PendingKind::None);
}

// Two passes. Of no more elements than `correction` it is 0/0, or infinite.
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

// The number of elements less the correction, at least 0: as a number, or as a value where sizes are symbols.
struct Freedom {
  std::optional<int64_t> number;
  ValueId value;
};
Freedom freedomOf(Builder& b, OpId op) {
  Module& m = b.module;
  OpQuery q = queryOf(m, op, b.diags);
  const int64_t correction = q.intAttr("correction");
  const auto count = elementsReduced(q);
  if (count && count->isStatic()) return {std::max<int64_t>(count->value() - correction, 0), {}};
  const DType dtype = q.type(0).dtype;
  ValueId n = countOf(b, q.type(0), *q.dimsAttr("dims", q.type(0).rank()));
  n = b.value("sub", {n, b.literal(static_cast<double>(correction), dtype)});
  return {std::nullopt, b.value("max", {n, b.literal(0, dtype)})};
}

ValueId centred(Builder& b, const Reduced& r) {
  return b.value("sub",
                 {r.x, b.value("mean", {r.x}, {{"dims", b.ints(r.dims)}, {"keepdim", b.boolean(true)}})});
}

bool momentDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const Reduced r = reducedOf(b, op, {});
  const bool root = std::string_view(b.module.record(op).name) == "std";
  const ValueId c = centred(b, r), squares = b.value("mul", {c, c});
  const Freedom freedom = freedomOf(b, op);
  ValueId v;
  if (freedom.number)
    v = b.value(
        "mean", {squares},
        {{"dims", b.ints(r.dims)}, {"keepdim", b.boolean(r.keepdim)}, {"count", b.integer(*freedom.number)}});
  else
    v = b.value("div",
                {b.value("sum", {squares}, {{"dims", b.ints(r.dims)}, {"keepdim", b.boolean(r.keepdim)}}),
                 freedom.value});
  results.push_back(root ? b.value("sqrt", {v}) : v);
  return true;
}

// Of var: 2 (x - mean) / freedom; of std half of that over y, and 0 where y is.
bool momentGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Reduced r = reducedOf(b, op, dy);
  const DType dtype = b.module.typeOf(r.x).dtype;
  const bool root = std::string_view(b.module.record(op).name) == "std";
  const Freedom freedom = freedomOf(b, op);
  ValueId g = r.dy;
  if (root) {
    const ValueId none = b.value("eq", {r.y, b.literal(0, dtype)});
    g = b.value("select", {none, b.literal(0, dtype), b.value("div", {g, r.y})});
  } else {
    g = b.value("mul", {g, b.literal(2, dtype)});
  }
  const ValueId divisor =
      freedom.number ? b.literal(static_cast<double>(*freedom.number), dtype) : freedom.value;
  g = b.value("div", {g, divisor});
  dx.push_back(b.value("mul", {centred(b, r), withDims(b, r, g)}));
  return true;
}

OpRecord moment(const char* name, const char* summary) {
  OpRecord r = reduction(name, summary);
  r.attrs.push_back(
      {"correction", AttrType::Int, "1", "taken from the number of elements; 0: of all there are"});
  r.operandClasses = kFloats;
  r.scalar = nullptr;
  r.rule = momentRule;
  r.eval = momentEval;
  r.decompose = momentDecompose;
  r.cut = cutMoment;
  r.gradFn = momentGrad;
  r.throughNone = true;
  r.lowering = Lowering::Rows;
  r.flopsPerPoint = 4;
  r.samples = "T[5, 3]\nT[5, 3] {dims = [1]}\nT[2, 5, 3] {dims = [0, 2], correction = 0}\n"
              "T[5, 3] {dims = [0], keepdim = true, correction = 2}";
  return r;
}

// --- norm: the p-th root of the sum of |x|^p ---

enum class NormKind : uint8_t { Count, Sum, Square, Power, Greatest, Least };
NormKind normKind(const OpQuery& q) {
  const double p = q.floatAttr("p");
  if (std::isinf(p)) return p > 0 ? NormKind::Greatest : NormKind::Least;
  return p == 0 ? NormKind::Count : p == 1 ? NormKind::Sum : p == 2 ? NormKind::Square : NormKind::Power;
}

static constexpr DiagKind kNormPower{"attribute-value",
                                     "'norm' takes a number for p, which may be infinite, not nan"};
bool normVerify(const OpQuery& q) {
  if (!std::isnan(q.floatAttr("p"))) return true;
  q.diags->error(kNormPower, q.loc);
  return false;
}

// Sums of what needs no root, and extremes, are pending where the dim is cut.
bool normRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  const NormKind kind = normKind(q);
  const bool rooted = kind == NormKind::Square || kind == NormKind::Power;
  const PendingKind reduce = kind == NormKind::Greatest ? PendingKind::Max
                             : kind == NormKind::Least  ? PendingKind::Min
                                                        : PendingKind::Sum;
  return dims && reduceRuleOf(q, rule, *dims, rooted ? FactorKind::Merge : FactorKind::Reduce,
                              rooted ? PendingKind::None : reduce);
}

bool normEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor& x = *in[0];
  const NormKind kind = normKind(q);
  const double p = q.floatAttr("p");
  const PendingKind reduce = kind == NormKind::Greatest ? PendingKind::Max : PendingKind::Min;
  forEachRow(x, *q.dimsAttr("dims", x.rank()), [&](int64_t r, const std::vector<int64_t>& row) {
    long double sum = 0;
    ScalarValue extreme = kind == NormKind::Greatest ? ScalarValue{} : reduceIdentity(reduce, x.dtype());
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
    const bool isExtreme = kind == NormKind::Greatest || kind == NormKind::Least;
    out[0]->setFloat(r, isExtreme ? extreme.f : static_cast<double>(sum));
  });
  return true;
}

// In the accumulation dtype, as an exponent would be rounded else. A sum of nothing is -0.0.
bool normDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const Reduced r = reducedOf(b, op, {});
  Diagnostics none;
  const OpQuery q = queryOf(b.module, op, none);
  const DType dtype = q.type(0).dtype, wide = accumulationType(dtype);
  const double p = q.floatAttr("p");
  auto as = [&](ValueId v, DType to) {
    return b.module.typeOf(v).dtype == to ? v : b.value("convert", {v}, {{"dtype", b.word(dtypeName(to))}});
  };
  auto over = [&](const char* name, ValueId v) {
    return b.value(name, {v}, {{"dims", b.ints(r.dims)}, {"keepdim", b.boolean(r.keepdim)}});
  };
  const ValueId x = as(r.x, wide), zero = b.literal(0, wide);
  ValueId y;
  switch (normKind(q)) {
  case NormKind::Count: y = over("sum", as(b.value("ne", {x, zero}), wide)); break;
  case NormKind::Sum: y = over("sum", b.value("abs", {x})); break;
  case NormKind::Square: y = b.value("sqrt", {b.value("abs", {over("sum", b.value("mul", {x, x}))})}); break;
  case NormKind::Power:
    y = over("sum", b.value("pow", {b.value("abs", {x}), b.literal(p, wide)}));
    y = b.value("pow", {b.value("abs", {y}), b.literal(1 / p, wide)});
    break;
  case NormKind::Greatest: y = b.value("max", {over("max", b.value("abs", {x})), zero}); break;
  case NormKind::Least: y = over("min", b.value("abs", {x})); break;
  }
  results.push_back(as(y, dtype));
  return true;
}

// The slope of |x| is 0 at 0, as is that of the norm of zeros; extremes that are equal share evenly.
bool normGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& dx) {
  const Reduced r = reducedOf(b, op, dy);
  Diagnostics none;
  const OpQuery q = queryOf(b.module, op, none);
  const DType dtype = q.type(0).dtype;
  const double p = q.floatAttr("p");
  const NormKind kind = normKind(q);
  const ValueId zero = b.literal(0, dtype), y = withDims(b, r, r.y), g = withDims(b, r, r.dy);
  auto orZero = [&](ValueId where, ValueId v) {
    return b.value("select", {b.value("eq", {where, zero}), zero, v});
  };
  const ValueId sign = b.value("sign", {r.x});
  switch (kind) {
  case NormKind::Count: dx.push_back(b.constant(0, b.module[r.x].type)); break;
  case NormKind::Sum: dx.push_back(b.value("mul", {sign, g})); break;
  case NormKind::Square: dx.push_back(b.value("mul", {r.x, orZero(y, b.value("div", {g, y}))})); break;
  case NormKind::Greatest:
  case NormKind::Least: {
    const ValueId mask = floatMask(b, b.value("eq", {b.value("abs", {r.x}), y}), dtype);
    const ValueId ties = b.value("sum", {mask}, {{"dims", b.ints(r.dims)}, {"keepdim", b.boolean(true)}});
    dx.push_back(b.value("mul", {b.value("mul", {b.value("div", {mask, ties}), g}), sign}));
    break;
  }
  case NormKind::Power: { // (|x| / y)^(p - 1)
    const ValueId ratio = b.value("div", {b.value("abs", {r.x}), y});
    const ValueId slope = b.value("mul", {sign, b.value("pow", {ratio, b.literal(p - 1, dtype)})});
    dx.push_back(b.value("mul", {orZero(r.x, orZero(y, slope)), g}));
    break;
  }
  }
  return true;
}

void addNorm(OpRegistry& ops) {
  OpRecord r =
      reduction("norm", "the p-th root of the sum of |x|^p; p = inf: the largest |x|, -inf: the smallest, "
                        "0: how many are not 0; of none 0 (p < 0: inf)");
  r.attrs.push_back({"p", AttrType::Float, "2.0"});
  r.operandClasses = kFloats;
  r.rule = normRule;
  r.verify = normVerify;
  r.scalar = nullptr;
  r.eval = normEval;
  r.decompose = normDecompose;
  r.lowering = Lowering::Rows;
  r.cut = cutNorm;
  r.throughNone = true;
  r.gradFn = normGrad;
  r.flopsPerPoint = 2;
  r.samples = "T[5, 3]\nT[5, 3] {dims = [1], p = 1.0}\nT[2, 5, 3] {dims = [0, 2], p = inf}\n"
              "T[5, 3] {dims = [0], keepdim = true, p = 3.0}\nT[5, 3] {dims = [0], p = -inf}\n"
              "T[5, 3] {dims = [1], p = 0.0}";
  ops.add(std::move(r));
}

} // namespace

void addMomentOps(OpRegistry& ops) {
  ops.add(moment("var", "mean of squares about the mean, the number of elements less `correction`"));
  ops.add(moment("std", "root of var"));
  addNorm(ops);
}

} // namespace dtc
