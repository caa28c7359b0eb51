// resize: elements of x at evenly spaced positions between its own, dim by dim.
#include "window/Resize.h"
#include "record/CarriedSum.h"
#include "record/RecordParts.h"
#include "record/ShapeParts.h"

#include "dtc/Ops/OpFunctions.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dtc {

namespace {

constexpr DiagKind kResize{"resize", "resize: {0}"};
constexpr int64_t kMaxTaps = int64_t(1) << 26; // of one dim, over all elements of the result

std::optional<std::vector<double>> numbersOf(const OpQuery& q, const char* name) {
  const AttrId id = q.rawAttr(name);
  if (!id.valid()) return std::nullopt;
  std::vector<double> out;
  for (AttrId e : q.module->attrs[id].list) {
    const Attr& a = q.module->attrs[e];
    if (a.kind != Attr::Int && a.kind != Attr::Float) return std::nullopt;
    out.push_back(a.kind == Attr::Int ? static_cast<double>(a.i) : a.f);
  }
  return out;
}

// The filter at a distance from its center.
double filterAt(const ResizeDim& d, double x) {
  x = std::abs(x);
  if (d.mode == ResizeMode::Linear) return std::max(0.0, 1 - x);
  const double a = d.cubic;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

int64_t nearestOf(const ResizeDim& d, long double x) {
  if (d.rounding == ResizeRounding::Floor) return static_cast<int64_t>(std::floor(x));
  if (d.rounding == ResizeRounding::Ceil) return static_cast<int64_t>(std::ceil(x));
  if (d.rounding == ResizeRounding::HalfDown) return static_cast<int64_t>(std::ceil(x - 0.5L));
  return static_cast<int64_t>(std::floor(x + 0.5L));
}

bool isDimGood(const OpQuery& q, const ResizeDim& d) {
  const auto bad = [&](const std::string& why) { return q.diags->fail(kResize, q.loc, why); };
  if (d.size < 1 && d.result > 0) return bad("a dim of size 0 has no elements to resize");
  if (d.result < 0) return bad("expected sizes of at least 0");
  const double last = d.scale * static_cast<double>(d.result) + d.offset;
  if (!std::isfinite(d.scale) || !std::isfinite(d.offset) || d.scale < 0 || std::abs(last) > 0x1p52 ||
      std::abs(d.offset) > 0x1p52)
    return bad("expected finite scales of at least 0, and finite offsets");
  const double each = d.antialias ? 4 * std::max(1.0, d.scale) + 2 : 4;
  if (each * static_cast<double>(d.result) > static_cast<double>(kMaxTaps))
    return bad("the filter is too large");
  return true;
}

} // namespace

bool readResize(const OpQuery& q, std::vector<ResizeDim>& out) {
  const Type& x = q.type(0);
  const auto dims = q.dimsAttr("dims", x.rank());
  const auto sizes = q.intsAttr("sizes");
  const auto scales = numbersOf(q, "scales"), offsets = numbersOf(q, "offsets");
  if (!dims) return false;
  std::vector<int64_t> written = q.intsAttr("dims");
  for (int64_t& d : written) d += d < 0 ? static_cast<int64_t>(x.rank()) : 0;
  if (written != *dims) return q.diags->fail(kResize, q.loc, "expected ascending dims");
  if (!scales || !offsets || sizes.size() != dims->size() || scales->size() != sizes.size() ||
      offsets->size() != sizes.size())
    return q.diags->fail(kResize, q.loc, "expected a size, a scale and an offset for each of `dims`");
  if (!textChoice(q, "mode", {"nearest", "linear", "cubic"}) ||
      !textChoice(q, "rounding", {"floor", "ceil", "half_down", "half_up"}))
    return false;
  const std::string_view mode = q.textAttr("mode"), rounding = q.textAttr("rounding");
  for (size_t i = 0; i < dims->size(); ++i) {
    const Dim size = x.dims[static_cast<size_t>((*dims)[i])];
    if (!size.isStatic())
      return q.diags->fail(kResize, q.loc, "expected static sizes of the dims that are resized");
    ResizeDim d;
    d.dim = (*dims)[i], d.size = size.value(), d.result = sizes[i];
    d.scale = (*scales)[i], d.offset = (*offsets)[i];
    d.mode = mode == "nearest"  ? ResizeMode::Nearest
             : mode == "linear" ? ResizeMode::Linear
                                : ResizeMode::Cubic;
    d.rounding = rounding == "floor"       ? ResizeRounding::Floor
                 : rounding == "ceil"      ? ResizeRounding::Ceil
                 : rounding == "half_down" ? ResizeRounding::HalfDown
                                           : ResizeRounding::HalfUp;
    d.cubic = q.floatAttr("cubic");
    d.antialias = q.boolAttr("antialias"), d.exclude = q.boolAttr("exclude_outside");
    if (!isDimGood(q, d)) return false;
    out.push_back(d);
  }
  return true;
}

std::vector<ResizeTap> tapsOf(const ResizeDim& d, long double position) {
  const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, d.size - 1); };
  if (d.mode == ResizeMode::Nearest) return {{inside(nearestOf(d, position)), 1}};
  const auto x = static_cast<double>(position);
  const double stretch = d.antialias ? std::max(1.0, d.scale) : 1.0;
  const double reach = stretch * (d.mode == ResizeMode::Linear ? 1 : 2);
  std::vector<ResizeTap> taps;
  double total = 0;
  for (auto i = static_cast<int64_t>(std::floor(x - reach)) + 1; static_cast<double>(i) < x + reach; ++i) {
    const double weight = filterAt(d, (static_cast<double>(i) - x) / stretch);
    if (d.exclude && inside(i) != i) continue;
    total += weight;
    taps.push_back({inside(i), weight});
  }
  if (taps.empty() || total == 0) return {{inside(nearestOf(d, x)), 1}};
  for (ResizeTap& t : taps) t.weight /= total;
  return taps;
}

namespace {

bool resizeRule(const OpQuery& q, Rule& rule) {
  std::vector<ResizeDim> dims;
  if (!readResize(q, dims)) return false;
  TensorMap in, out;
  for (size_t i = 0; i < q.type(0).rank(); ++i) {
    const auto found = std::ranges::find(dims, static_cast<int64_t>(i), &ResizeDim::dim);
    const std::string number = std::to_string(i);
    if (found == dims.end()) {
      const uint16_t factor = addFactor(rule, q.type(0).dims[i], "d" + number);
      in.dims.push_back(plainDim(factor));
      out.dims.push_back(plainDim(factor));
      continue;
    }
    in.dims.push_back(plainDim(addUnsharded(rule, Dim(found->size), "x" + number)));
    out.dims.push_back(plainDim(addUnsharded(rule, Dim(found->result), "y" + number)));
  }
  rule.operands.push_back(std::move(in));
  rule.results.push_back(std::move(out));
  return true;
}

bool resizeEval(const OpQuery& q, std::span<const Tensor* const> in, std::span<Tensor* const> out) {
  std::vector<ResizeDim> dims;
  if (!readResize(q, dims)) return false;
  const Tensor& x = *in[0];
  const std::vector<int64_t> strides = x.strides();
  std::vector<std::vector<std::vector<ResizeTap>>> taps(dims.size()); // by dim and element
  for (size_t i = 0; i < dims.size(); ++i) {
    const SpacedPositions positions(dims[i].scale, dims[i].offset);
    for (int64_t o = 0; o < dims[i].result; ++o) taps[i].push_back(tapsOf(dims[i], positions.at(o)));
  }
  forEachElement(out[0]->shape(), [&](std::span<const int64_t> at, int64_t to) {
    int64_t base = 0;
    for (size_t i = 0; i < at.size(); ++i) base += at[i] * strides[i];
    std::vector<int64_t> counts;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t o = at[static_cast<size_t>(dims[i].dim)];
      base -= o * strides[static_cast<size_t>(dims[i].dim)];
      counts.push_back(static_cast<int64_t>(taps[i][static_cast<size_t>(o)].size()));
    }
    if (dims.empty() || dims[0].mode == ResizeMode::Nearest) {
      for (size_t i = 0; i < dims.size(); ++i)
        base += taps[i][static_cast<size_t>(at[static_cast<size_t>(dims[i].dim)])][0].index *
                strides[static_cast<size_t>(dims[i].dim)];
      const auto width = static_cast<size_t>(dtypeBytes(x.dtype()));
      std::memcpy(out[0]->bytes().data() + static_cast<size_t>(to) * width,
                  x.bytes().data() + static_cast<size_t>(base) * width, width);
      return;
    }
    long double sum = 0;
    forEachElement(counts, [&](std::span<const int64_t> k, int64_t) {
      long double weight = 1;
      int64_t from = base;
      for (size_t i = 0; i < dims.size(); ++i) {
        const ResizeTap& t =
            taps[i][static_cast<size_t>(at[static_cast<size_t>(dims[i].dim)])][static_cast<size_t>(k[i])];
        weight *= t.weight;
        from += t.index * strides[static_cast<size_t>(dims[i].dim)];
      }
      sum += weight * x.getFloat(from);
    });
    out[0]->setFloat(to, static_cast<double>(sum));
  });
  return true;
}

AttrId bytesAttr(Module& m, std::span<const std::byte> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "0x";
  for (std::byte b : bytes) {
    text.push_back(digits[static_cast<unsigned>(b) >> 4]);
    text.push_back(digits[static_cast<unsigned>(b) & 15]);
  }
  return m.attrs.string(m.strings.intern(text));
}

Expr vectorOf(Builder& b, const Tensor& t) {
  return ops::constant(b, b.module.tensorType(t.dtype(), {t.numElements()}), bytesAttr(b.module, t.bytes()));
}

// Each element of the result is a sum of elements of x: one gather per tap.
Expr resizedAlong(Builder& b, Expr x, const ResizeDim& d, DType sumType) {
  std::vector<std::vector<ResizeTap>> taps;
  size_t most = 1;
  const SpacedPositions positions(d.scale, d.offset);
  for (int64_t o = 0; o < d.result; ++o) {
    taps.push_back(tapsOf(d, positions.at(o)));
    most = std::max(most, taps.back().size());
  }
  Expr y;
  for (size_t k = 0; k < most; ++k) {
    Tensor index(DType::I32, {d.result}), weight(sumType, {d.result});
    for (int64_t o = 0; o < d.result; ++o) {
      const auto& own = taps[static_cast<size_t>(o)];
      index.setInt(o, own[std::min(k, own.size() - 1)].index);
      if (k < own.size()) weight.setFloat(o, own[k].weight);
    }
    Expr part = ops::index_select(x, vectorOf(b, index), {.dim = d.dim});
    if (d.mode == ResizeMode::Nearest) return part;
    std::vector<int64_t> shape(x.rank(), 1);
    shape[static_cast<size_t>(d.dim)] = d.result;
    part = part * ops::reshape(vectorOf(b, weight), shape);
    y = y.valid() ? y + part : part;
  }
  return y;
}

bool resizeDecompose(Builder& b, OpId op, std::vector<ValueId>& results) {
  const OpQuery q = queryOf(b.module, op, b.diags);
  std::vector<ResizeDim> dims;
  if (!readResize(q, dims)) return false;
  const Expr x(b, b.module.operand(op, 0));
  const DType own = x.dtype(), sumType = isNarrowFloat(own) ? DType::F32 : own;
  Expr y = dims.empty() || dims[0].mode == ResizeMode::Nearest ? x : x.as(sumType);
  for (const ResizeDim& d : dims) y = resizedAlong(b, y, d, sumType);
  y = y.as(own);
  results.push_back(dims.empty() ? ops::reshape(y, q.type(0).dims) : y);
  return true;
}

} // namespace

void addResizeOps(OpRegistry& ops) {
  OpRecord& resize = ops.add(
      {.name = "resize",
       .family = "window",
       .summary =
           "x with other sizes: element o along each of `dims` is x at scale * o + offset, interpolated "
           "between its elements; positions beyond the ends read the first or last element"});
  resize.attrs = {
      {"dims", AttrType::Dims, nullptr, "the dims that are resized"},
      {"sizes", AttrType::Ints, nullptr, "their sizes in the result"},
      {"scales", AttrType::Value, nullptr,
       "the distance of neighbors of the result, in elements of x; a double near a simple fraction, such as "
       "1.6666666666666667, is that fraction"},
      {"offsets", AttrType::Value, nullptr, "the position of the first element"},
      {"mode", AttrType::String, "linear",
       "\"nearest\", \"linear\" (two elements per dim) or \"cubic\" (four)"},
      {"rounding", AttrType::String, "half_down",
       "nearest: \"floor\", \"ceil\", \"half_down\" or \"half_up\""},
      {"cubic", AttrType::Float, "-0.75", "the coefficient of the cubic filter"},
      {"antialias", AttrType::Bool, "false", "stretch the filter by scale where that is more than 1"},
      {"exclude_outside", AttrType::Bool, "false",
       "leave out positions beyond the ends, and divide by the sum of the other weights"}};
  resize.operandClasses = kFloats;
  resize.rule = resizeRule;
  resize.through = {linear(1, kFloats)};
  resize.checks = {.coincidences = {{"P(max) -> P(max)", "holds for the nearest element only"},
                                    {"P(min) -> P(min)", "holds for the nearest element only"},
                                    {"P(prod) -> P(prod)", "holds for the nearest element only"}}};
  resize.eval = resizeEval;
  resize.decompose = resizeDecompose;
  resize.samples = "T[2, 3, 5] {dims = [2], sizes = [7], scales = [0.7142857142857143], offsets = "
                   "[-0.14285714285714285], mode = "
                   "\"nearest\"}\n"
                   "T[1, 2, 4, 5] {dims = [2, 3], sizes = [6, 3], scales = [0.6666666666666666, "
                   "1.6666666666666667], offsets "
                   "= [-0.16666666666666666, 0.33333333333333326]}\n"
                   "T[2, 7] {dims = [1], sizes = [3], scales = [2.3333333333333335], offsets = "
                   "[0.6666666666666667], mode = "
                   "\"cubic\", antialias = true, exclude_outside = true}";
}

} // namespace dtc
