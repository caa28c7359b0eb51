// Elementwise ops.
#include "aten/Aten.h"
#include "aten/Table.h"
#include "dtc/Ops/Loop.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace dtc {
namespace aten::pointwise {
namespace {

Expr self(ImportContext& c) { return tensorOf(in(c, "self")); }

template <Expr (*f)(Expr)> ImportResults unary(ImportContext& c) { return f(self(c)); }

// Of the operand's own dtype: predicates, and functions that keep integers.
template <Expr (*f)(Expr)> ImportResults ofSelf(ImportContext& c) { return f(c.tensor("self")); }

// Rounding is the identity of integers.
template <Expr (*f)(Expr)> ImportResults rounding(ImportContext& c) {
  const Expr x = c.tensor("self");
  return isFloat(x.dtype()) ? f(x) : x;
}

template <Expr (*f)(Expr, ops::Arg)> ImportResults binary(ImportContext& c) {
  const Expr a = in(c, "self"), b = in(c, "other");
  return f(tensorOf(a), b);
}

template <Expr (*f)(Expr, ops::Arg)> ImportResults comparison(ImportContext& c) {
  DType d = promoted(c, {"self", "other"});
  Expr a = in(c, "self", d), b = in(c, "other", d);
  if (isBool(d)) a = tensorOf(a).as(DType::U8), b = tensorOf(b).as(DType::U8); // for the order
  return f(tensorOf(a), b);
}

template <Expr (*f)(Expr, ops::Arg)> ImportResults logical(ImportContext& c) {
  const Expr a = in(c, "self", DType::Bool), b = in(c, "other", DType::Bool);
  return f(tensorOf(a), b);
}

// b * alpha, of add and sub.
Expr scaled(ImportContext& c, Expr x, ArgumentKey alpha) {
  if (!c.has(alpha) || isNumber(c, alpha, 1)) return x;
  const Expr factor = in(c, alpha, x.dtype());
  return isBool(x.dtype()) ? tensorOf(x) & factor : tensorOf(x) * factor;
}

ImportResults add(ImportContext& c) {
  const Expr a = tensorOf(in(c, "self")), b = scaled(c, in(c, "other"), "alpha");
  return isBool(a.dtype()) ? a | b : a + b;
}

ImportResults sub(ImportContext& c) {
  const Expr a = tensorOf(in(c, "self")), b = scaled(c, in(c, "other"), "alpha");
  return a - b;
}

ImportResults rsub(ImportContext& c) {
  const Expr a = scaled(c, in(c, "self"), "alpha"), b = tensorOf(in(c, "other"));
  return b - a;
}

ImportResults mul(ImportContext& c) {
  if (const DType d = c.result().dtype; d == DType::F8E4M3)
    return converted(in(c, "self", d).as(DType::F32) * in(c, "other", d).as(DType::F32), d);
  const Expr a = tensorOf(in(c, "self")), b = in(c, "other");
  return isBool(a.dtype()) ? a & b : a * b;
}

Expr divided(ImportContext& c, Expr a, Expr b, const std::string& mode) {
  if (mode == "floor") return ops::floor_div(a, b);
  if (mode == "trunc") return isFloat(a.dtype()) ? ops::trunc(a / b) : a / b;
  if (!mode.empty()) c.fail("has the rounding mode '" + mode + "'");
  return a / b;
}

ImportResults div(ImportContext& c) {
  const Expr a = tensorOf(in(c, "self")), b = in(c, "other");
  return divided(c, a, b, c.text("rounding_mode", ""));
}

ImportResults floorDivide(ImportContext& c) {
  const Expr a = tensorOf(in(c, "self")), b = in(c, "other");
  return ops::floor_div(a, b);
}

ImportResults power(ImportContext& c) {
  const DType d = c.result().dtype;
  const Expr base = tensorOf(in(c, "self"));
  if (!isFloat(d) && !isComplex(d)) return ops::pow(base, in(c, "exponent"));
  if (c.is<ImportInt>("exponent")) {
    const int64_t n = c.integer("exponent");
    if (n == 2) return ops::square(base);
    if (fitsInteger(DType::I32, n, false)) return ops::pow(base, n);
  }
  if (c.is<double>("exponent")) {
    const double n = c.real("exponent");
    if (n == 2) return ops::square(base);
    if (n == 0.5) return ops::sqrt(base);
    if (n == -0.5) return ops::rsqrt(base);
    if (std::trunc(n) == n && std::abs(n) < 1e6) return ops::pow(base, static_cast<int64_t>(n));
  }
  const Expr exponent = in(c, "exponent");
  return ops::pow(base, exponent);
}

ImportResults where(ImportContext& c) {
  Expr p = c.tensor("condition");
  if (!isBool(p.dtype())) p = p.as(DType::Bool);
  const Expr a = in(c, "self"), b = in(c, "other");
  const Dims& dims = resultDims(c);
  return broadcastTo(ops::select(p, broadcastTo(tensorOf(a), dims), b), dims);
}

ImportResults maskedFill(ImportContext& c) {
  const Dims& dims = resultDims(c);
  const Expr value = in(c, "value"), x = in(c, "self");
  return ops::select(c.tensor("mask"), broadcastTo(tensorOf(value), dims), broadcastTo(x, dims));
}

Expr clamped(ImportContext& c, ArgumentKey lowKey, ArgumentKey highKey) {
  Expr x = self(c);
  const bool isBoolean = isBool(x.dtype());
  if (c.has(lowKey)) x = isBoolean ? x | in(c, lowKey) : ops::max(x, in(c, lowKey));
  if (c.has(highKey)) x = isBoolean ? x & in(c, highKey) : ops::min(x, in(c, highKey));
  return x;
}

ImportResults clamp(ImportContext& c) { return clamped(c, "min", "max"); }

ImportResults hardtanh(ImportContext& c) {
  const Expr x = self(c), low = ops::max(x, c.literal(c.real("min_val", -1), x.dtype()));
  return ops::min(low, c.literal(c.real("max_val", 1), x.dtype()));
}

ImportResults convertTo(ImportContext& c) {
  // Floats become bool where they are not 0, and integers by dropping the fraction, as dtc's convert does.
  return in(c, c.has("self") ? "self" : "a");
}

// Of the first operand alone, as it is.
ImportResults same(ImportContext& c) { return c.tensor("self"); }

// --- activations ---

ImportResults gelu(ImportContext& c) {
  const std::string form = c.text("approximate", "none");
  return ops::gelu(self(c), {.approximate = form});
}

ImportResults leakyRelu(ImportContext& c) {
  return ops::leaky_relu(self(c), {.slope = c.real("negative_slope", 0.01)});
}

ImportResults softplus(ImportContext& c) {
  const Expr x = self(c);
  const double beta = c.real("beta", 1), threshold = c.real("threshold", 20);
  const Expr soft = ops::softplus(x, {.beta = beta});
  return ops::select(x * c.literal(beta, x.dtype()) > c.literal(threshold, x.dtype()), x, soft);
}

// x * s(x), where s is clamp(x + 3, 0, 6) / 6.
Expr hardSigmoid(Expr x) { return ops::clamp(x + 3.0, 0.0, 6.0) / 6.0; }
ImportResults hardsigmoid(ImportContext& c) { return hardSigmoid(self(c)); }
ImportResults hardswish(ImportContext& c) {
  const Expr x = self(c);
  return x * hardSigmoid(x);
}

ImportResults mish(ImportContext& c) {
  const Expr x = self(c);
  return x * ops::tanh(ops::softplus(x));
}

ImportResults elu(ImportContext& c) {
  const Expr x = self(c);
  const double alpha = c.real("alpha", 1), scale = c.real("scale", 1), input = c.real("input_scale", 1);
  const Expr negative = ops::expm1(x * input) * (alpha * scale);
  const Expr positive = x * scale;
  return ops::select(x > 0.0, positive, negative);
}

ImportResults selu(ImportContext& c) {
  const Expr x = self(c);
  constexpr double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
  const Expr negative = ops::expm1(x) * (alpha * scale);
  const Expr positive = x * scale;
  return ops::select(x > 0.0, positive, negative);
}

ImportResults celu(ImportContext& c) {
  const Expr x = self(c);
  const double alpha = c.real("alpha", 1);
  const Expr negative = ops::expm1(x / alpha) * alpha;
  return ops::select(x > 0.0, x, negative);
}

ImportResults relu6(ImportContext& c) { return ops::clamp(self(c), 0.0, 6.0); }

ImportResults threshold(ImportContext& c) {
  const Expr x = self(c);
  return ops::select(x > in(c, "threshold", x.dtype()), x, in(c, "value", x.dtype()));
}

ImportResults hardshrink(ImportContext& c) {
  const Expr x = self(c);
  const double lambda = c.real("lambd", 0.5);
  const Expr inside = (x >= -lambda) & (x <= lambda);
  return ops::select(inside, 0.0, x);
}

ImportResults softshrink(ImportContext& c) {
  const Expr x = self(c);
  const double lambda = c.real("lambd", 0.5);
  const Expr above = x - lambda, below = x + lambda;
  const Expr rest = ops::select(x < -lambda, below, x * 0.0);
  return ops::select(x > lambda, above, rest);
}

ImportResults softsign(ImportContext& c) {
  const Expr x = self(c);
  return x / (ops::abs(x) + 1.0);
}

ImportResults tanhshrink(ImportContext& c) {
  const Expr x = self(c);
  return x - ops::tanh(x);
}

ImportResults prelu(ImportContext& c) {
  const Expr x = self(c);
  Expr w = c.tensor("weight");
  if (w.rank() == 1 && x.rank() > 1 && w.dims().at(0) != Dim(1)) {
    Dims dims(x.rank(), Dim(1));
    dims[1] = w.dims().at(0);
    w = reshapeTo(w, dims);
  } else if (w.rank() == 1 && x.rank() == 0) {
    w = reshapeTo(w, {});
  }
  const Expr negative = x * w;
  return ops::select(x > 0.0, x, negative);
}

ImportResults glu(ImportContext& c) {
  const Expr x = self(c);
  const int64_t d = aten::dim(c, "dim", x.rank(), -1);
  const int64_t half = staticDims(c.b, {x.dims().at(static_cast<size_t>(d))})[0] / 2;
  const Expr a = sliceOf(x, d, 0, half), b = sliceOf(x, d, half, 2 * half);
  return a * ops::sigmoid(b);
}

// --- several operands ---

ImportResults addcmul(ImportContext& c) {
  const DType d = c.result().dtype;
  const Expr a = in(c, "tensor1", d), b = in(c, "tensor2", d);
  const Expr product = scaled(c, a * b, "value");
  return self(c) + product;
}

ImportResults fusedMultiplyAdd(ImportContext& c) {
  const DType d = c.result().dtype;
  return ops::fma(in(c, "a", d), in(c, "b", d), in(c, "c", d));
}

ImportResults addcdiv(ImportContext& c) {
  const DType d = c.result().dtype;
  const Expr a = in(c, "tensor1", d), b = in(c, "tensor2", d);
  const Expr quotient = scaled(c, a / b, "value");
  return self(c) + quotient;
}

ImportResults lerp(ImportContext& c) {
  const DType d = c.result().dtype;
  const Expr start = in(c, "self"), end = in(c, "end"), weight = tensorOf(in(c, "weight", d));
  const Expr difference = end - start;
  // As PyTorch: from the nearer end.
  const Expr low = start + weight * difference;
  const Expr high = end - difference * (1.0 - weight);
  if (isComplex(d)) return low;
  return ops::select(broadcastTo(ops::abs(weight) < 0.5, low.dims()), low, high);
}

template <bool largest, bool skipsNan> ImportResults extreme(ImportContext& c) {
  const Expr a = tensorOf(in(c, "self")), b = tensorOf(in(c, "other"));
  if (isBool(a.dtype())) return largest ? a | b : a & b;
  const Expr y = largest ? ops::max(a, b) : ops::min(a, b);
  if (!skipsNan || !isFloat(a.dtype())) return y;
  const Expr rest = ops::select(broadcastTo(ops::is_nan(b), y.dims()), broadcastTo(a, y.dims()), y);
  return ops::select(broadcastTo(ops::is_nan(a), y.dims()), broadcastTo(b, y.dims()), rest);
}

ImportResults logicalNot(ImportContext& c) { return ops::not_(in(c, "self", DType::Bool)); }

// Of complex tensors; real ones are their own conjugates and real parts.
template <Expr (*f)(Expr)> ImportResults ofComplex(ImportContext& c) {
  const Expr x = c.tensor("self");
  return isComplex(x.dtype()) ? f(x) : x;
}

ImportResults isPosInf(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (!isFloat(x.dtype())) return filled(c.b, DType::Bool, x.dims(), 0);
  return ops::eq(x, std::numeric_limits<double>::infinity());
}

ImportResults isNegInf(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (!isFloat(x.dtype())) return filled(c.b, DType::Bool, x.dims(), 0);
  return ops::eq(x, -std::numeric_limits<double>::infinity());
}

// is_nan and its like of integers are constants.
template <Expr (*f)(Expr), int ofIntegers> ImportResults predicate(ImportContext& c) {
  const Expr x = c.tensor("self");
  return isFloat(x.dtype()) ? f(x) : filled(c.b, DType::Bool, x.dims(), ofIntegers);
}

ImportResults nanToNum(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (!isFloat(x.dtype())) return x;
  const double largest = x.dtype() == DType::F64    ? std::numeric_limits<double>::max()
                         : x.dtype() == DType::F32  ? std::numeric_limits<float>::max()
                         : x.dtype() == DType::BF16 ? 0x1.fep127
                                                    : 65504.0;
  const double infinity = std::numeric_limits<double>::infinity();
  const Expr plain = ops::select(ops::is_nan(x), c.literal(c.real("nan", 0), x.dtype()), x);
  const Expr above =
      ops::select(ops::eq(x, infinity), c.literal(c.real("posinf", largest), x.dtype()), plain);
  return ops::select(ops::eq(x, -infinity), c.literal(c.real("neginf", -largest), x.dtype()), above);
}

ImportResults roundDecimals(ImportContext& c) {
  const Expr x = c.tensor("self");
  const int64_t decimals = c.integer("decimals", 0);
  if (!isFloat(x.dtype())) return x;
  if (decimals == 0) return ops::round(x);
  const double scale = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  if (decimals > 0) return ops::round(x * scale) / scale;
  return ops::round(x / scale) * scale;
}

ImportResults signOf(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (isBool(x.dtype())) return x;
  if (isUnsignedInt(x.dtype())) return ops::select(x > 0, c.literal(int64_t(1), x.dtype()), x);
  // sign(NaN) is 0 in PyTorch.
  return isFloat(x.dtype()) ? ops::select(ops::is_nan(x), 0.0, ops::sign(x)) : ops::sign(x);
}

ImportResults sgn(ImportContext& c) {
  const Expr x = c.tensor("self");
  return isComplex(x.dtype()) ? ops::sign(x) : signOf(c);
}

ImportResults absolute(ImportContext& c) {
  const Expr x = c.tensor("self");
  return isBool(x.dtype()) || isUnsignedInt(x.dtype()) ? x : ops::abs(x);
}

ImportResults signbit(ImportContext& c) {
  const Expr x = c.tensor("self");
  if (!isFloat(x.dtype())) {
    if (isBool(x.dtype()) || isUnsignedInt(x.dtype())) return filled(c.b, DType::Bool, x.dims(), 0);
    return x < 0;
  }
  const DType bits = x.dtype() == DType::F64 ? DType::I64 : x.dtype() == DType::F32 ? DType::I32 : DType::I16;
  return ops::bitcast(x, bits) < 0;
}

ImportResults copysign(ImportContext& c) {
  const Expr a = ops::abs(self(c)), b = tensorOf(in(c, "other"));
  const DType bits = b.dtype() == DType::F64 ? DType::I64 : b.dtype() == DType::F32 ? DType::I32 : DType::I16;
  const Dims dims = broadcastDims(c.b, a.dims(), b.dims());
  const Expr negative = broadcastTo(ops::bitcast(b, bits) < 0, dims), wide = broadcastTo(a, dims);
  return ops::select(negative, -wide, wide);
}

ImportResults heaviside(ImportContext& c) {
  const Expr x = self(c), values = in(c, "values");
  if (isBool(x.dtype())) return x | values;
  const Dims dims = resultDims(c);
  const Expr step = (x > x.literal(0)).as(x.dtype()); // 0 for NaN
  return ops::select(broadcastTo(ops::eq(x, x.literal(0)), dims), broadcastTo(tensorOf(values), dims),
                     broadcastTo(step, dims));
}

ImportResults shifted(ImportContext& c) {
  const Expr a = tensorOf(in(c, "self")), b = in(c, "other");
  const bool left =
      c.node.target.find("left") != std::string::npos || c.node.target.find("lshift") != std::string::npos;
  return left ? ops::shl(a, b) : ops::shr(a, b);
}

ImportResults deg2rad(ImportContext& c) { return self(c) * (std::numbers::pi / 180); }
ImportResults rad2deg(ImportContext& c) { return self(c) * (180 / std::numbers::pi); }

// Euclid's steps until all are done.
Expr gcdOf(ImportContext& c) {
  const Expr a = tensorOf(in(c, "self")), b = tensorOf(in(c, "other"));
  const Dims dims = resultDims(c);
  const Expr x = broadcastTo(ops::abs(a), dims), y = broadcastTo(ops::abs(b), dims);
  const ops::WhileBody goesOn = [&](Builder& at, std::span<const ValueId> v) {
    return std::vector<ValueId>{ops::any(ops::ne(Expr(at, v[1]), 0))};
  };
  const ops::WhileBody body = [&](Builder& at, std::span<const ValueId> v) {
    const Expr p(at, v[0]), q(at, v[1]);
    const Expr done = ops::eq(q, 0);
    const Expr safe = ops::select(done, 1, q);
    const Expr rest = p % safe;
    return std::vector<ValueId>{ops::select(done, p, q), ops::select(done, 0, rest)};
  };
  return ops::whileLoop(c.b, {x, y}, goesOn, body)[0];
}

ImportResults gcd(ImportContext& c) { return gcdOf(c); }

ImportResults lcm(ImportContext& c) {
  const Expr a = tensorOf(in(c, "self")), b = tensorOf(in(c, "other")), common = gcdOf(c);
  const Expr divisor = ops::select(ops::eq(common, 0), 1, common); // of two zeros
  return ops::abs(ops::div(broadcastTo(a, resultDims(c)), divisor) * b);
}

const ImportRow kRows[] = {
    {"aten.neg", unary<ops::neg>},
    {"aten._neg_view", unary<ops::neg>},
    {"aten._neg_view_copy", unary<ops::neg>},
    {"aten.exp", unary<ops::exp>},
    {"aten.expm1", unary<ops::expm1>},
    {"aten.log", unary<ops::log>},
    {"aten.log2", unary<ops::log2>},
    {"aten.log1p", unary<ops::log1p>},
    {"aten.sqrt", unary<ops::sqrt>},
    {"aten.rsqrt", unary<ops::rsqrt>},
    {"aten.reciprocal", unary<ops::reciprocal>},
    {"aten.square", unary<ops::square>},
    {"aten.sin", unary<ops::sin>},
    {"aten.cos", unary<ops::cos>},
    {"aten.tan", unary<ops::tan>},
    {"aten.asin", unary<ops::asin>},
    {"aten.acos", unary<ops::acos>},
    {"aten.atan", unary<ops::atan>},
    {"aten.sinh", unary<ops::sinh>},
    {"aten.cosh", unary<ops::cosh>},
    {"aten.tanh", unary<ops::tanh>},
    {"aten.asinh", unary<ops::asinh>},
    {"aten.acosh", unary<ops::acosh>},
    {"aten.atanh", unary<ops::atanh>},
    {"aten.sigmoid", unary<ops::sigmoid>},
    {"aten.special_expit", unary<ops::sigmoid>},
    {"aten.relu", unary<ops::relu>},
    {"aten.erf", unary<ops::erf>},
    {"aten.erfc", unary<ops::erfc>},
    {"aten.erfinv", unary<ops::erf_inv>},
    {"aten.log_sigmoid", unary<ops::log_sigmoid>},
    {"aten.logsigmoid", unary<ops::log_sigmoid>},
    {"aten.lgamma", unary<ops::lgamma>},
    {"aten.bitwise_not", ofSelf<ops::not_>},
    {"aten.floor", rounding<ops::floor>},
    {"aten.ceil", rounding<ops::ceil>},
    {"aten.trunc", rounding<ops::trunc>},
    {"aten.fix", rounding<ops::trunc>},
    {"aten.round", roundDecimals},
    {"aten.frac",
     [](ImportContext& c) {
       const Expr x = self(c);
       return ImportResults(x - ops::trunc(x));
     }},
    {"aten.sign", signOf},
    {"aten.sgn", sgn},
    {"aten.abs", absolute},
    {"aten.signbit", signbit},
    {"aten.copysign", copysign},
    {"aten.heaviside", heaviside},
    {"aten.isnan", predicate<ops::is_nan, 0>},
    {"aten.isinf", predicate<ops::is_inf, 0>},
    {"aten.isfinite", predicate<ops::is_finite, 1>},
    {"aten.isposinf", isPosInf},
    {"aten.isneginf", isNegInf},
    {"aten.logical_not", logicalNot},
    {"aten.nan_to_num", nanToNum},
    {"aten.deg2rad", deg2rad},
    {"aten.rad2deg", rad2deg},
    {"aten.positive", same},
    {"aten.add", add},
    {"aten.sub", sub},
    {"aten.subtract", sub},
    {"aten.rsub", rsub},
    {"aten.mul", mul},
    {"aten.multiply", mul},
    {"aten.div", div},
    {"aten.divide", div},
    {"aten.true_divide", div},
    {"aten.floor_divide", floorDivide},
    {"aten.pow", power},
    {"aten.float_power", power},
    {"aten.maximum", extreme<true, false>},
    {"aten.minimum", extreme<false, false>},
    {"aten.max.other", extreme<true, false>},
    {"aten.min.other", extreme<false, false>},
    {"aten.fmax", extreme<true, true>},
    {"aten.fmin", extreme<false, true>},
    {"aten.atan2", binary<ops::atan2>},
    {"aten.arctan2", binary<ops::atan2>},
    {"aten.remainder", binary<ops::mod>},
    {"aten.fmod", binary<ops::rem>},
    {"aten.nextafter", binary<ops::next_after>},
    {"aten.bitwise_and", binary<ops::and_>},
    {"aten.bitwise_or", binary<ops::or_>},
    {"aten.bitwise_xor", binary<ops::xor_>},
    {"aten.__and__", binary<ops::and_>},
    {"aten.__or__", binary<ops::or_>},
    {"aten.__xor__", binary<ops::xor_>},
    {"aten.bitwise_left_shift", shifted},
    {"aten.bitwise_right_shift", shifted},
    {"aten.__lshift__", shifted},
    {"aten.__rshift__", shifted},
    {"aten.logical_and", logical<ops::and_>},
    {"aten.logical_or", logical<ops::or_>},
    {"aten.logical_xor", logical<ops::xor_>},
    {"aten.eq", comparison<ops::eq>},
    {"aten.ne", comparison<ops::ne>},
    {"aten.not_equal", comparison<ops::ne>},
    {"aten.lt", comparison<ops::lt>},
    {"aten.less", comparison<ops::lt>},
    {"aten.le", comparison<ops::le>},
    {"aten.less_equal", comparison<ops::le>},
    {"aten.gt", comparison<ops::gt>},
    {"aten.greater", comparison<ops::gt>},
    {"aten.ge", comparison<ops::ge>},
    {"aten.greater_equal", comparison<ops::ge>},
    {"aten.gcd", gcd},
    {"aten.lcm", lcm},
    {"aten.where", where},
    {"aten.masked_fill", maskedFill},
    {"aten.clamp", clamp},
    {"aten.clip", clamp},
    {"aten.clamp_min", clamp},
    {"aten.clamp_max", clamp},
    {"aten.hardtanh", hardtanh},
    {"aten.relu6", relu6},
    {"aten.gelu", gelu},
    {"aten.leaky_relu", leakyRelu},
    {"aten.softplus", softplus},
    {"aten.hardsigmoid", hardsigmoid},
    {"aten.hardswish", hardswish},
    {"aten.mish", mish},
    {"aten.elu", elu},
    {"aten.selu", selu},
    {"aten.celu", celu},
    {"aten.threshold", threshold},
    {"aten.hardshrink", hardshrink},
    {"aten.softshrink", softshrink},
    {"aten.softsign", softsign},
    {"aten.tanhshrink", tanhshrink},
    {"aten.prelu", prelu},
    {"aten._prelu_kernel", prelu},
    {"aten.glu", glu},
    {"aten.addcmul", addcmul},
    {"aten.addcdiv", addcdiv},
    {"aten.lerp", lerp},
    {"aten._to_copy", convertTo},
    {"aten.to", convertTo},
    {"aten.type_as", convertTo},
    {"aten._conj_physical", ofComplex<ops::conj>},
    {"aten.conj_physical", ofComplex<ops::conj>},
    {"aten._conj", ofComplex<ops::conj>},
    {"aten._conj_copy", ofComplex<ops::conj>},
    {"aten.conj", ofComplex<ops::conj>},
    {"aten.resolve_conj", same},
    {"aten.resolve_neg", same},
    {"aten.real", ofComplex<ops::real>},
    {"aten.imag", ofSelf<ops::imag>},
    {"prims.convert_element_type", convertTo},
    {"prims.fma", fusedMultiplyAdd},
    {"aten.clone", same},
    {"aten.alias", same},
    {"aten.detach", same},
    {"aten.detach_copy", same},
    {"aten.detach_", same},
    {"aten.lift_fresh_copy", same},
    {"aten.lift_fresh", same},
    {"aten.lift", same},
    {"aten.contiguous", same},
    {"aten.clone_", same},
};

} // namespace
} // namespace aten::pointwise

ImportRows torchPointwiseRows() { return aten::pointwise::kRows; }

} // namespace dtc
