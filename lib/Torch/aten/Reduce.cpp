// Reductions, scans and softmax.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dtc {
namespace aten::reductions {
namespace {

struct Reduced {
  Expr x;
  std::vector<int64_t> dims;
  bool keep = false;
};

// The operand in its result's dtype, and the dims.
Reduced operand(ImportContext& c, DType dtype) {
  const Expr x = in(c, "self", dtype);
  const ArgumentKey key = c.has("dims") ? "dims" : "dim";
  return {x, aten::dims(c, key, x.rank()), c.flag("keepdim", false)};
}

template <Expr (*f)(Expr, const ops::SumArgs&)> ImportResults sumOf(ImportContext& c) {
  const Reduced r = operand(c, c.result().dtype);
  if (isBool(r.x.dtype()) && !r.dims.empty()) return ops::any(r.x, {.dims = r.dims, .keepdim = r.keep});
  return r.dims.empty() ? ImportResults(r.x) : f(r.x, {.dims = r.dims, .keepdim = r.keep});
}

ImportResults prod(ImportContext& c) {
  const Reduced r = operand(c, c.result().dtype);
  if (r.dims.empty()) return r.x;
  if (isBool(r.x.dtype())) return ops::all(r.x, {.dims = r.dims, .keepdim = r.keep});
  return ops::prod(r.x, {.dims = r.dims, .keepdim = r.keep});
}

ImportResults mean(ImportContext& c) {
  const Reduced r = operand(c, c.result().dtype);
  return r.dims.empty() ? r.x : ops::mean(r.x, {.dims = r.dims, .keepdim = r.keep});
}

ImportResults nansum(ImportContext& c) {
  Reduced r = operand(c, c.result().dtype);
  if (isFloat(r.x.dtype())) r.x = ops::select(ops::is_nan(r.x), 0.0, r.x);
  return r.dims.empty() ? r.x : ops::sum(r.x, {.dims = r.dims, .keepdim = r.keep});
}

ImportResults nanmean(ImportContext& c) {
  const Reduced r = operand(c, c.result().dtype);
  const Expr nan = ops::is_nan(r.x);
  const Expr plain = ops::select(nan, 0.0, r.x), one = ops::not_(nan).as(r.x.dtype());
  if (r.dims.empty()) return r.x;
  const Expr total = ops::sum(plain, {.dims = r.dims, .keepdim = r.keep});
  return total / ops::sum(one, {.dims = r.dims, .keepdim = r.keep});
}

template <bool all> ImportResults anyAll(ImportContext& c) {
  const Reduced r = operand(c, DType::Bool);
  if (r.dims.empty()) return r.x.as(c.result().dtype);
  const Expr y = all ? ops::all(r.x, {.dims = r.dims, .keepdim = r.keep})
                     : ops::any(r.x, {.dims = r.dims, .keepdim = r.keep});
  return y.as(c.result().dtype);
}

Expr extremum(Expr x, const std::vector<int64_t>& dims, bool keep, bool largest) {
  if (dims.empty()) return x;
  if (isBool(x.dtype()))
    return largest ? ops::any(x, {.dims = dims, .keepdim = keep})
                   : ops::all(x, {.dims = dims, .keepdim = keep});
  return largest ? ops::max(x, ops::MaxArgs{.dims = dims, .keepdim = keep})
                 : ops::min(x, ops::MinArgs{.dims = dims, .keepdim = keep});
}

template <bool largest> ImportResults amax(ImportContext& c) {
  const Reduced r = operand(c, c.result().dtype);
  return extremum(r.x, r.dims, r.keep, largest);
}

Expr argExtremum(Expr x, int64_t d, bool keep, bool largest) {
  if (isBool(x.dtype())) x = x.as(DType::I32);
  return largest ? ops::argmax(x, {.dim = d, .keepdim = keep}) : ops::argmin(x, {.dim = d, .keepdim = keep});
}

// max.dim: values and indices.
template <bool largest> ImportResults maxDim(ImportContext& c) {
  const Expr x = c.tensor("self");
  const bool keep = c.flag("keepdim", false);
  if (x.rank() == 0) return {x, filled(c.b, DType::I64, {}, 0)};
  const int64_t d = aten::dim(c, "dim", x.rank());
  const Expr at = argExtremum(x, d, keep, largest);
  return {extremum(x, {d}, keep, largest), at};
}

template <bool largest> ImportResults argmax(ImportContext& c) {
  const Expr x = c.tensor("self");
  const bool keep = c.flag("keepdim", false);
  if (x.rank() == 0) return filled(c.b, DType::I64, {}, 0);
  if (c.has("dim")) return argExtremum(x, aten::dim(c, "dim", x.rank()), keep, largest);
  const Expr flat = reshapeTo(x, {elementsOf(c.b, x.dims())});
  return reshapeTo(argExtremum(flat, 0, false, largest), resultDims(c));
}

ImportResults aminmax(ImportContext& c) {
  const Expr x = c.tensor("self");
  const bool keep = c.flag("keepdim", false);
  std::vector<int64_t> d = x.rank() == 0 ? std::vector<int64_t>{} : allDims(x.rank());
  if (c.has("dim") && x.rank() > 0) d = {aten::dim(c, "dim", x.rank())};
  return {extremum(x, d, keep, false), extremum(x, d, keep, true)};
}

// --- moments ---

double correctionOf(ImportContext& c) {
  if (c.has("correction")) return c.real("correction");
  return c.has("unbiased") ? (c.flag("unbiased", true) ? 1 : 0) : 1;
}

struct Moments {
  Expr variance, mean;
};

// The sum of squares about the mean over (n - correction), as PyTorch: n - correction below 0 counts as 0.
Moments moments(ImportContext& c) {
  const Reduced r =
      operand(c, isComplex(c.tensor("self").dtype()) ? c.tensor("self").dtype() : c.result().dtype);
  const double correction = correctionOf(c);
  const Expr mean = r.dims.empty() ? r.x : ops::mean(r.x, {.dims = r.dims, .keepdim = true});
  const Expr away = ops::abs(r.x - mean);
  const Expr squares = ops::square(away);
  const Expr total = r.dims.empty() ? squares : ops::sum(squares, {.dims = r.dims, .keepdim = r.keep});
  const double n = static_cast<double>(countOf(c, r.x, r.dims)) - correction;
  const Expr plain = r.keep || r.dims.empty() ? mean : ops::mean(r.x, {.dims = r.dims});
  return {total / total.literal(std::max(n, 0.0)), plain};
}

bool isPlain(ImportContext& c) {
  const double correction = correctionOf(c);
  const Expr x = c.tensor("self");
  if (correction != std::trunc(correction) || correction < 0 || isComplex(x.dtype()) || x.rank() == 0 ||
      !isStatic(x.dims()))
    return false;
  return static_cast<double>(countOf(c, x, aten::dims(c, "dim", x.rank()))) > correction;
}

ImportResults var(ImportContext& c) {
  if (!isPlain(c)) return moments(c).variance;
  const Reduced r = operand(c, c.result().dtype);
  return ops::var(r.x,
                  {.dims = r.dims, .keepdim = r.keep, .correction = static_cast<int64_t>(correctionOf(c))});
}

ImportResults stdOf(ImportContext& c) {
  if (!isPlain(c)) return ops::sqrt(moments(c).variance);
  const Reduced r = operand(c, c.result().dtype);
  return ops::std(r.x,
                  {.dims = r.dims, .keepdim = r.keep, .correction = static_cast<int64_t>(correctionOf(c))});
}

ImportResults varMean(ImportContext& c) {
  const Moments m = moments(c);
  return {m.variance, m.mean};
}

ImportResults stdMean(ImportContext& c) {
  const Moments m = moments(c);
  return {ops::sqrt(m.variance), m.mean};
}

// --- norms ---

Expr normOf(Expr x, double p, const std::vector<int64_t>& dims, bool keep) {
  if (isComplex(x.dtype())) x = ops::abs(x);
  if (dims.empty()) return p == 0 ? ops::ne(x, 0.0).as(x.dtype()) : ops::abs(x);
  if (p == 0) return ops::sum(ops::ne(x, 0.0).as(x.dtype()), {.dims = dims, .keepdim = keep});
  if (std::isinf(p)) return extremum(ops::abs(x), dims, keep, p > 0);
  if (p == 1) return ops::sum(ops::abs(x), {.dims = dims, .keepdim = keep});
  if (p == 2) return ops::sqrt(ops::sum(ops::square(x), {.dims = dims, .keepdim = keep}));
  const Expr power = ops::pow(ops::abs(x), p);
  return ops::pow(ops::sum(power, {.dims = dims, .keepdim = keep}), 1 / p);
}

ImportResults norm(ImportContext& c) {
  const ArgumentKey self = c.has("self") ? "self" : "x";
  Expr x = c.tensor(self);
  if (!isComplex(x.dtype())) x = x.as(c.result().dtype);
  const double p = c.has("ord") ? c.real("ord") : c.real("p", 2);
  return normOf(x, p, aten::dims(c, "dim", x.rank()), c.flag("keepdim", false));
}

ImportResults countNonzero(ImportContext& c) {
  const Expr x = c.tensor("self");
  const Expr set = isBool(x.dtype()) ? x : ops::ne(x, x.literal(0));
  const std::vector<int64_t> d = aten::dims(c, "dim", x.rank());
  const Expr ones = set.as(c.result().dtype);
  return d.empty() ? ones : ops::sum(ones, {.dims = d});
}

// dist: the norm of a difference
ImportResults dist(ImportContext& c) {
  const DType d = floatOf(promoted(c, {"self", "other"}));
  const Expr a = in(c, "self", d), b = in(c, "other", d);
  const Expr difference = a - b;
  return normOf(difference, c.real("p", 2),
                difference.rank() ? allDims(difference.rank()) : std::vector<int64_t>{}, false);
}

// --- softmax ---

template <Expr (*f)(Expr, ops::IntsAttr)> ImportResults softmax(ImportContext& c) {
  const Expr x = in(c, "self");
  if (x.rank() == 0) return reshapeTo(f(reshapeTo(x, {1}), std::vector<int64_t>{0}), {});
  return f(x, std::vector<int64_t>{aten::dim(c, "dim", x.rank())});
}

ImportResults safeSoftmax(ImportContext& c) { // 0 in rows of -inf
  const Expr x = in(c, "self");
  const std::vector<int64_t> d{aten::dim(c, "dim", x.rank())};
  const Expr largest = ops::max(x, ops::MaxArgs{.dims = d, .keepdim = true});
  const Expr none = broadcastTo(ops::eq(largest, -std::numeric_limits<double>::infinity()), x.dims());
  return ops::select(none, 0.0, ops::softmax(x, d));
}

// softmin is softmax of -x.
ImportResults softmin(ImportContext& c) {
  const Expr x = -in(c, "self");
  return ops::softmax(x, std::vector<int64_t>{aten::dim(c, "dim", x.rank())});
}

// --- scans ---

template <Expr (*f)(Expr, const ops::CumsumArgs&)> ImportResults cumsum(ImportContext& c) {
  const Expr x = in(c, "self");
  return x.rank() == 0 ? x : f(x, {.dim = aten::dim(c, "dim", x.rank())});
}

ImportResults cumprod(ImportContext& c) {
  Expr x = in(c, "self");
  if (x.rank() == 0) return x;
  const int64_t d = aten::dim(c, "dim", x.rank());
  if (!isComplex(x.dtype())) return ops::cumprod(x, {.dim = d});
  // The op does not take complex numbers: products of the last 2, 4, … elements.
  const int64_t n = staticDims(c.b, {x.dims().at(static_cast<size_t>(d))})[0];
  for (int64_t k = 1; k < n; k *= 2)
    x = concatOf(c.b, {sliceOf(x, d, 0, k), sliceOf(x, d, k, n) * sliceOf(x, d, 0, n - k)}, d);
  return x;
}

template <bool largest> ImportResults cummax(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return {x, filled(c.b, DType::I64, {}, 0)};
  const int64_t d = aten::dim(c, "dim", x.rank());
  const Expr ordered = isBool(x.dtype()) ? x.as(DType::U8) : x;
  const auto y = largest ? ops::cummax(ordered, {.dim = d}) : ops::cummin(ordered, {.dim = d});
  return {y[0].as(x.dtype()), y[1]};
}

ImportResults diff(ImportContext& c) {
  Expr x = c.tensor("self");
  const int64_t d = aten::dim(c, "dim", x.rank(), -1);
  if (c.integer("n", 1) == 0) return x;
  std::vector<Expr> parts;
  if (c.has("prepend")) parts.push_back(c.tensor("prepend").as(x.dtype()));
  parts.push_back(x);
  if (c.has("append")) parts.push_back(c.tensor("append").as(x.dtype()));
  x = concatOf(c.b, parts, d);
  for (int64_t i = c.integer("n", 1); i > 0; --i) {
    const int64_t n = staticDims(c.b, {x.dims().at(static_cast<size_t>(d))})[0];
    if (n == 0) break;
    const Expr after = sliceOf(x, d, 1, n), before = sliceOf(x, d, 0, n - 1);
    x = isBool(x.dtype()) ? ops::ne(after, before) : after - before;
  }
  return x;
}

// trapezoid(y, dx)
template <bool cumulative> ImportResults trapezoid(ImportContext& c) {
  const Expr y = in(c, "y");
  const int64_t d = aten::dim(c, "dim", y.rank(), -1);
  const int64_t n = staticDims(c.b, {y.dims().at(static_cast<size_t>(d))})[0];
  const Expr after = sliceOf(y, d, 1, n), before = sliceOf(y, d, 0, n - 1);
  Expr area = (after + before) / 2.0;
  if (c.has("x")) {
    Expr x = in(c, "x", y.dtype());
    const int64_t axis = x.rank() == 1 ? 0 : d;
    const Expr width = sliceOf(x, axis, 1, n) - sliceOf(x, axis, 0, n - 1);
    Dims dims(y.rank(), Dim(1));
    dims[static_cast<size_t>(d)] = n - 1;
    area = area * (x.rank() == 1 ? reshapeTo(width, dims) : width);
  } else {
    area = area * c.real("dx", 1);
  }
  const std::vector<int64_t> over{d};
  return cumulative ? ops::cumsum(area, {.dim = d}) : ops::sum(area, {.dims = over});
}

const ImportRow kRows[] = {
    {"aten.sum", sumOf<ops::sum>},
    {"aten.prod", prod},
    {"aten.mean", mean},
    {"aten.nansum", nansum},
    {"aten.nanmean", nanmean},
    {"aten.any", anyAll<false>},
    {"aten.all", anyAll<true>},
    {"aten.amax", amax<true>},
    {"aten.amin", amax<false>},
    {"aten.max", amax<true>},
    {"aten.min", amax<false>},
    {"aten.max.dim", maxDim<true>},
    {"aten.min.dim", maxDim<false>},
    {"aten.argmax", argmax<true>},
    {"aten.argmin", argmax<false>},
    {"aten.aminmax", aminmax},
    {"aten.var", var},
    {"aten.std", stdOf},
    {"aten.var_mean", varMean},
    {"aten.std_mean", stdMean},
    {"aten.norm", norm},
    {"aten.linalg_vector_norm", norm},
    {"aten.count_nonzero", countNonzero},
    {"aten.dist", dist},
    {"aten.softmax", softmax<ops::softmax>},
    {"aten._softmax", softmax<ops::softmax>},
    {"aten.special_softmax", softmax<ops::softmax>},
    {"aten._safe_softmax", safeSoftmax},
    {"aten.log_softmax", softmax<ops::log_softmax>},
    {"aten._log_softmax", softmax<ops::log_softmax>},
    {"aten.special_log_softmax", softmax<ops::log_softmax>},
    {"aten.softmin", softmin},
    {"aten.cumsum", cumsum<ops::cumsum>},
    {"aten.cumprod", cumprod},
    {"aten.cummax", cummax<true>},
    {"aten.cummin", cummax<false>},
    {"aten.diff", diff},
    {"aten.trapezoid", trapezoid<false>},
    {"aten.trapz", trapezoid<false>},
    {"aten.cumulative_trapezoid", trapezoid<true>},
};

} // namespace
} // namespace aten::reductions

ImportRows torchReduceRows() { return aten::reductions::kRows; }

} // namespace dtc
