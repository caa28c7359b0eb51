// Reductions.
#include "dtc/IR/Element.h"
#include "dtc/Ops/record/Scalar.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include "record/CarriedSum.h"
#include "record/ShapeParts.h"
#include "reduce/Merge.h"
#include "reduce/ReduceParts.h"
#include "reduce/SplitNorms.h"
#include "rows/SplitRows.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// --- the rule: reduced dims are dropped, or become 1 ---

template <PendingKind Kind> bool reduceRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  return dims && reduceRuleOf(q, rule, *dims, FactorKind::Reduce, Kind);
}

// A mean is P(sum) times the global 1/count; for integers the quotient truncates, so that no dim may be
// sharded.
bool meanRule(const OpQuery& q, Rule& rule) {
  auto dims = q.dimsAttr("dims", q.type(0).rank());
  // Divided by 0, parts of a sum that are 0 become NaN although the sum does not: the sum is completed first,
  // as for integers.
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
  return dim && indexesWithI32(q, static_cast<size_t>(*dim)) &&
         reduceRuleOf(q, rule, {*dim}, FactorKind::Merge, PendingKind::None);
}

std::optional<double> meanNumbers(const OpQuery& q, std::string_view name) {
  if (name != "count") return std::nullopt;
  auto count = elementsReduced(q);
  if (!count || !count->isStatic()) return std::nullopt;
  return static_cast<double>(count->value());
}

void meanLocalize(const OpQuery& global, std::span<const TypeId> localOperands, std::span<const TypeId>,
                  AttrList& attrs) {
  Module& m = *global.module;
  auto count = elementsReduced(global);
  if (global.has("count") || !count || localOperands[0] == global.operandTypes[0]) return;
  attrs.push_back({m.strings.intern("count"), sizeAttr(m, *count)});
  std::string_view name = global.record->name;
  normalizeAttrs(m, m.registry->find(name, 1), attrs);
}

// --- gradients: broadcasts the cotangent over the reduced dims ---

bool sumGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  out.push_back(spread(r, r.dy));
  return true;
}

bool meanGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  auto count = elementsReduced(queryOf(b.module, op, b.diags));
  const Expr share =
      count->isStatic() ? r.dy / count->value() : r.dy / b.module.makeSymbol(*count, r.x.dtype(), b.loc);
  out.push_back(spread(r, share));
  return true;
}

// Ties share evenly.
bool extremeGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  Expr mask = convert(eq(r.x, withDims(r, r.y)), r.x.dtype());
  Expr ties = sum(mask, {.dims = r.dims, .keepdim = true});
  const Expr share = mask / ties;
  out.push_back(share * withDims(r, r.dy));
  return true;
}

// y / x except for zeros: with one zero only its own derivative is nonzero, the product of the others; with
// two none is.
bool prodGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  Expr zero = eq(r.x, 0);
  Expr others = select(zero, 1, r.x);
  Expr product = prod(others, {.dims = r.dims, .keepdim = true});
  Expr zeros = sum(convert(zero, r.x.dtype()), {.dims = r.dims, .keepdim = true});
  Expr isNone = eq(zeros, 0);
  Expr none = select(isNone, product / others, 0);
  Expr one = select(eq(zeros, 1), product, 0);
  Expr slope = select(zero, one, none);
  out.push_back(slope * withDims(r, r.dy));
  return true;
}

bool logsumexpGrad(Builder& b, OpId op, std::span<const ValueId> dy, std::vector<ValueId>& out) {
  Reduced r = reducedOf(b, op, dy);
  Expr weight = exp(r.x - withDims(r, r.y));
  out.push_back(weight * withDims(r, r.dy));
  return true;
}

// max, then log of the sum of exp(x - max); a max of -inf (or +inf) is not subtracted: exp(-inf - -inf) is
// NaN.
bool logsumexpDecompose(Builder& b, OpId op, std::vector<ValueId>& out) {
  OpQuery q = queryOf(b.module, op, b.diags);
  Expr x(b, b.module.operand(op, 0));
  const bool keepdim = q.boolAttr("keepdim");
  std::vector<int64_t> dims = *q.dimsAttr("dims", q.type(0).rank());
  Expr rowMax = max(x, {.dims = dims, .keepdim = true});
  rowMax = select(is_inf(rowMax), 0, rowMax);
  Expr total = sum(exp(x - rowMax), {.dims = dims, .keepdim = keepdim});
  Expr back = keepdim ? rowMax : reshape(rowMax, total.dims());
  out.push_back(log(total) + back);
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
                                    "'prod' of complex numbers needs a static size of dim {0}"};

// The planes of elements [lo, hi) along `dim`.
std::array<Expr, 2> sliced(std::array<Expr, 2> z, size_t dim, int64_t lo, int64_t hi) {
  for (Expr& v : z) {
    std::vector<int64_t> start(v.rank());
    std::vector<Dim> limit = v.dims();
    start[dim] = lo, limit[dim] = hi;
    v = slice(v, {.start = start, .limit = limit});
  }
  return z;
}

// The first half times the second, until one is left: log2(size) steps.
bool prodPlanes(Builder& b, OpId op, std::span<const ValueId> planes, std::vector<ValueId>& out) {
  Module& m = b.module;
  OpQuery q = queryOf(m, op, b.diags);
  std::array<Expr, 2> z{Expr(b, planes[0]), Expr(b, planes[1])};
  const auto dims = *q.dimsAttr("dims", q.type(0).rank());
  for (Dim d : q.type(0).dims)
    if (!d.isStatic()) return b.diags.fail(kProdSize, m[op].loc, dims.empty() ? 0 : dims[0]);
  const char* times = (*m.registry)[m.registry->find("mul")].complexText;
  for (int64_t dim : dims) {
    const auto d = static_cast<size_t>(dim);
    for (int64_t n = z[0].dims()[d].value(); n > 1; n = n / 2 + n % 2) {
      const auto low = sliced(z, d, 0, n / 2), high = sliced(z, d, n / 2, n - n % 2);
      const std::pair<std::string_view, ValueId> bindings[] = {
          {"a_re", low[0]}, {"a_im", low[1]}, {"b_re", high[0]}, {"b_im", high[1]}};
      std::vector<ValueId> made;
      if (!b.inlineText(times, bindings, made)) return false;
      const auto rest = n % 2 ? sliced(z, d, n - 1, n) : std::array<Expr, 2>{};
      for (size_t p : {0, 1}) z[p] = n % 2 ? ops::concat(b, {made[p], rest[p]}, dim) : Expr(b, made[p]);
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
      out.push_back(squeeze(z[p], dims));
  }
  return true;
}

// --- evaluation beyond scalar and rule ---

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

// The lowest index of equals; NaN is the max (for argmin the min).
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
  OpRecord& sum = ops.add(reduction("sum", "sum; 0 if empty"));
  sum.combines = PendingKind::Sum;
  sum.rule = reduceRule<PendingKind::Sum>;
  sum.through = {linear()};
  sum.gradFn = sumGrad;
  sum.complex = OpRecord::ComplexForm::Planes;

  OpRecord& mean = ops.add(reduction(
      "mean",
      "sum divided by the number of elements; of integers, the sum wraps around and the quotient truncates"));
  mean.attrs.push_back(
      {"count", AttrType::Size, "", "set by partition: the global number of elements to divide by"});
  mean.combines = PendingKind::Avg;
  mean.rule = meanRule;
  mean.through = {linear(1, kFloats | kComplex)};
  mean.finish = "acc / $count";
  mean.derive = meanNumbers;
  mean.localize = meanLocalize;
  mean.gradFn = meanGrad;
  mean.complex = OpRecord::ComplexForm::Planes;

  OpRecord& prod = ops.add(reduction("prod", "product; 1 if empty"));
  prod.combines = PendingKind::Prod;
  prod.rule = reduceRule<PendingKind::Prod>;
  prod.through = {{ThroughRow::Multiplicative}};
  prod.checks = within({Domain::Small});
  prod.gradFn = prodGrad;
  prod.complex = OpRecord::ComplexForm::Own;
  prod.complexEval = prodComplexEval;
  prod.complexFn = prodPlanes;

  OpRecord& logsumexp = ops.add(reduction("logsumexp", "log of the sum of exponentials, without overflow"));
  logsumexp.operandClasses = kFloats;
  logsumexp.rule = mergeRule;
  logsumexp.eval = logsumexpEval;
  logsumexp.gradFn = logsumexpGrad;
  logsumexp.decompose = logsumexpDecompose;
  logsumexp.splitRows = splitLogsumexp;
  logsumexp.checks = within({Domain::Small});
  logsumexp.shard = shardLogsumexp;
  logsumexp.lowering = Lowering::Rows;
  logsumexp.flopsPerPoint = 4;
}

void addExtremes(OpRegistry& ops) {
  OpRecord& max = ops.add(reduction("max", "maximum; NaN propagates; if empty -inf or the smallest integer "
                                           "(f8e4m3, which has no infinity: -448)"));
  max.combines = PendingKind::Max;
  max.rule = reduceRule<PendingKind::Max>;
  max.through = {{ThroughRow::LatticeMax}};
  max.checks = exact();
  max.gradFn = extremeGrad;

  OpRecord& min =
      ops.add(reduction("min", "minimum; NaN propagates; if empty inf or the largest integer (f8e4m3: 448)"));
  min.combines = PendingKind::Min;
  min.rule = reduceRule<PendingKind::Min>;
  min.through = {{ThroughRow::LatticeMin}};
  min.checks = exact();
  min.gradFn = extremeGrad;

  OpRecord& any = ops.add(reduction("any", "true if any element is"));
  any.operandClasses = kBools;
  any.combines = PendingKind::Any;
  any.rule = reduceRule<PendingKind::Any>;
  any.through = {{ThroughRow::LatticeAny}};
  any.gradNone = true;

  OpRecord& all = ops.add(reduction("all", "true if all elements are"));
  all.operandClasses = kBools;
  all.combines = PendingKind::All;
  all.rule = reduceRule<PendingKind::All>;
  all.through = {{ThroughRow::LatticeAll}};
  all.gradNone = true;
}

void addArgs(OpRegistry& ops) {
  static constexpr const char* summaries[] = {
      "index of the maximum, the lowest among equals; NaN is the max",
      "index of the minimum, the lowest among equals; NaN is the min"};
  for (int i = 0; i < 2; ++i) {
    OpRecord& r = ops.add(reduction(i ? "argmin" : "argmax", summaries[i]));
    r.attrs.front() = {"dim", AttrType::Dim, nullptr, "the dim to search"};
    r.rule = argRule;
    r.verify = searchedVerify;
    r.resultType = OpRecord::ResultType::I32;
    r.scalar = nullptr;
    r.samples = "T[5, 3] {dim = 0}\nT[5, 3] {dim = -1, keepdim = true}";
    r.eval = i ? argEval<false> : argEval<true>;
    r.element = i ? argElement<false> : argElement<true>;
    r.shard = shardArg;
    r.combines = i ? PendingKind::Min : PendingKind::Max;
    r.splitRows = splitArg;
    r.checks = discontinuous();
    r.gradNone = true;
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
