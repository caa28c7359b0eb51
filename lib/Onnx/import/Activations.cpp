// Activation functions.
#include "import/OnnxContext.h"

namespace dtc::onnx {

namespace {

ImportResults elu(OnnxContext& c) {
  const Expr x = c.in(0);
  return select(x > 0.0, x, expm1(min(x, 0.0)) * c.real("alpha", 1.0));
}

ImportResults celu(OnnxContext& c) {
  const Expr x = c.in(0);
  const double alpha = c.real("alpha", 1.0);
  return max(x, 0.0) + min(expm1(min(x, 0.0) / alpha) * alpha, 0.0);
}

ImportResults selu(OnnxContext& c) {
  const Expr x = c.in(0);
  const double alpha = c.real("alpha", 1.67326319217681884765625);
  return select(x > 0.0, x, expm1(min(x, 0.0)) * alpha) * c.real("gamma", 1.05070102214813232421875);
}

ImportResults hardSigmoid(OnnxContext& c) {
  const Expr x = c.in(0);
  return clamp(x * c.real("alpha", 0.20000000298023224) + c.real("beta", 0.5), 0.0, 1.0);
}

ImportResults hardSwish(OnnxContext& c) {
  const Expr x = c.in(0);
  return x * clamp(x / 6.0 + 0.5, 0.0, 1.0);
}

ImportResults leakyRelu(OnnxContext& c) {
  return leaky_relu(c.in(0), {.slope = c.real("alpha", 0.00999999977648258209228515625)});
}

ImportResults prelu(OnnxContext& c) {
  const Expr x = c.in(0);
  Expr slope = c.in(1);
  if (c.opset() < 7 && slope.rank() == 1) // per channel
    for (size_t i = 2; i < x.rank(); ++i) slope = withDim(slope, static_cast<int64_t>(slope.rank()));
  return select(lt(x, isFloat(x.dtype()) ? Arg(0.0) : Arg(0)), x * slope, x);
}

ImportResults thresholdedRelu(OnnxContext& c) {
  const Expr x = c.in(0);
  return select(x > c.real("alpha", 1.0), x, 0.0);
}

ImportResults shrink(OnnxContext& c) {
  const Expr x = c.in(0);
  const double lambda = c.real("lambd", 0.5), bias = c.real("bias", 0.0);
  if (!isFloat(x.dtype())) {
    const Expr wide = x.as(DType::F32);
    return select(wide < -lambda, wide + bias, select(wide > lambda, wide - bias, 0.0)).as(x.dtype());
  }
  return select(x < -lambda, x + bias, select(x > lambda, x - bias, 0.0));
}

ImportResults swish(OnnxContext& c) {
  const Expr x = c.in(0);
  const double alpha = c.real("alpha", 1.0);
  return alpha == 1.0 ? silu(x) : x * sigmoid(x * alpha);
}

ImportResults swiGlu(OnnxContext& c) {
  const Expr a = c.in(0);
  const double alpha = c.real("alpha", 1.0);
  return (alpha == 1.0 ? silu(a) : a * sigmoid(a * alpha)) * c.in(1);
}

ImportResults geluRow(OnnxContext& c) {
  const std::string form = c.text("approximate", "none");
  if (form != "none" && form != "tanh") c.fail("has an approximation other than none or tanh");
  return gelu(c.in(0), {.approximate = form});
}

ImportResults mish(OnnxContext& c) {
  const Expr x = c.in(0);
  return x * tanh(softplus(x));
}

ImportResults softsign(OnnxContext& c) {
  const Expr x = c.in(0);
  return x / (ops::abs(x) + 1.0);
}

ImportResults reluRow(OnnxContext& c) { return relu(c.in(0)); }
ImportResults softplusRow(OnnxContext& c) { return softplus(c.in(0)); }

constexpr OnnxRow kActivationsRows[] = {
    {"Relu", reluRow, 6},     {"Softplus", softplusRow, 1},
    {"Elu", elu, 6},          {"Celu", celu, 12},
    {"Selu", selu, 6},        {"HardSigmoid", hardSigmoid, 6},
    {"HardSwish", hardSwish}, {"LeakyRelu", leakyRelu, 6},
    {"PRelu", prelu, 6},      {"ThresholdedRelu", thresholdedRelu, 10},
    {"Shrink", shrink, 9},    {"Swish", swish},
    {"SwiGLU", swiGlu},       {"Gelu", geluRow},
    {"Mish", mish},           {"Softsign", softsign, 1},
};

} // namespace

std::span<const OnnxRow> activationRows() { return kActivationsRows; }

} // namespace dtc::onnx
