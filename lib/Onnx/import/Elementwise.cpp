// Functions of one element.
#include "import/OnnxContext.h"

namespace dtc::onnx {

namespace {

template <Expr (*f)(Expr)> ImportResults unary(OnnxContext& c) { return f(c.in(0)); }
template <Expr (*f)(Expr, Arg)> ImportResults binary(OnnxContext& c) {
  Expr b = c.in(1);
  if (c.opset() < 7 && c.has("axis")) { // the first dim that it broadcasts along
    const auto axis = static_cast<size_t>(c.dim(c.integer("axis"), c.in(0).rank()));
    for (size_t rank = axis + b.rank(); rank < c.in(0).rank(); ++rank)
      b = withDim(b, static_cast<int64_t>(b.rank()));
  }
  return f(c.in(0), b);
}

// Sum, Max, Min, Mean of any number of operands.
template <Expr (*f)(Expr, Arg)> Expr folded(OnnxContext& c) {
  const std::vector<Expr> all = c.operands();
  if (all.empty()) c.fail("has no operands");
  Expr y = all[0];
  for (size_t i = 1; i < all.size(); ++i) y = f(y, all[i]);
  return y;
}
template <Expr (*f)(Expr, Arg)> ImportResults variadic(OnnxContext& c) { return folded<f>(c); }

ImportResults meanOf(OnnxContext& c) { return folded<ops::add>(c) / static_cast<double>(c.numOperands()); }

// The base decides the dtype. Bases that are integers with real exponents are computed in f64.
ImportResults power(OnnxContext& c) {
  const Expr x = c.in(0), y = c.in(1);
  // A literal: kernels multiply for small integers.
  if (const Tensor* known = c.knownIf(1); known && known->shape().empty() && isFloat(x.dtype()))
    return pow(x, x.literal(known->getFloat(0)));
  if (isFloat(x.dtype())) return pow(x, y.as(x.dtype()));
  if (!isFloat(y.dtype())) return pow(x, y.as(x.dtype()));
  return pow(x.as(DType::F64), y.as(DType::F64)).as(x.dtype());
}

ImportResults remainder(OnnxContext& c) {
  return c.integer("fmod", 0) ? rem(c.in(0), c.in(1)) : mod(c.in(0), c.in(1));
}

ImportResults shift(OnnxContext& c) {
  const std::string direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") c.fail("has a direction that is neither LEFT nor RIGHT");
  return direction == "LEFT" ? shl(c.in(0), c.in(1)) : shr(c.in(0), c.in(1));
}

ImportResults isInfinite(OnnxContext& c) {
  const Expr x = c.in(0);
  const bool negative = c.integer("detect_negative", 1), positive = c.integer("detect_positive", 1);
  if (negative && positive) return is_inf(x);
  if (!negative && !positive) return is_inf(x) & filled(c.b, DType::Bool, {}, 0);
  return is_inf(x) & (positive ? gt(x, 0.0) : lt(x, 0.0));
}

ImportResults clip(OnnxContext& c) {
  Expr x = c.in(0);
  if (c.has(1)) x = max(x, c.in(1));
  if (c.has(2)) x = min(x, c.in(2));
  if (c.has("min")) x = max(x, c.real("min")); // before opset 11
  if (c.has("max")) x = min(x, c.real("max"));
  return x;
}

ImportResults where(OnnxContext& c) { return select(c.in(0), c.in(1), c.in(2)); }

Dim asDim(const ImportInt& v) { return v.size ? *v.size : Dim(v.number); }

// Sizes may be multiplied and divided before they are a shape.
template <Expr (*f)(Expr, Arg), std::optional<Dim> (DimTable::*combine)(Dim, Dim)>
ImportResults sized(OnnxContext& c) {
  const Expr y = f(c.in(0), c.in(1));
  const auto a = c.sizesIf(0), b = c.sizesIf(1);
  if (!a || !b || a->empty() || b->empty()) return y;
  std::vector<ImportInt> out;
  for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    const ImportInt &l = (*a)[a->size() == 1 ? 0 : i], &r = (*b)[b->size() == 1 ? 0 : i];
    if (l.number < 0 || r.number < 0) return y;
    const auto d = (c.module.dims.*combine)(asDim(l), asDim(r));
    if (!d) return y;
    ImportInt& v = out.emplace_back();
    if (d->isStatic())
      v.number = d->value();
    else
      v.size = *d;
  }
  c.setSizes(std::move(out));
  return y;
}

constexpr OnnxRow kElementwiseRows[] = {
    {"Abs", unary<ops::abs>, 6},
    {"Acos", unary<acos>, 7},
    {"Acosh", unary<acosh>, 9},
    {"Asin", unary<asin>, 7},
    {"Asinh", unary<asinh>, 9},
    {"Atan", unary<atan>, 7},
    {"Atanh", unary<atanh>, 9},
    {"BitwiseNot", unary<not_>},
    {"Ceil", unary<ops::ceil>, 6},
    {"Cos", unary<cos>, 7},
    {"Cosh", unary<cosh>, 9},
    {"Erf", unary<erf>, 9},
    {"Exp", unary<exp>, 6},
    {"Floor", unary<ops::floor>, 6},
    {"IsNaN", unary<is_nan>, 9},
    {"Log", unary<log>, 6},
    {"Neg", unary<neg>, 6},
    {"Not", unary<not_>, 1},
    {"Reciprocal", unary<reciprocal>, 6},
    {"Round", unary<ops::round>, 11},
    {"Sigmoid", unary<sigmoid>, 6},
    {"Sign", unary<sign>, 9},
    {"Sin", unary<sin>, 7},
    {"Sinh", unary<sinh>, 9},
    {"Sqrt", unary<sqrt>, 6},
    {"Tan", unary<tan>, 7},
    {"Tanh", unary<tanh>, 6},
    {"Add", binary<ops::add>, 6},
    {"And", binary<and_>, 7},
    {"BitwiseAnd", binary<and_>},
    {"BitwiseOr", binary<or_>},
    {"BitwiseXor", binary<xor_>},
    {"Div", sized<div, &DimTable::divExact>, 6},
    {"Equal", binary<eq>, 7},
    {"Greater", binary<gt>, 7},
    {"GreaterOrEqual", binary<ge>, 12},
    {"Less", binary<lt>, 7},
    {"LessOrEqual", binary<le>, 12},
    {"Mul", sized<mul, &DimTable::mul>, 6},
    {"Or", binary<or_>, 7},
    {"Sub", binary<sub>, 6},
    {"Xor", binary<xor_>, 7},
    {"Max", variadic<ops::max>, 6},
    {"Min", variadic<ops::min>, 6},
    {"Sum", variadic<ops::add>, 6},
    {"Mean", meanOf, 6},
    {"Pow", power, 6},
    {"Mod", remainder, 10},
    {"BitShift", shift, 11},
    {"IsInf", isInfinite, 10},
    {"Clip", clip, 6},
    {"Where", where, 9},
};

} // namespace

std::span<const OnnxRow> elementwiseRows() { return kElementwiseRows; }

} // namespace dtc::onnx
