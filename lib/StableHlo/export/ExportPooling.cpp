// Windows over pairs of an element and its index: max_pool and its gradient, cummax, cummin; and
// logcumsumexp.
#include "dtc/Support/Words.h"
#include "export/ExportContext.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// The indices of x [n, c, spatial…], counted over the spatial dims.
ExportValue flatIndices(ExportContext& c, const ExportValue& x) {
  Dims spatial(x.shape.begin() + 2, x.shape.end()), dims(spatial.size());
  int64_t count = 1;
  for (size_t d = 0; d < spatial.size(); ++d) {
    dims[d] = static_cast<int64_t>(d + 2);
    count *= spatial[d];
  }
  return c.w.broadcast(c.w.reshape(c.w.iota(0, DType::I32, {count}), spatial), dims, x.shape);
}

// A reduce_window over pairs of an element and its i32 index. NaN compares as the maximum; ties take the
// first index, or the last.
struct PairWindow {
  bool isMax = true, first = true;
  ExportValue start, noIndex; // scalars: the initial pair of a window
  std::string how;            // its attributes
};

struct Pairs {
  ExportValue values, indices;
};

void choose(ExportWriter& w, const PairWindow& window, const ExportValue& a, const ExportValue& b,
            const ExportValue& i, const ExportValue& j) {
  const char *before = window.isMax ? "GT" : "LT", *after = window.isMax ? "LT" : "GT";
  ExportValue more = w.compare(before, a, b), less = w.compare(after, a, b);
  if (isFloat(a.dtype)) {
    const ExportValue aIsNan = w.compare("NE", a, a), bIsNan = w.compare("NE", b, b);
    more = w.binary("or", more, w.binary("and", aIsNan, w.compare("EQ", b, b)));
    less = w.binary("or", less, w.binary("and", bIsNan, w.compare("EQ", a, a)));
  }
  const ExportValue differ = w.binary("or", more, less), tie = w.compare(window.first ? "LE" : "GE", i, j);
  const ExportValue keep = w.select(differ, more, tie);
  const ExportValue best = w.select(keep, a, b), where = w.select(keep, i, j);
  w.line("stablehlo.return " + best.name + ", " + where.name + " : " + hloType(best) + ", " + hloType(where));
}

Pairs reduced(ExportContext& c, OpId o, const PairWindow& window, const ExportValue& x,
              const ExportValue& indices) {
  ExportWriter& w = c.w;
  const Dims shape = c.resultShape(o);
  const std::string scalar = hloType(x.dtype, {}), index = hloType(DType::I32, {});
  const Pairs out{{w.fresh(c.nameOf(c.m.result(o))), x.dtype, shape}, {w.fresh(), DType::I32, shape}};
  w.open(out.values.name + ", " + out.indices.name + " = \"stablehlo.reduce_window\"(" + x.name + ", " +
         indices.name + ", " + window.start.name + ", " + window.noIndex.name + ") <{" + window.how +
         "}> ({");
  w.line("^bb0(%lhs: " + scalar + ", %lhs_at: " + index + ", %rhs: " + scalar + ", %rhs_at: " + index + "):");
  choose(w, window, {"%lhs", x.dtype, {}}, {"%rhs", x.dtype, {}}, {"%lhs_at", DType::I32, {}},
         {"%rhs_at", DType::I32, {}});
  w.close("}) : (" + hloType(x) + ", " + hloType(indices) + ", " + scalar + ", " + index + ") -> (" +
          hloType(out.values) + ", " + hloType(out.indices) + ")");
  return out;
}

// The identity of the reduction: the value that every element replaces.
ExportValue identityOf(ExportWriter& w, DType d, bool isMax) {
  if (isFloat(d)) return w.splat(isMax ? -HUGE_VAL : HUGE_VAL, d, {});
  const int64_t v = isMax ? intMin(d) : intMax(d);
  return w.dense(isUnsignedInt(d) ? std::to_string(static_cast<uint64_t>(v)) : std::to_string(v), d, {});
}

// --- max_pool ---

// Trailing padding of x that makes exactly the windows of the result: with `ceil`, the last may extend beyond
// the padding asked for.
std::string poolWindow(ExportContext& c, OpId o, const ExportValue& x) {
  const OpQuery q = c.query(o);
  auto listed = [&](const char* name, const Dims& fallback) {
    const Dims v = q.intsAttr(name);
    return v.empty() ? fallback : v;
  };
  const Dims ones(x.rank() - 2, 1), window = q.intsAttr("window"), stride = listed("stride", window),
                                    dilation = listed("dilation", ones), shape = c.resultShape(o);
  const AttrId padding = q.rawAttr("padding");
  std::string pads = "[0, 0], [0, 0]";
  for (size_t d = 0; d < ones.size(); ++d) {
    int64_t low = 0, high = 0;
    if (padding.valid()) {
      const auto& pair = c.m.attrs[c.m.attrs[padding].list[d]].list;
      low = c.m.attrs[pair[0]].i;
      high = c.m.attrs[pair[1]].i;
    }
    const int64_t reach = (shape[d + 2] - 1) * stride[d] + (window[d] - 1) * dilation[d] + 1;
    if (q.boolAttr("ceil")) high = std::max(high, reach - x.shape[d + 2] - low);
    pads += ", [" + std::to_string(low) + ", " + std::to_string(high) + "]";
  }
  auto array = [](const Dims& d) { return "array<i64: 1, 1, " + joined(d) + ">"; };
  return "padding = dense<[" + pads + "]> : tensor<" + std::to_string(x.rank()) +
         "x2xi64>, window_dilations = " + array(dilation) + ", window_dimensions = " + array(window) +
         ", window_strides = " + array(stride);
}

// A window that contains only padding yields the highest index, which becomes -1.
bool maxPool(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0);
  const PairWindow window{true, true, identityOf(c.w, x.dtype, true), c.w.splat(INT32_MAX, DType::I32, {}),
                          poolWindow(c, o, x)};
  const Pairs found = reduced(c, o, window, x, flatIndices(c, x));
  c.setResult(o, 0, found.values);
  if (c.m[o].numResults == 1) return true;
  const Dims shape = found.indices.shape;
  const ExportValue known = c.w.compare("NE", found.indices, c.w.splat(INT32_MAX, DType::I32, shape));
  const ExportValue at = c.w.select(known, found.indices, c.w.splat(-1, DType::I32, shape));
  return c.setResult(o, 1, c.w.convert(at, c.resultType(o, 1)));
}

// --- scans ---

// The window of a scan's element: all elements so far; an exclusive one ends one before.
std::string scanWindow(ExportContext& c, OpId o, const ExportValue& x, size_t dim) {
  const OpQuery q = c.query(o);
  Dims window(x.rank(), 1);
  window[dim] = x.shape[dim];
  const int64_t later = q.boolAttr("exclusive") ? 1 : 0;
  std::string pads;
  for (size_t d = 0; d < x.rank(); ++d) {
    Dims pad = {0, 0};
    if (d == dim) pad = {x.shape[dim] - 1 + later, -later};
    if (q.boolAttr("reverse")) std::swap(pad[0], pad[1]);
    pads += (d ? ", " : "") + hloList(pad);
  }
  return "padding = dense<[" + pads + "]> : tensor<" + std::to_string(x.rank()) +
         "x2xi64>, window_dimensions = array<i64: " + joined(window) + ">";
}

// Ties take the last index of the scan; indices count along the scan, from its end where it is reversed.
bool extremes(ExportContext& c, OpId o) {
  ExportWriter& w = c.w;
  const OpQuery q = c.query(o);
  const bool isMax = c.m.record(o).combines == PendingKind::Max;
  const ExportValue x = c.operand(o, 0);
  const auto dim = static_cast<size_t>(*q.dimAttr("dim", x.rank()));
  if (std::ranges::count(x.shape, 0) > 0)
    return c.setResult(o, 0, x) && c.setResult(o, 1, w.splat(0, c.resultType(o, 1), x.shape));
  const PairWindow window{isMax, false, identityOf(w, x.dtype, isMax), w.splat(-1, DType::I32, {}),
                          scanWindow(c, o, x, dim)};
  const ExportValue last = w.splat(static_cast<double>(x.shape[dim] - 1), DType::I32, x.shape);
  auto reversed = [&](const ExportValue& v) {
    return q.boolAttr("reverse") ? w.binary("subtract", last, v) : v;
  };
  const Pairs found =
      reduced(c, o, window, x, reversed(w.iota(static_cast<int64_t>(dim), DType::I32, x.shape)));
  const ExportValue none = w.splat(-1, DType::I32, x.shape);
  const ExportValue at = w.select(w.compare("EQ", found.indices, none), none, reversed(found.indices));
  return c.setResult(o, 0, found.values) && c.setResult(o, 1, w.convert(at, c.resultType(o, 1)));
}

// log(exp a + exp b); the max of infinite operands.
bool logSum(ExportContext& c, OpId o) {
  ExportWriter& w = c.w;
  const ExportValue given = c.operand(o, 0);
  const ExportValue x = isNarrowFloat(given.dtype) ? w.convert(given, DType::F32) : given;
  const auto dim = static_cast<size_t>(*c.query(o).dimAttr("dim", x.rank()));
  if (std::ranges::count(x.shape, 0) > 0) return c.setResult(o, given);
  const std::string scalar = hloType(x.dtype, {});
  const ExportValue start = identityOf(w, x.dtype, true);
  ExportValue y{w.fresh(), x.dtype, x.shape};
  w.open(y.name + " = \"stablehlo.reduce_window\"(" + x.name + ", " + start.name + ") <{" +
         scanWindow(c, o, x, dim) + "}> ({");
  w.line("^bb0(%lhs: " + scalar + ", %rhs: " + scalar + "):");
  const ExportValue a{"%lhs", x.dtype, {}}, b{"%rhs", x.dtype, {}};
  const ExportValue infinite = w.splat(HUGE_VAL, x.dtype, {}); // within: a reducer captures nothing
  const ExportValue larger = w.binary("maximum", a, b), distance = w.unary("abs", w.binary("subtract", a, b));
  const ExportValue sum =
      w.binary("add", larger, w.unary("log_plus_one", w.unary("exponential", w.unary("negate", distance))));
  const ExportValue both = w.select(w.compare("EQ", w.unary("abs", larger), infinite), larger, sum);
  w.line("stablehlo.return " + both.name + " : " + scalar);
  w.close("}) : (" + hloType(x) + ", " + scalar + ") -> " + hloType(x));
  return c.setResult(o, w.convert(y, given.dtype));
}

// --- max_unpool ---

// The elements are scattered to their indices and summed, in f32 where they are narrower. An index outside of
// its window becomes -1, which scatter ignores.
bool maxUnpool(ExportContext& c, OpId o) {
  ExportWriter& w = c.w;
  const OpQuery q = c.query(o);
  const ExportValue y = c.operand(o, 0);
  ExportValue at = w.convert(c.operand(o, 1), DType::I32);
  const Dims size = q.intsAttr("size"), stride = q.intsAttr("stride"), low = q.intsAttr("low"),
             reach = q.intsAttr("reach"), shape = c.resultShape(o);
  if (std::ranges::count(y.shape, 0) > 0 || std::ranges::count(shape, 0) > 0)
    return c.setResult(o, w.splat(0, y.dtype, shape));
  auto number = [&](int64_t v) { return w.dense(std::to_string(v), DType::I32, y.shape); };
  ExportValue rest = at, good = w.compare("GE", at, number(0));
  int64_t count = 1;
  for (size_t d = size.size(); d-- > 0;) {
    const ExportValue coordinate = d == 0 ? rest : w.binary("remainder", rest, number(size[d]));
    if (d > 0) rest = w.binary("divide", rest, number(size[d]));
    const ExportValue from = w.binary(
        "subtract",
        w.binary("multiply", w.iota(static_cast<int64_t>(d + 2), DType::I32, y.shape), number(stride[d])),
        number(low[d]));
    good = w.binary("and", good, w.compare("GE", coordinate, from));
    good = w.binary("and", good, w.compare("LT", coordinate, w.binary("add", from, number(reach[d]))));
    good = w.binary("and", good, w.compare("LT", coordinate, number(size[d])));
    count *= size[d];
  }
  at = w.select(good, at, number(-1));
  int64_t given = 1;
  for (size_t d = 2; d < y.rank(); ++d) given *= y.shape[d];
  const DType sum = isNarrowFloat(y.dtype) ? DType::F32 : y.dtype;
  const Dims flat = {y.shape[0], y.shape[1], given}, wide = {flat[0], flat[1], given, 1};
  const ExportValue coordinates[] = {w.iota(0, DType::I32, wide), w.iota(1, DType::I32, wide),
                                     w.reshape(at, wide)};
  const ExportValue operands[] = {w.splat(0, sum, {shape[0], shape[1], count}), w.concatenate(coordinates, 3),
                                  w.reshape(w.convert(y, sum), flat)};
  const std::string type = hloType(sum, {});
  const ExportValue x = w.generic(
      "stablehlo.scatter", operands,
      "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, "
      "1, 2], "
      "scatter_dims_to_operand_dims = [0, 1, 2], index_vector_dim = 3>, unique_indices = false",
      sum, operands[0].shape,
      {"^bb0(%lhs: " + type + ", %rhs: " + type + "):", "  %out = stablehlo.add %lhs, %rhs : " + type,
       "  stablehlo.return %out : " + type});
  return c.setResult(o, w.convert(w.reshape(x, shape), y.dtype));
}

} // namespace

std::span<const ExportRow> exportsOfPooling() {
  static constexpr ExportRow rows[] = {{"max_pool", maxPool},
                                       {"max_unpool", maxUnpool},
                                       {"cummax", extremes},
                                       {"cummin", extremes},
                                       {"logcumsumexp", logSum}};
  return rows;
}

} // namespace dtc
