#include "export/ExportScalar.h"
#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// Intrinsics on whole tensors, with the edge cases of Intrinsics.cpp.
class IntrinsicExport {
public:
  IntrinsicExport(ExportWriter& w, const Dims& shape) : w_(w), shape_(shape) {}

  std::optional<ExportValue> run(std::string_view f, std::span<const ExportValue> args, DType result) {
    const ExportValue& a = args[0];
    const ExportValue& b = args.size() > 1 ? args[1] : a;
    const ExportValue& c = args.size() > 2 ? args[2] : a;
    if (f == "select") return w_.select(a, b, c);
    if (f == "cast") return w_.convert(a, result);
    if (f == "bitcast") return w_.typed("bitcast_convert", {&a, 1}, "", result, shape_);
    const Intrinsic* known = findIntrinsic(f);
    if (known && known->stableHlo)
      return known->result == Intrinsic::Bool ? w_.compare(known->stableHlo, a, b)
                                              : w_.elementwise(known->stableHlo, args, a.dtype);
    if (f == "random32" || f == "random64") return random(a, b, c, f == "random64");
    if (f == "random_normal") return normal(args);
    return composed(f, a, b, c);
  }

private:
  ExportValue number(double v, const ExportValue& like) { return w_.splat(v, like.dtype, shape_); }

  // Intrinsics of several ops, with the edge cases of Intrinsics.cpp.
  std::optional<ExportValue> composed(std::string_view f, const ExportValue& a, const ExportValue& b,
                                      const ExportValue& c) {
    if (f == "pow") return w_.binary("power", a, w_.convert(b, a.dtype));
    if (f == "shr")
      return w_.binary(isUnsignedInt(a.dtype) ? "shift_right_logical" : "shift_right_arithmetic", a, b);
    if (f == "fma") return w_.binary("add", w_.binary("multiply", a, b), c);
    if (f == "exp2") return w_.binary("power", number(2, a), a);
    if (f == "log2") return w_.binary("divide", w_.unary("log", a), number(0.6931471805599453, a));
    if (f == "trunc")
      return w_.select(w_.compare("LT", a, number(0, a)), w_.unary("ceil", a), w_.unary("floor", a));
    if (f == "is_nan") return w_.compare("NE", a, a);
    if (f == "is_inf") return w_.compare("EQ", w_.unary("abs", a), number(HUGE_VAL, a));
    if (f == "is_finite") return w_.elementwise("is_finite", {&a, 1}, DType::Bool);
    if (f == "mod") return mod(a, b);
    if (f == "floor_div") return floorDiv(a, b);
    return std::nullopt;
  }

  // rem, plus b where the remainder is nonzero and its sign differs from that of b.
  ExportValue mod(const ExportValue& a, const ExportValue& b) {
    if (isUnsignedInt(a.dtype)) return w_.binary("remainder", a, b);
    const ExportValue r = w_.binary("remainder", a, b), zero = number(0, a);
    const ExportValue other = w_.binary("xor", w_.compare("LT", r, zero), w_.compare("LT", b, zero));
    const ExportValue moved = w_.binary("and", w_.compare("NE", r, zero), other);
    ExportValue m = w_.select(moved, w_.binary("add", r, b), r);
    if (!isFloat(a.dtype)) return m;
    const ExportValue signedZero = w_.binary("multiply", zero, w_.unary("sign", b));
    return w_.select(w_.compare("EQ", r, zero), signedZero, m);
  }

  // For floats the quotient of (a - rem) / b; for integers `div`. Minus one where there is a remainder and
  // the signs differ.
  ExportValue floorDiv(const ExportValue& a, const ExportValue& b) {
    if (isUnsignedInt(a.dtype)) return w_.binary("divide", a, b);
    const ExportValue r = w_.binary("remainder", a, b), zero = number(0, a), one = number(1, a);
    const ExportValue other = w_.binary("xor", w_.compare("LT", a, zero), w_.compare("LT", b, zero));
    const ExportValue moved = w_.binary("and", w_.compare("NE", r, zero), other);
    const ExportValue quotient = w_.binary("divide", a, b);
    const ExportValue q = isFloat(a.dtype) ? w_.binary("divide", w_.binary("subtract", a, r), b) : quotient;
    ExportValue below = w_.select(moved, w_.binary("subtract", q, one), q);
    if (!isFloat(a.dtype)) return below;
    const ExportValue down = w_.unary("floor", below);
    const ExportValue more = w_.compare("GT", w_.binary("subtract", below, down), number(0.5, a));
    const ExportValue rounded = w_.select(more, w_.binary("add", down, one), down);
    const ExportValue y = // a quotient of 0 has the sign of a / b
        w_.select(w_.compare("EQ", below, zero), w_.binary("multiply", zero, quotient), rounded);
    return w_.select(w_.compare("EQ", b, zero), quotient, y);
  }

  // --- Philox4x32-10 (lib/Ops/elementwise/Random.cpp) on u64, each word in the lower half ---

  ExportValue u64(uint64_t v) { return w_.dense(std::to_string(v), DType::U64, shape_); }
  ExportValue low(const ExportValue& v) { return w_.binary("and", v, u64(0xffffffffu)); }
  ExportValue high(const ExportValue& v) { return w_.binary("shift_right_logical", v, u64(32)); }

  std::array<ExportValue, 4> philox(const ExportValue& number, const ExportValue& key,
                                    const ExportValue& upper) {
    std::array<ExportValue, 4> c = {low(number), high(number), low(upper), high(upper)};
    ExportValue k0 = low(key), k1 = high(key);
    for (int round = 0; round < 10; ++round) {
      const ExportValue p0 = w_.binary("multiply", u64(0xD2511F53u), c[0]);
      const ExportValue p1 = w_.binary("multiply", u64(0xCD9E8D57u), c[2]);
      c = {w_.binary("xor", w_.binary("xor", high(p1), c[1]), k0), low(p1),
           w_.binary("xor", w_.binary("xor", high(p0), c[3]), k1), low(p0)};
      if (round == 9) break;
      k0 = low(w_.binary("add", k0, u64(0x9E3779B9u)));
      k1 = low(w_.binary("add", k1, u64(0xBB67AE85u)));
    }
    return c;
  }

  ExportValue random(const ExportValue& element, const ExportValue& key, const ExportValue& upper,
                     bool wide) {
    const ExportValue i = w_.convert(element, DType::U64);
    const auto c = philox(w_.binary("shift_right_logical", i, u64(wide ? 1 : 2)), w_.convert(key, DType::U64),
                          w_.convert(upper, DType::U64));
    const ExportValue odd = w_.compare("EQ", w_.binary("and", i, u64(1)), u64(1));
    auto word = [&](size_t n) { return w_.binary("or", w_.binary("shift_left", c[n + 1], u64(32)), c[n]); };
    if (wide) return w_.select(odd, word(2), word(0));
    const ExportValue later = w_.compare("EQ", w_.binary("and", i, u64(2)), u64(2));
    return w_.select(later, w_.select(odd, c[3], c[2]), w_.select(odd, c[1], c[0]));
  }

  // std times the Box-Muller variate, as in normalOf; args: std, element, seed[0], seed[1].
  ExportValue normal(std::span<const ExportValue> args) {
    const bool wide = args[0].dtype == DType::F64;
    const int bits = wide ? 64 : 32;
    const uint64_t top = uint64_t(1) << (bits - 1), all = top - 1 + top;
    auto f64 = [&](double v) { return w_.splat(v, DType::F64, shape_); };
    auto real = [&](const ExportValue& v) { return w_.convert(v, DType::F64); };
    const ExportValue i = w_.convert(args[1], DType::U64), even = w_.binary("and", i, u64(~uint64_t(1)));
    const ExportValue odd = w_.compare("NE", i, even);
    const ExportValue radius = random(even, args[2], args[3], wide);
    const ExportValue angle = random(w_.binary("add", even, u64(1)), args[2], args[3], wide);
    const double unit = std::ldexp(1.0, -bits);
    const ExportValue near = w_.binary("multiply", w_.binary("add", real(radius), f64(0.5)), f64(unit));
    const ExportValue far = w_.binary(
        "multiply", w_.binary("add", real(w_.binary("subtract", u64(all), radius)), f64(0.5)), f64(-unit));
    const ExportValue log =
        w_.select(w_.compare("LT", radius, u64(top)), w_.unary("log", near), w_.unary("log_plus_one", far));
    const ExportValue moved = w_.binary("and", w_.binary("add", angle, u64(top >> 2)), u64(all));
    ExportValue quarter = w_.binary("shift_right_logical", moved, u64(static_cast<uint64_t>(bits - 2)));
    const ExportValue begin = w_.binary("shift_left", quarter, u64(static_cast<uint64_t>(bits - 2)));
    const ExportValue rest = w_.binary("and", w_.binary("subtract", angle, begin), u64(all));
    const ExportValue before = w_.binary("add", w_.binary("subtract", u64(all), rest), u64(1));
    const ExportValue signedRest =
        w_.select(w_.compare("LT", rest, u64(top)), real(rest), w_.unary("negate", real(before)));
    const ExportValue x = w_.binary("multiply", signedRest, f64(2 * 3.141592653589793 * unit));
    quarter = w_.select(odd, w_.binary("add", quarter, u64(3)), quarter);
    const ExportValue side = w_.compare("EQ", w_.binary("and", quarter, u64(1)), u64(0));
    const ExportValue y = w_.select(side, w_.unary("cosine", x), w_.unary("sine", x));
    // The sign flips in quadrants 1 and 2, where the two lowest bits differ.
    const ExportValue negative =
        w_.compare("NE", w_.binary("and", w_.binary("add", quarter, u64(1)), u64(2)), u64(0));
    const ExportValue signedY = w_.select(negative, w_.unary("negate", y), y);
    const ExportValue n =
        w_.binary("multiply", w_.unary("sqrt", w_.binary("multiply", log, f64(-2))), signedY);
    return w_.binary("multiply", args[0], w_.convert(n, args[0].dtype));
  }

  ExportWriter& w_;
  const Dims& shape_;
};

class ScalarExport {
public:
  ScalarExport(ExportWriter& w, const ScalarExpr& e, std::span<const ExportValue> operands,
               const ExportValue* acc, const Dims& shape)
      : w_(w), e_(e), operands_(operands), acc_(acc), shape_(shape) {
    const auto calls = std::count_if(e.nodes.begin(), e.nodes.end(),
                                     [](const ScalarNode& n) { return n.kind == ScalarNode::Call; });
    wide_ = calls > 1;
  }

  std::optional<ExportValue> run(std::string& missing) {
    for (size_t i = 0; i < e_.nodes.size(); ++i) {
      // The root op takes the result's name, unless a rounding follows it.
      values_.push_back(node(e_.nodes[i]));
      if (!values_.back()) {
        missing = e_.nodes[i].fn->name;
        return std::nullopt;
      }
    }
    const DType d = e_.nodes.back().dtype;
    return values_.back()->dtype == d ? *values_.back() : w_.convert(*values_.back(), d);
  }

private:
  // The dtype of the computation: intermediate results of a narrow float are not rounded.
  [[nodiscard]] DType held(DType d) const { return wide_ && isNarrowFloat(d) ? DType::F32 : d; }
  ExportValue broadcastToShape(const ExportValue& v) {
    return v.shape == shape_ ? v : w_.broadcast(v, {}, shape_);
  }

  std::optional<ExportValue> node(const ScalarNode& n) {
    switch (n.kind) {
    case ScalarNode::Operand: return w_.convert(broadcastToShape(operands_[n.position]), held(n.dtype));
    case ScalarNode::Accumulator: return w_.convert(broadcastToShape(*acc_), held(n.dtype));
    case ScalarNode::Index: return w_.iota(n.position, n.dtype, shape_);
    case ScalarNode::Number:
      if (isInteger(n.dtype)) return integer(n);
      return w_.splat(n.number, held(n.dtype), shape_);
    case ScalarNode::Attribute: break; // typed expressions have none
    case ScalarNode::Call: return call(n);
    }
    return std::nullopt;
  }

  ExportValue integer(const ScalarNode& n) {
    const bool isUnsigned = isUnsignedInt(n.dtype);
    return w_.dense(isUnsigned ? std::to_string(static_cast<uint64_t>(n.integer)) : std::to_string(n.integer),
                    n.dtype, shape_);
  }

  std::optional<ExportValue> call(const ScalarNode& n) {
    std::vector<ExportValue> args;
    for (size_t i = 0; i < n.fn->arity; ++i) args.push_back(*values_[n.args[i]]);
    return IntrinsicExport(w_, shape_).run(n.fn->name, args, held(n.dtype));
  }

  ExportWriter& w_;
  const ScalarExpr& e_;
  std::span<const ExportValue> operands_;
  const ExportValue* acc_;
  const Dims& shape_;
  bool wide_ = false;
  std::vector<std::optional<ExportValue>> values_;
};

} // namespace

std::optional<ExportValue> exportScalar(ExportWriter& w, const ScalarExpr& e,
                                        std::span<const ExportValue> operands, const ExportValue* acc,
                                        const Dims& shape, std::string& missing) {
  return ScalarExport(w, e, operands, acc, shape).run(missing);
}

std::optional<ExportValue> exportIntrinsic(ExportWriter& w, std::string_view name,
                                           std::span<const ExportValue> args, DType result) {
  return IntrinsicExport(w, args[0].shape).run(name, args, result);
}

} // namespace dtc
