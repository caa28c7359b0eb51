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

ImportResults fake(ImportContext& c) {
  const Expr given = c.tensor("self"), x = given.as(DType::F32);
  const auto axis = axisOf(c, x.rank());
  const auto low = static_cast<double>(c.integer("quant_min")),
             high = static_cast<double>(c.integer("quant_max"));
  const Expr zero = along(c, "zero_point", DType::F32, x, axis);
  const Expr q = ops::round(x * inverse(c, "scale", x, axis, DType::F32)) + zero;
  const Expr inside = ops::ge(q, q.literal(low)) & ops::le(q, q.literal(high));
  Expr y = (ops::clamp(q, q.literal(low), q.literal(high)) - zero) * along(c, "scale", DType::F32, x, axis);
  Expr mask = inside;
  if (c.has("fake_quant_enabled")) {
    const Expr on = broadcastTo(ops::ne(reshapeTo(c.tensor("fake_quant_enabled"), {}), 0), x.dims());
    y = ops::select(on, y, x), mask = ops::select(on, inside, filled(c.b, DType::Bool, x.dims(), 1));
  }
  if (c.node.results.size() < 2) return y.as(given.dtype());
  return {y.as(given.dtype()), mask};
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
