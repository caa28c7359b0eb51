// Ops that create tensors, and data-movement ops.
#include "dtc/Support/Tensor.h"
#include "export/ExportContext.h"
#include <algorithm>

namespace dtc {

namespace {

Dims ones(size_t n) { return Dims(n, 1); }
Dims zeros(size_t n) { return Dims(n, 0); }

// --- constants ---

std::string nested(const Tensor& t, size_t dim, int64_t& next) {
  if (dim == t.rank()) {
    const int64_t i = next++;
    if (isInteger(t.dtype()))
      return isUnsignedInt(t.dtype()) ? std::to_string(static_cast<uint64_t>(t.getInt(i)))
                                      : std::to_string(t.getInt(i));
    return hloNumber(t.dtype(), t.getFloat(i));
  }
  std::string text = "[";
  for (int64_t i = 0; i < t.shape()[dim]; ++i) text += (i ? ", " : "") + nested(t, dim + 1, next);
  return text + "]";
}

bool allEqual(const Tensor& t) {
  const auto bytes = t.bytes();
  const auto one = static_cast<size_t>(dtypeBytes(t.dtype()));
  for (size_t i = one; i < bytes.size(); ++i)
    if (bytes[i] != bytes[i - one]) return false;
  return t.numElements() > 0;
}

std::string bytesText(const Tensor& t) {
  static constexpr char digits[] = "0123456789ABCDEF";
  std::string text = "\"0x";
  for (std::byte b : t.bytes()) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text + '"';
}

// Short constants are written as a list, long ones as bytes (which MLIR packs for bools).
constexpr int64_t kListedElements = 64;

std::string elementsText(const Tensor& t) {
  int64_t next = 0;
  if (t.numElements() == 0) return "";
  if (allEqual(t)) return nested(Tensor(t.reshaped({t.numElements()})), 1, next);
  if (isBool(t.dtype()) || t.numElements() <= kListedElements) return nested(t, 0, next);
  return bytesText(t);
}

bool constant(ExportContext& c, OpId o) {
  Tensor t(c.resultType(o), c.resultShape(o));
  Tensor* const out[] = {&t};
  if (!c.m.record(o).eval(c.query(o), {}, out)) return false;
  return c.setResult(o, c.w.dense(elementsText(t), t.dtype(), t.shape()));
}

// --- views ---

bool reshaped(ExportContext& c, OpId o) {
  return c.setResult(o, c.w.reshape(c.operand(o, 0), c.resultShape(o)));
}

bool transposed(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0);
  Dims perm = c.query(o).intsAttr("perm");
  for (int64_t& d : perm) d += d < 0 ? static_cast<int64_t>(x.rank()) : 0;
  return c.setResult(o, c.w.transpose(x, perm));
}

// NumPy broadcasting: ranks align at the last dim.
bool broadcast(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0);
  const Dims shape = c.resultShape(o);
  Dims dims;
  for (size_t i = 0; i < x.rank(); ++i) dims.push_back(static_cast<int64_t>(shape.size() - x.rank() + i));
  return c.setResult(o, c.w.broadcast(x, dims, shape));
}

// Each dim as (repeats, n), then merged.
bool tiled(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0);
  const Dims shape = c.resultShape(o);
  Dims wide, dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    const size_t own = d + x.rank() - shape.size();
    const int64_t n = own < x.rank() ? x.shape[own] : 1;
    wide.push_back(n ? shape[d] / n : 1);
    wide.push_back(n);
    if (own < x.rank()) dims.push_back(static_cast<int64_t>(2 * d + 1));
  }
  return c.setResult(o, c.w.reshape(c.w.broadcast(x, dims, wide), shape));
}

// --- slices and concatenation ---

ExportValue sliceAlong(ExportContext& c, const ExportValue& x, size_t dim, int64_t start, int64_t limit) {
  Dims from = zeros(x.rank()), to = x.shape;
  from[dim] = start;
  to[dim] = limit;
  return c.w.slice(x, from, to, ones(x.rank()));
}

bool sliced(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  const ExportValue x = c.operand(o, 0);
  Dims stride = q.intsAttr("stride");
  if (stride.empty()) stride = ones(x.rank());
  return c.setResult(o, c.w.slice(x, q.intsAttr("start"), q.intsAttr("limit"), stride));
}

bool split(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0);
  const auto dim = static_cast<size_t>(*c.query(o).dimAttr("dim", x.rank()));
  int64_t at = 0;
  for (uint32_t r = 0; r < c.m[o].numResults; ++r) {
    const int64_t n = c.resultShape(o, r)[dim];
    c.setResult(o, r, sliceAlong(c, x, dim, at, at + n));
    at += n;
  }
  return true;
}

std::vector<ExportValue> operandsOf(ExportContext& c, OpId o) {
  std::vector<ExportValue> all;
  for (uint32_t i = 0; i < c.m[o].numOperands; ++i) all.push_back(c.operand(o, i));
  return all;
}

bool concatenated(ExportContext& c, OpId o) {
  const auto xs = operandsOf(c, o);
  return c.setResult(o, c.w.concatenate(xs, *c.query(o).dimAttr("dim", xs[0].rank())));
}

bool stacked(ExportContext& c, OpId o) {
  auto xs = operandsOf(c, o);
  const int64_t dim = *c.query(o).dimAttr("dim", xs[0].rank() + 1);
  for (ExportValue& x : xs) {
    Dims shape = x.shape;
    shape.insert(shape.begin() + dim, 1);
    x = c.w.reshape(x, shape);
  }
  return c.setResult(o, c.w.concatenate(xs, dim));
}

bool flipped(ExportContext& c, OpId o) {
  const ExportValue x = c.operand(o, 0);
  return c.setResult(o, c.w.reverse(x, *c.query(o).dimsAttr("dims", x.rank())));
}

// Rolls one dim at a time: the wrapped end comes first.
bool rolled(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  ExportValue x = c.operand(o, 0);
  const Dims shifts = q.intsAttr("shifts");
  Dims dims = q.intsAttr("dims"); // in the order of `shifts`
  for (size_t i = 0; i < dims.size() && i < shifts.size(); ++i) {
    const auto dim = static_cast<size_t>(dims[i] < 0 ? dims[i] + static_cast<int64_t>(x.rank()) : dims[i]);
    const int64_t n = x.shape[dim];
    if (n == 0) continue;
    const int64_t by = (shifts[i] % n + n) % n;
    if (by == 0) continue;
    const ExportValue parts[] = {sliceAlong(c, x, dim, n - by, n), sliceAlong(c, x, dim, 0, n - by)};
    x = c.w.concatenate(parts, static_cast<int64_t>(dim));
  }
  return c.setResult(o, x);
}

// --- pad ---

// `n` elements of padding before or after x along a dim, according to the mode.
ExportValue border(ExportContext& c, const ExportValue& x, size_t dim, int64_t n, bool before,
                   std::string_view mode) {
  const int64_t size = x.shape[dim];
  if (mode == "circular") return before ? sliceAlong(c, x, dim, size - n, size) : sliceAlong(c, x, dim, 0, n);
  if (mode == "reflect") {
    const ExportValue near =
        before ? sliceAlong(c, x, dim, 1, n + 1) : sliceAlong(c, x, dim, size - 1 - n, size - 1);
    return c.w.reverse(near, {static_cast<int64_t>(dim)});
  }
  const ExportValue edge = before ? sliceAlong(c, x, dim, 0, 1) : sliceAlong(c, x, dim, size - 1, size);
  Dims shape = edge.shape, dims(x.rank());
  shape[dim] = n;
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
  return c.w.broadcast(edge, dims, shape);
}

bool padded(ExportContext& c, OpId o) {
  const OpQuery q = c.query(o);
  ExportValue x = c.operand(o, 0);
  Dims low = q.intsAttr("low"), high = q.intsAttr("high"), interior = q.intsAttr("interior");
  if (interior.empty()) interior = zeros(x.rank());
  const std::string mode(q.textAttr("mode"));
  if (mode == "constant") {
    const ExportValue value = c.m[o].numOperands > 1 ? c.operand(o, 1) : c.w.splat(0, x.dtype, {});
    return c.setResult(o, c.w.pad(x, value, low, high, interior));
  }
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    return c.refuse(o, "StableHLO has no padding mode '" + mode + "'");
  for (size_t d = 0; d < x.rank(); ++d) {
    const int64_t size = x.shape[d], first = std::max<int64_t>(0, -low[d]),
                  end = size - std::max<int64_t>(0, -high[d]);
    std::vector<ExportValue> parts;
    if (low[d] > 0) parts.push_back(border(c, x, d, low[d], true, mode));
    parts.push_back(first > 0 || end < size ? sliceAlong(c, x, d, first, end) : x);
    if (high[d] > 0) parts.push_back(border(c, x, d, high[d], false, mode));
    if (parts.size() > 1) parts = {c.w.concatenate(parts, static_cast<int64_t>(d))};
    x = parts[0];
  }
  return c.setResult(o, x);
}

} // namespace

std::span<const ExportRow> exportsOfShapes() {
  static constexpr ExportRow rows[] = {
      {"constant", constant},    {"reshape", reshaped},    {"expand_dims", reshaped}, {"squeeze", reshaped},
      {"transpose", transposed}, {"broadcast", broadcast}, {"tile", tiled},           {"slice", sliced},
      {"split", split},          {"concat", concatenated}, {"stack", stacked},        {"flip", flipped},
      {"roll", rolled},          {"pad", padded},
  };
  return rows;
}

} // namespace dtc
