// Sorting and order statistics.
#include "aten/Aten.h"
#include "aten/Table.h"

#include <cmath>
#include <limits>

namespace dtc {
namespace aten::sorting {
namespace {

Expr numeric(Expr x) { return isBool(x.dtype()) ? x.as(DType::U8) : x; }

ImportResults sort(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return {x, filled(c.b, DType::I64, {}, 0)};
  const auto [values, at] = ops::sort(
      numeric(x),
      {.dim = aten::dim(c, "dim", x.rank(), -1), .descending = c.flag("descending", false), .stable = true});
  return {values.as(x.dtype()), at};
}

ImportResults argsort(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return filled(c.b, DType::I64, {}, 0);
  return ops::argsort(
      numeric(x),
      {.dim = aten::dim(c, "dim", x.rank(), -1), .descending = c.flag("descending", false), .stable = true});
}

ImportResults msort(ImportContext& c) {
  const Expr x = c.tensor("self");
  return x.rank() == 0 ? x : ops::sort(numeric(x), {.dim = 0, .stable = true})[0].as(x.dtype());
}

ImportResults topk(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return {x, filled(c.b, DType::I64, {}, 0)};
  const auto y = ops::topk(
      x,
      {.k = c.integer("k"), .dim = aten::dim(c, "dim", x.rank(), -1), .descending = c.flag("largest", true)});
  return y;
}

ImportResults kthvalue(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return {x, filled(c.b, DType::I64, {}, 0)};
  const int64_t d = aten::dim(c, "dim", x.rank(), -1), k = c.integer("k");
  const auto [values, at] = ops::sort(x, {.dim = d, .stable = true});
  const auto pick = [&](Expr y) { return reshapeTo(sliceOf(y, d, k - 1, k), resultDims(c)); };
  return {pick(values), pick(at)};
}

template <bool skipsNan> ImportResults median(ImportContext& c) {
  const Expr x = c.tensor("self");
  const auto along = [&](Expr y, int64_t d, bool keep) {
    return skipsNan ? ops::nanmedian(y, {.dim = d, .keepdim = keep})
                    : ops::median(y, {.dim = d, .keepdim = keep});
  };
  if (c.has("dim")) {
    if (x.rank() == 0) return {x, filled(c.b, DType::I64, {}, 0)};
    return along(x, aten::dim(c, "dim", x.rank()), c.flag("keepdim", false));
  }
  return along(reshapeTo(x, {elementsOf(c.b, x.dims())}), 0, false)[0];
}

// The most frequent value, the smallest of equals: the longest run of the sorted values.
ImportResults mode(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (x.rank() == 0) return {x, filled(c.b, DType::I64, {}, 0)};
  const int64_t d = aten::dim(c, "dim", x.rank(), -1);
  const Expr y = numeric(moved(x, d, static_cast<int64_t>(x.rank()) - 1));
  const auto last = static_cast<int64_t>(x.rank()) - 1;
  const Expr a = withDim(y, last + 1), b = withDim(y, last); // [.., n, 1], [.., 1, n]
  const Expr same = ops::eq(a, b).as(DType::I32);
  const std::vector<int64_t> over{last + 1}, along{last};
  const Expr counts = ops::sum(same, {.dims = over});
  const Expr most = ops::max(counts, ops::MaxArgs{.dims = along, .keepdim = true});
  const Expr frequent = ops::eq(counts, most);
  const auto [values, at] = ops::sort(y, {.dim = last, .stable = true});
  const Expr candidate = ops::gather(frequent, at, {.dim = last});
  const Expr first = ops::argmax(candidate.as(DType::I32), {.dim = last, .keepdim = true});
  const Expr value = ops::gather(values, first, {.dim = last});
  // The index is that of the last of equals.
  const Expr position = ops::iota(c.b, checkedType(c.b, DType::I32, y.dims()), {.dim = last});
  const Expr where = ops::select(ops::eq(y, value), position, -1);
  const Expr index = ops::max(where, ops::MaxArgs{.dims = along, .keepdim = true});
  return {reshapeTo(value, resultDims(c)).as(x.dtype()), reshapeTo(index, resultDims(c))};
}

// quantile(x, q, dim): linear between the two neighbours.
template <bool skipsNan> ImportResults quantile(ImportContext& c) {
  Expr x = c.tensor("self");
  const bool whole = !c.has("dim");
  const int64_t d = whole ? 0 : aten::dim(c, "dim", x.rank());
  if (whole || x.rank() == 0) x = reshapeTo(x, {elementsOf(c.b, x.dims())});
  const Expr y = moved(x, d, static_cast<int64_t>(x.rank()) - 1);
  const auto last = static_cast<int64_t>(y.rank()) - 1;
  const int64_t n = staticDims(c.b, {y.dims().back()})[0];
  const std::vector<int64_t> over{last};
  const Expr sorted = ops::sort(y, {.dim = last, .stable = true})[0];
  Expr q = c.isTensor("q") ? c.tensor("q") : tensorOf(in(c, "q", x.dtype()));
  q = reshapeTo(q, {elementsOf(c.b, q.dims())});
  const Dim k = q.dims().at(0);
  Expr count; // of values, less one
  const Expr nan = ops::is_nan(y);
  if (skipsNan)
    count = ops::sum(ops::not_(nan).as(x.dtype()), {.dims = over, .keepdim = true}) - 1.0;
  else
    count = filled(c.b, x.dtype(), Dims(y.rank(), Dim(1)), static_cast<double>(n - 1));
  Dims wide = y.dims();
  wide.back() = k;
  const Expr rank = broadcastTo(count * q, wide);
  const std::string how = c.text("interpolation", "linear");
  const Expr low = ops::floor(rank), high = ops::ceil(rank);
  const auto at = [&](Expr r) {
    const Expr i = ops::max(r, 0.0).as(DType::I32);
    return ops::gather(sorted, i, {.dim = last});
  };
  Expr out;
  if (how == "lower")
    out = at(low);
  else if (how == "higher")
    out = at(high);
  else if (how == "nearest")
    out = at(ops::round(rank));
  else {
    const Expr a = at(low), b = at(high);
    const Expr weight = how == "midpoint" ? filled(c.b, x.dtype(), wide, 0.5) : rank - low;
    const Expr equal = ops::eq(low, high);
    out = ops::select(equal, a, a + weight * (b - a));
  }
  if (!skipsNan) {
    const Expr any = broadcastTo(ops::any(nan, {.dims = over, .keepdim = true}), wide);
    out = ops::select(any, std::numeric_limits<double>::quiet_NaN(), out);
  } else {
    const Expr none = broadcastTo(count < 0.0, wide);
    out = ops::select(none, std::numeric_limits<double>::quiet_NaN(), out);
  }
  // [.., k] -> [k, ..]
  out = moved(out, last, 0);
  return reshapeTo(out, resultDims(c));
}

// bucketize, searchsorted: the number of boundaries below each value.
ImportResults searchsorted(ImportContext& c) {
  const bool bucketize = c.node.target.find("bucketize") != std::string::npos;
  const ArgumentKey edgesKey = bucketize ? "boundaries" : "sorted_sequence", valuesKey = "self";
  const bool right = c.flag("right", false) || c.text("side", "left") == "right";
  Expr edges = c.tensor(edgesKey);
  if (c.has("sorter"))
    edges = ops::gather(edges, c.tensor("sorter").as(DType::I32),
                        {.dim = static_cast<int64_t>(edges.rank()) - 1});
  const DType d = promoted(c, {edgesKey, valuesKey});
  const Expr values = tensorOf(in(c, valuesKey, d)), sorted = edges.as(d);
  const Expr v = withDim(values, static_cast<int64_t>(values.rank()));
  Expr e = sorted;
  if (edges.rank() > 1) e = withDim(sorted, static_cast<int64_t>(sorted.rank()) - 1);
  Expr below = right ? e <= v : e < v;
  if (isFloat(d)) below = below | ops::is_nan(v); // which is after all numbers
  const std::vector<int64_t> over{static_cast<int64_t>(below.rank()) - 1};
  return ops::sum(below.as(DType::I32), {.dims = over});
}

// --- histograms ---

ImportResults histc(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t bins = c.integer("bins", 100);
  const double low = c.real("min", 0), high = c.real("max", 0);
  const Expr flat = reshapeTo(x, {elementsOf(c.b, x.dims())});
  const DType wide = isFloat(x.dtype()) ? x.dtype() : DType::F32;
  const Expr v = flat.as(wide);
  Expr first = filled(c.b, wide, {}, low), last = filled(c.b, wide, {}, high);
  if (low == high) {
    first = ops::min(v, ops::MinArgs{}), last = ops::max(v, ops::MaxArgs{});
    const Expr same = ops::eq(first, last);
    const Expr below = first - 1.0, above = last + 1.0;
    first = ops::select(same, below, first), last = ops::select(same, above, last);
  }
  const Expr inside = (v >= first) & (v <= last);
  const Expr fraction = (v - first) / (last - first) * static_cast<double>(bins);
  const Expr bin = ops::min(ops::floor(fraction), static_cast<double>(bins - 1)).as(DType::I32);
  const Expr at = ops::select(inside, bin, -1);
  const Expr hot = ops::one_hot(at, {.depth = bins, .dtype = c.result().dtype});
  const std::vector<int64_t> over{0};
  return ops::sum(hot, {.dims = over});
}

const ImportRow kRows[] = {
    {"aten.sort", sort},
    {"aten.argsort", argsort},
    {"aten.msort", msort},
    {"aten.topk", topk},
    {"aten.kthvalue", kthvalue},
    {"aten.median", median<false>},
    {"aten.nanmedian", median<true>},
    {"aten.mode", mode},
    {"aten.quantile", quantile<false>},
    {"aten.nanquantile", quantile<true>},
    {"aten.bucketize", searchsorted},
    {"aten.searchsorted", searchsorted},
    {"aten.histc", histc},
};

} // namespace
} // namespace aten::sorting

ImportRows torchSortRows() { return aten::sorting::kRows; }

} // namespace dtc
