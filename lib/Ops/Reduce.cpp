// One value out of many.
#include "CarriedSum.h"
#include "Merge.h"
#include "ReduceParts.h"
#include "dtc/IR/Element.h"
#include "dtc/Ops/Scalar.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// --- the rule: reduced dims go, or become 1 ---

template <PendingKind Kind> bool reduceRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  return dims && reduceRuleOf(q, rule, *dims, FactorKind::Reduce, Kind);
}

// A mean is P(sum) times the global 1/count; of integers the quotient truncates, so that nothing may be cut.
bool meanRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  // Divided by 0 the parts of a sum are NaN where they are 0, though the sum is not: it is made first, as that of integers.
  const bool byZero = q.has("count") && q.sizeAttr("count") == Dim(0);
  FactorKind kind = isFloat(partType(q.type(0).dtype)) && !byZero ? FactorKind::Reduce : FactorKind::Whole;
  return dims && reduceRuleOf(q, rule, *dims, kind, PendingKind::Sum);
}

bool mergeRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  return dims && reduceRuleOf(q, rule, *dims, FactorKind::Merge, PendingKind::None);
}

bool argRule(const OpQuery& q, Rule& rule) {
  auto dim = q.dimAttr("dim", q.type(0).rank());
  return dim && reduceRuleOf(q, rule, {*dim}, FactorKind::Merge, PendingKind::None);
}

std::optional<double> meanNumbers(const OpQuery& q, std::string_view name) {
  if (name != "count") return std::nullopt;
  auto count = elementsReduced(q);
  if (!count || !count->isStatic()) return std::nullopt;
  return static_cast<double>(count->value());
}

void meanLocalise(const OpQuery& global, std::span<const TypeId> localOperands, std::span<const TypeId>,
                  AttrList& attrs) {
  Module& m = *global.module;
  auto count = elementsReduced(global);
  if (global.has("count") || !count || localOperands[0] == global.operandTypes[0]) return;
  attrs.push_back({m.strings.intern("count"), sizeAttr(m, *count)});
  std::string_view name = global.record->name;
  normaliseAttrs(m, m.registry->find(name, 1), attrs);
}

// --- gradients: the cotangent spread over what was reduced ---

bool sumGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  out.push_back(spread(b, r, r.dy));
  return true;
}

bool meanGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  auto count = elementsReduced(queryOf(b.module, op, b.diags));
  DType dtype = b.module.typeOf(r.x).dtype;
  ValueId divisor = count->isStatic() ? b.literal(static_cast<double>(count->value()), dtype)
                                      : b.module.makeSymbol(*count, dtype, b.loc);
  out.push_back(spread(b, r, b.value("div", {r.dy, divisor})));
  return true;
}

// Ties share evenly.
bool extremeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  ValueId mask = floatMask(b, b.value("eq", {r.x, withDims(b, r, r.y)}), b.module.typeOf(r.x).dtype);
  ValueId ties = b.value("sum", {mask}, {{"dims", b.ints(r.dims)}, {"keepdim", b.boolean(true)}});
  out.push_back(b.value("mul", {b.value("div", {mask, ties}), withDims(b, r, r.dy)}));
  return true;
}

// y / x but for zeros: with one zero only its own slope is not 0, the product of the others; with two none is.
bool prodGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  DType dtype = b.module.typeOf(r.x).dtype;
  auto reduced = [&](std::string_view name, ValueId v) {
    return b.value(name, {v}, {{"dims", b.ints(r.dims)}, {"keepdim", b.boolean(true)}});
  };
  ValueId zero = b.value("eq", {r.x, b.literal(0, dtype)});
  ValueId others = b.value("select", {zero, b.literal(1, dtype), r.x});
  ValueId product = reduced("prod", others);
  ValueId zeros = reduced("sum", floatMask(b, zero, dtype));
  ValueId none = b.value("select", {b.value("eq", {zeros, b.literal(0, dtype)}),
                                    b.value("div", {product, others}), b.literal(0, dtype)});
  ValueId one =
      b.value("select", {b.value("eq", {zeros, b.literal(1, dtype)}), product, b.literal(0, dtype)});
  ValueId slope = b.value("select", {zero, one, none});
  out.push_back(b.value("mul", {slope, withDims(b, r, r.dy)}));
  return true;
}

bool logsumexpGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  ValueId weight = b.value("exp", {b.value("sub", {r.x, withDims(b, r, r.y)})});
  out.push_back(b.value("mul", {weight, withDims(b, r, r.dy)}));
  return true;
}

// max, then log of the sum of exp(x - max); a max of -inf (or +inf) is not subtracted: exp(-inf - -inf) is NaN.
bool logsumexpDecompose(Builder& b, OpId op, std::vector<ValueId>& out) {
  OpQuery q = queryOf(b.module, op, b.diags);
  ValueId x = b.module.operand(op, 0);
  DType dtype = q.type(0).dtype;
  std::vector<int64_t> dims = *q.dimsAttr("dims", q.type(0).rank());
  auto reduced = [&](std::string_view name, ValueId v, bool keep) {
    return b.value(name, {v}, {{"dims", b.ints(dims)}, {"keepdim", b.boolean(keep)}});
  };
  auto finite = [&](ValueId max) {
    return b.value("select", {b.value("is_inf", {max}), b.literal(0, dtype), max});
  };
  ValueId max = finite(reduced("max", x, true));
  ValueId sum = reduced("sum", b.value("exp", {b.value("sub", {x, max})}), q.boolAttr("keepdim"));
  ValueId back = q.boolAttr("keepdim")
                     ? max
                     : b.value("reshape", {max}, {{"shape", [&] {
                                                     Attr shape;
                                                     shape.kind = Attr::List;
                                                     for (Dim d : b.module.typeOf(sum).dims)
                                                       shape.list.push_back(sizeAttr(b.module, d));
                                                     return b.module.attrs.intern(std::move(shape));
                                                   }()}});
  out.push_back(b.value("add", {b.value("log", {sum}), back}));
  return true;
}

// --- products of complex numbers ---

bool prodComplexEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  const Tensor& x = *in[0];
  auto dims = *q.dimsAttr("dims", x.rank());
  const std::vector<int64_t> strides = x.strides();
  std::vector<std::complex<long double>> products(static_cast<size_t>(out[0]->numElements()), 1);
  for (int64_t i = 0; i < x.numElements(); ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < x.rank(); ++d)
      if (!std::binary_search(dims.begin(), dims.end(), static_cast<int64_t>(d)))
        at = at * x.shape()[d] + i / strides[d] % x.shape()[d];
    auto& p = products[static_cast<size_t>(at)];
    const std::complex<double> v = x.getComplex(i);
    p = {p.real() * v.real() - p.imag() * v.imag(), p.real() * v.imag() + p.imag() * v.real()};
  }
  for (size_t i = 0; i < products.size(); ++i)
    out[0]->setComplex(static_cast<int64_t>(i),
                       {static_cast<double>(products[i].real()), static_cast<double>(products[i].imag())});
  return true;
}

inline constexpr DiagKind kProdSize{"prod-complex-size",
                                    "'prod' of complex numbers needs the size of dim {0} as a number"};

// The planes of elements [lo, hi) along `dim`.
std::array<ValueId, 2> sliced(Builder& b, std::array<ValueId, 2> z, size_t dim, int64_t lo, int64_t hi) {
  for (ValueId& v : z) {
    const Type t = b.module.typeOf(v);
    std::vector<int64_t> start(t.rank()), limit;
    for (Dim d : t.dims) limit.push_back(d.value());
    start[dim] = lo, limit[dim] = hi;
    v = b.value("slice", {v}, {{"start", b.ints(start)}, {"limit", b.ints(limit)}});
  }
  return z;
}

// The first half times the second, until one is left: as many steps as the size has bits.
bool prodPlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& out) {
  Module& m = b.module;
  OpQuery q = queryOf(m, op, b.diags);
  std::array<ValueId, 2> z{planes[0], planes[1]};
  const auto dims = *q.dimsAttr("dims", q.type(0).rank());
  for (Dim d : q.type(0).dims)
    if (!d.isStatic()) {
      b.diags.error(kProdSize, m[op].loc, dims.empty() ? 0 : dims[0]);
      return false;
    }
  const char* times = (*m.registry)[m.registry->find("mul")].complexText;
  for (int64_t dim : dims) {
    const auto d = static_cast<size_t>(dim);
    for (int64_t n = m.typeOf(z[0]).dims[d].value(); n > 1; n = n / 2 + n % 2) {
      const auto low = sliced(b, z, d, 0, n / 2), high = sliced(b, z, d, n / 2, n - n % 2);
      const std::pair<std::string_view, ValueId> bindings[] = {
          {"a_re", low[0]}, {"a_im", low[1]}, {"b_re", high[0]}, {"b_im", high[1]}};
      std::vector<ValueId> made;
      if (!b.inlineText(times, bindings, made)) return false;
      const auto rest = n % 2 ? sliced(b, z, d, n - 1, n) : std::array<ValueId, 2>{};
      for (size_t p : {0, 1})
        z[p] = n % 2 ? b.value("concat", {made[p], rest[p]}, {{"dim", b.integer(dim)}}) : made[p];
    }
  }
  const Type result = m.typeOf(m.result(op));
  const TypeId type = m.tensorType(partType(result.dtype), result.dims);
  const bool empty = std::ranges::any_of(
      dims, [&](int64_t d) { return q.type(0).dims[static_cast<size_t>(d)].value() == 0; });
  for (size_t p : {0, 1}) {
    if (empty)
      out.push_back(b.constant(p == 0 ? 1 : 0, type));
    else if (q.boolAttr("keepdim") || dims.empty())
      out.push_back(z[p]);
    else
      out.push_back(b.value("squeeze", {z[p]}, {{"dims", b.ints(dims)}}));
  }
  return true;
}

// --- evaluation of what scalar and rule do not say ---

template <class A>
bool logsumexpIn(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto dims = q.dimsAttr("dims", in[0]->rank());
  forEachRow(*in[0], *dims, [&](int64_t r, const std::vector<int64_t>& row) {
    double max = -INFINITY;
    A sum = 0;
    for (int64_t i : row)
      max = reduceCombine(PendingKind::Max, DType::F64, {max, 0}, {in[0]->getFloat(i), 0}).f;
    A shift = std::isinf(max) ? 0 : max;
    for (int64_t i : row) sum = static_cast<A>(carried(q, sum + std::exp(in[0]->getFloat(i) - shift)));
    out[0]->setFloat(r, static_cast<double>(std::log(sum) + shift));
  });
  return true;
}

bool logsumexpEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  return isExtended(q) ? logsumexpIn<long double>(q, in, out) : logsumexpIn<double>(q, in, out);
}

// The first of equals, NaN greatest (for argmin: least).
template <bool Max>
bool argEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  auto dim = q.dimAttr("dim", in[0]->rank());
  const Tensor& x = *in[0];
  bool floats = isFloat(x.dtype()), isUnsigned = x.dtype() == DType::U64;
  auto better = [&](int64_t a, int64_t b) {
    if (floats) {
      double u = x.getFloat(a), v = x.getFloat(b);
      if (std::isnan(u) || std::isnan(v)) return std::isnan(u) && !std::isnan(v);
      return Max ? u > v : u < v;
    }
    int64_t u = x.getInt(a), v = x.getInt(b);
    if (isUnsigned) return Max ? uint64_t(u) > uint64_t(v) : uint64_t(u) < uint64_t(v);
    return Max ? u > v : u < v;
  };
  forEachRow(x, {*dim}, [&](int64_t r, const std::vector<int64_t>& row) {
    size_t best = 0;
    for (size_t i = 1; i < row.size(); ++i)
      if (better(row[i], row[best])) best = i;
    out[0]->setInt(r, static_cast<int64_t>(best));
  });
  return true;
}

template <bool Max> uint32_t argElement(const OpQuery& q, ElementBuilder& b, size_t) {
  size_t rank = q.type(0).rank(), dim = static_cast<size_t>(*q.dimAttr("dim", rank)), at = 0;
  std::vector<ElementBuilder::Node> coordinates;
  for (size_t d = 0; d < rank; ++d) {
    if (d == dim) {
      coordinates.push_back(b.index(0));
      at += q.boolAttr("keepdim") ? 1 : 0;
    } else {
      coordinates.push_back(b.at(at++));
    }
  }
  return b.argReduce(Max, 0, coordinates, dim);
}

// --- the records ---

void addSums(OpRegistry& ops) {
  OpRecord sum = reduction("sum", "sum; of none 0");
  sum.rule = reduceRule<PendingKind::Sum>;
  sum.through = {linear()};
  sum.gradFn = sumGrad;
  sum.complex = OpRecord::ComplexForm::Planes;
  ops.add(std::move(sum));

  OpRecord mean = reduction("mean", "sum divided by the number of elements; integers truncate");
  mean.attrs.push_back(
      {"count", AttrType::Size, "", "divide by this instead (a piece of a cut tensor: the global number)"});
  mean.rule = meanRule;
  mean.through = {linear(1, kFloats | kComplex)};
  mean.finish = "acc / $count";
  mean.derive = meanNumbers;
  mean.localise = meanLocalise;
  mean.gradFn = meanGrad;
  mean.complex = OpRecord::ComplexForm::Planes;
  ops.add(std::move(mean));

  OpRecord prod = reduction("prod", "product; of none 1");
  prod.rule = reduceRule<PendingKind::Prod>;
  prod.through = {{ThroughRow::Multiplicative}};
  prod.gradFn = prodGrad;
  prod.complex = OpRecord::ComplexForm::Own;
  prod.complexEval = prodComplexEval;
  prod.complexFn = prodPlanes;
  ops.add(std::move(prod));

  OpRecord logsumexp = reduction("logsumexp", "log of the sum of exponentials, without overflow");
  logsumexp.operandClasses = kFloats;
  logsumexp.rule = mergeRule;
  logsumexp.throughNone = true;
  logsumexp.eval = logsumexpEval;
  logsumexp.gradFn = logsumexpGrad;
  logsumexp.decompose = logsumexpDecompose;
  logsumexp.cut = cutLogsumexp;
  logsumexp.lowering = Lowering::Rows;
  logsumexp.flopsPerPoint = 4;
  ops.add(std::move(logsumexp));
}

void addExtremes(OpRegistry& ops) {
  OpRecord max = reduction(
      "max",
      "maximum; NaN stays; of none -inf or the smallest integer (f8e4m3, which has no infinity: -448)");
  max.rule = reduceRule<PendingKind::Max>;
  max.through = {{ThroughRow::LatticeMax}};
  max.gradFn = extremeGrad;
  ops.add(std::move(max));

  OpRecord min = reduction("min", "minimum; NaN stays; of none inf or the largest integer (f8e4m3: 448)");
  min.rule = reduceRule<PendingKind::Min>;
  min.through = {{ThroughRow::LatticeMin}};
  min.gradFn = extremeGrad;
  ops.add(std::move(min));

  OpRecord any = reduction("any", "is one true?");
  any.operandClasses = kBools;
  any.rule = reduceRule<PendingKind::Any>;
  any.through = {{ThroughRow::LatticeAny}};
  any.gradNone = true;
  ops.add(std::move(any));

  OpRecord all = reduction("all", "are all true?");
  all.operandClasses = kBools;
  all.rule = reduceRule<PendingKind::All>;
  all.through = {{ThroughRow::LatticeAll}};
  all.gradNone = true;
  ops.add(std::move(all));
}

void addArgs(OpRegistry& ops) {
  static constexpr const char* summaries[] = {"index of the maximum, the first of equals; NaN is the largest",
                                              "index of the least, the first of equals; NaN is least"};
  for (int i = 0; i < 2; ++i) {
    OpRecord r = reduction(i ? "argmin" : "argmax", summaries[i]);
    r.attrs.front() = {"dim", AttrType::Dim, nullptr, "the dim that is searched"};
    r.rule = argRule;
    r.verify = searchedVerify;
    r.resultType = OpRecord::ResultType::I32;
    r.throughNone = true;
    r.scalar = nullptr;
    r.samples = "T[5, 3] {dim = 0}\nT[5, 3] {dim = -1, keepdim = true}";
    r.eval = i ? argEval<false> : argEval<true>;
    r.element = i ? argElement<false> : argElement<true>;
    r.cut = cutArg;
    r.gradNone = true;
    ops.add(std::move(r));
  }
}

} // namespace

void addReduceOps(OpRegistry& ops) {
  addSums(ops);
  addExtremes(ops);
  addArgs(ops);
  addMomentOps(ops);
  addMedianOps(ops);
}

} // namespace dtc
