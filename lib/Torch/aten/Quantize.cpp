// Fake quantization, and the ops of exported quantized models (`quantized_decomposed`).
#include "aten/Aten.h"
#include "aten/Table.h"

#include <cmath>

namespace dtc {
namespace aten::quantize {
namespace {

// A scale or a zero point along the axis of x; a scalar without one.
Expr along(const ImportContext& c, ArgumentKey key, DType d, Expr x, std::optional<int64_t> axis) {
  if (!c.isTensor(key)) return c.literal(c.real(key), d);
  const Expr v = c.tensor(key).as(d);
  if (!axis) return reshapeTo(v, {});
  Dims dims(x.rank(), Dim(1));
  dims.at(static_cast<size_t>(*axis)) = x.dims().at(static_cast<size_t>(*axis));
  return reshapeTo(v, dims);
}

std::optional<int64_t> axisOf(const ImportContext& c, size_t rank) {
  return c.has("axis") ? std::optional(aten::dim(c, "axis", rank)) : std::nullopt;
}

// 1 / scale, rounded as PyTorch does: in `wide`, then to f32.
Expr inverse(const ImportContext& c, ArgumentKey key, Expr x, std::optional<int64_t> axis, DType wide) {
  if (c.isTensor(key)) {
    const Expr scale = along(c, key, wide, x, axis);
    return (scale.literal(1.0) / scale).as(DType::F32);
  }
  const double scale = c.real(key);
  return c.literal(wide == DType::F32 ? 1.0F / static_cast<float>(scale) : 1.0 / scale, DType::F32);
}

// --- fake quantization: rounded to the grid, and back ---

struct Grid {
  Expr scale, inverse, zero; // f32, of the shape of the operand or broadcast to it
  double low, high;
};

struct Faked {
  Expr y, mask; // mask: not clamped
};

Faked faked(Expr x, const Grid& g) {
  const Expr q = ops::round(x * g.inverse) + g.zero, low = q.literal(g.low), high = q.literal(g.high);
  return {(ops::clamp(q, low, high) - g.zero) * g.scale, ops::ge(q, low) & ops::le(q, high)};
}

// `f` if the tensor of one element, `enabled`, is not 0, else x.
Faked fakedIf(const ImportContext& c, Expr enabled, Expr x, const Faked& f) {
  const Expr on = broadcastTo(ops::ne(reshapeTo(enabled, {}), 0), x.dims());
  return {ops::select(on, f.y, x), ops::select(on, f.mask, filled(c.b, DType::Bool, x.dims(), 1))};
}

double limit(const ImportContext& c, ArgumentKey key) { return static_cast<double>(c.integer(key)); }

ImportResults fake(ImportContext& c) {
  const Expr given = c.tensor("self"), x = given.as(DType::F32);
  const auto axis = axisOf(c, x.rank());
  Faked f =
      faked(x, {along(c, "scale", DType::F32, x, axis), inverse(c, "scale", x, axis, DType::F32),
                along(c, "zero_point", DType::F32, x, axis), limit(c, "quant_min"), limit(c, "quant_max")});
  if (c.has("fake_quant_enabled")) f = fakedIf(c, c.tensor("fake_quant_enabled"), x, f);
  if (c.node.results.size() < 2) return f.y.as(given.dtype());
  return {f.y.as(given.dtype()), f.mask};
}

// A range of values, and the grid for it.
struct Range {
  Expr min, max; // f32, one per row
};

// ATen's ChooseQuantizationParams (native/quantized/cpu/QuantUtils.h): scales in f64; small ones are cut off.
Grid gridOf(Range r, double low, double high, bool symmetric) {
  const auto both = [](Range of) { return ops::lt(of.min, 0.0) & ops::gt(of.max, 0.0); };
  const double steps = high - low;
  if (symmetric) {
    const double most = std::floor(steps / 2), least = -(most + 1);
    const Expr scale = ops::max(ops::abs(r.min / least), ops::abs(r.max / most)).as(DType::F64),
               inside = both(r);
    r = {ops::select(inside, (scale * least).as(DType::F32), r.min),
         ops::select(inside, (scale * most).as(DType::F32), r.max)};
  }
  r = {ops::min(r.min, 0.0), ops::max(r.max, 0.0)};
  Expr scale = (r.max.as(DType::F64) - r.min.as(DType::F64)) / steps;
  const Expr narrow = scale.as(DType::F32), ones = filled(narrow.builder(), DType::F32, narrow.dims(), 1);
  scale = ops::select(ops::eq(narrow, 0.0) | ops::is_inf(ones / narrow), 0.1, scale);
  constexpr float kSmallest = 6.1e-5F;
  const Expr small = ops::lt(scale, static_cast<double>(kSmallest));
  const Expr amplifier = kSmallest / scale.as(DType::F32);
  const double widest = static_cast<double>(kSmallest * static_cast<float>(steps));
  const Expr fromZero = ops::eq(r.min, 0.0), toZero = ops::eq(r.max, 0.0);
  const Range wider{ops::select(toZero, -widest, r.min * amplifier),
                    ops::select(fromZero, widest, r.max * amplifier)};
  r = {ops::select(small, ops::select(fromZero, r.min, wider.min), r.min),
       ops::select(small, ops::select(toZero & ops::ne(r.min, 0.0), r.max, wider.max), r.max)};
  scale = ops::select(small, static_cast<double>(kSmallest), scale);
  const Expr fromMin = r.min.as(DType::F64) / scale, fromMax = r.max.as(DType::F64) / scale;
  const Expr nearMin = ops::lt(std::abs(low) - ops::abs(fromMin), std::abs(high) - ops::abs(fromMax));
  Expr zero = ops::select(nearMin, low - fromMin, high - fromMax);
  if (symmetric) zero = ops::select(both(r), (low + high) / 2, zero);
  zero = ops::round(ops::clamp(zero, zero.literal(low), zero.literal(high)));
  const Expr rounded = scale.as(DType::F32);
  return {rounded, ones / rounded, zero.as(DType::F32), low, high};
}

// Fake quantization with a range that is observed on the way: a moving average of the minimum and maximum of x, per
// row of an axis or of all (ATen's fused_obs_fake_quant.cpp). Results: y, the mask where the op has one, and what
// makeFunctional adds: the range, the scale and the zero point.
ImportResults observed(ImportContext& c) {
  const Expr given = c.tensor("self"), x = given.as(DType::F32);
  const bool perRow = c.flag("per_row_fake_quant", false);
  const int64_t axis = perRow ? aten::dim(c, "ch_axis", x.rank()) : -1;
  std::vector<int64_t> over;
  for (int64_t d = 0; d < static_cast<int64_t>(x.rank()); ++d)
    if (d != axis) over.push_back(d);
  const Dims rows = perRow ? Dims{x.dims()[static_cast<size_t>(axis)]} : Dims{};
  const auto state = [&](const char* name) {
    const Expr v = c.tensor(name);
    if (perRow && v.dims() != rows) c.fail("has no range yet: call the model once before the export");
    return reshapeTo(v, rows);
  };
  const auto isOn = [&](const char* name) {
    return broadcastTo(ops::ne(reshapeTo(c.tensor(name), {}), 0), rows);
  };
  const Expr observes = isOn("observer_on"), quantizes = isOn("fake_quant_on");
  const auto average = static_cast<double>(static_cast<float>(c.real("averaging_const")));
  const auto next = [&](Expr old, Expr now) {
    const Expr moved = old + (now - old) * average;
    return ops::select(observes, ops::select(ops::is_inf(old), now, moved), old);
  };
  const Range range{next(state("running_min"), ops::min(x, ops::MinArgs{.dims = over})),
                    next(state("running_max"), ops::max(x, ops::MaxArgs{.dims = over}))};
  const Grid chosen =
      gridOf(range, limit(c, "quant_min"), limit(c, "quant_max"), c.flag("symmetric_quant", false));
  Dims spread(x.rank(), Dim(1));
  if (perRow) spread[static_cast<size_t>(axis)] = rows[0];
  const auto onX = [&](Expr v) { return perRow ? reshapeTo(v, spread) : v; };
  const Faked f =
      fakedIf(c, c.tensor("fake_quant_on"), x,
              faked(x, {onX(chosen.scale), onX(chosen.inverse), onX(chosen.zero), chosen.low, chosen.high}));
  std::vector<Expr> out{f.y.as(given.dtype())};
  if (c.node.target.find("_helper") != std::string::npos) out.push_back(f.mask);
  if (c.node.results.size() <= out.size()) return out;
  const Expr scale = ops::select(quantizes, chosen.scale, state("scale")),
             zero = ops::select(quantizes, chosen.zero.as(DType::I32), state("zero_point").as(DType::I32));
  for (const Expr& v : {range.min, range.max, scale, zero}) out.push_back(asResult(c, v, out.size()));
  return out;
}

ImportResults fakeBackward(ImportContext& c) {
  const Expr dy = c.tensor("grad");
  return dy * c.tensor("mask").as(dy.dtype());
}

// --- quantized_decomposed ---

ImportResults quantized(ImportContext& c) {
  const Expr x = c.tensor("input").as(DType::F32);
  const auto axis = axisOf(c, x.rank());
  const auto low = static_cast<double>(c.integer("quant_min")),
             high = static_cast<double>(c.integer("quant_max"));
  const char* zeros = c.has("zero_points") ? "zero_points" : "zero_point";
  const Expr q = ops::round(x * inverse(c, c.has("scales") ? "scales" : "scale", x, axis, DType::F64)) +
                 along(c, zeros, DType::F32, x, axis);
  return ops::clamp(q, q.literal(low), q.literal(high)).as(c.result().dtype);
}

ImportResults dequantized(ImportContext& c) {
  const Expr x = c.tensor("input").as(DType::F32);
  const auto axis = axisOf(c, x.rank());
  const Expr scale = along(c, c.has("scales") ? "scales" : "scale", DType::F32, x, axis);
  const char* zeros = c.has("zero_points") ? "zero_points" : "zero_point";
  const Expr y = c.has(zeros) ? x - along(c, zeros, DType::F32, x, axis) : x;
  return (y * scale).as(c.result().dtype);
}

// The scale and the zero point of a tensor's range, which includes 0.
ImportResults chosen(ImportContext& c) {
  const Expr x = c.tensor("input").as(DType::F32);
  const auto low = static_cast<double>(c.integer("quant_min")),
             high = static_cast<double>(c.integer("quant_max"));
  std::vector<int64_t> over;
  for (size_t i = 0; i < x.rank(); ++i) over.push_back(static_cast<int64_t>(i));
  const Expr least = ops::min(ops::min(x, ops::MinArgs{.dims = over}), 0.0);
  const Expr most = ops::max(ops::max(x, ops::MaxArgs{.dims = over}), 0.0);
  const bool symmetric = c.node.target.find("symmetric") != std::string::npos;
  const double eps = c.real("eps", 1.1920928955078125e-07);
  if (symmetric) {
    const Expr scale = ops::max(ops::max(-least, most) / ((high - low) / 2), eps);
    const bool isSigned = low < 0;
    return {asResult(c, scale, 0), asResult(c, filled(c.b, DType::F32, {}, isSigned ? 0 : 128), 1)};
  }
  const Expr scale = ops::max((most - least) / (high - low), eps);
  const Expr zero =
      ops::clamp(scale.literal(low) - ops::round(least / scale), scale.literal(low), scale.literal(high));
  return {asResult(c, scale, 0), asResult(c, zero, 1)};
}

const ImportRow kRows[] = {
    {"aten.fake_quantize_per_tensor_affine", fake},
    {"aten.fake_quantize_per_tensor_affine_cachemask", fake},
    {"aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams", fake},
    {"aten.fake_quantize_per_channel_affine", fake},
    {"aten.fake_quantize_per_channel_affine_cachemask", fake},
    {"aten.fake_quantize_per_tensor_affine_cachemask_backward", fakeBackward},
    {"aten.fake_quantize_per_channel_affine_cachemask_backward", fakeBackward},
    {"aten.fused_moving_avg_obs_fake_quant", observed},
    {"aten._fused_moving_avg_obs_fq_helper", observed},
    {"aten._fused_moving_avg_obs_fq_helper_functional", observed},
    {"quantized_decomposed.quantize_per_tensor", quantized},
    {"quantized_decomposed.quantize_per_channel", quantized},
    {"quantized_decomposed.dequantize_per_tensor", dequantized},
    {"quantized_decomposed.dequantize_per_channel", dequantized},
    {"quantized_decomposed.choose_qparams", chosen},
    {"quantized_decomposed.choose_qparams_symmetric", chosen},
};

} // namespace
} // namespace aten::quantize

ImportRows torchQuantizeRows() { return aten::quantize::kRows; }

} // namespace dtc
