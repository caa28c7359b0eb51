// CHLO: what StableHLO leaves to its producers to take apart, and XLA's own functions behind custom calls.
#include "HloTable.h"

#include <algorithm>
#include <limits>

namespace dtc {

namespace {

// Not called as the like of it in HloElementwise.cpp: clang 19 gives both objects one symbol.
template <size_t N> struct OpName {
  char text[N];
  constexpr OpName(const char (&t)[N]) { std::copy_n(t, N, text); }
};

template <OpName name> bool unary(HloContext& c) {
  return c.expectOperands(1) && c.give(c.emit(name.text, {c.operand(0)}));
}
template <OpName name> bool binary(HloContext& c) {
  return c.expectOperands(2) && c.give(c.emit(name.text, {c.operand(0), c.operand(1)}));
}

template <bool negative> bool isInfinityOfSign(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  const double infinity = std::numeric_limits<double>::infinity();
  ValueId x = c.operand(0);
  return c.give(c.emit("eq", {x, c.literal(negative ? -infinity : infinity, c.dtypeOf(x))}));
}

bool constantLike(HloContext& c) {
  if (!c.expectOperands(1)) return false;
  auto value = c.real("value");
  const ValueId x = c.operand(0);
  return value && x.valid() && c.give(c.splat(*value, c.dtypeOf(x), c.shapeOf(x)));
}

// --- broadcasting forms: as the op itself, which broadcasts here anyway ---

// Operands of fewer dims are aligned at the last one, as NumPy does, unless broadcast_dimensions says otherwise.
bool alignsAtEnd(HloContext& c) {
  if (!c.has("broadcast_dimensions")) return true;
  auto dims = c.ints("broadcast_dimensions");
  if (!dims) return false;
  size_t rank = 0;
  for (size_t i = 0; i < c.numOperands(); ++i) rank = std::max(rank, c.rankOf(c.operand(i)));
  for (size_t i = 0; i < dims->size(); ++i)
    if ((*dims)[i] != static_cast<int64_t>(rank + i) - static_cast<int64_t>(dims->size()))
      return c.failAttr("broadcast_dimensions", "aligns dims otherwise than at the last one: put a "
                                                "stablehlo.broadcast_in_dim before it");
  return true;
}

template <OpName name> bool broadcasting(HloContext& c) {
  const HloRow* row = findHloRow(name.text);
  if (!row) return c.fail("has no counterpart here");
  return alignsAtEnd(c) && row->convert(c);
}

// What LAPACK computes and no op of ours does.
bool lapack(HloContext& c) {
  return c.fail(
      "calls LAPACK, which no op of dtc does: compute it outside of the program and give the result as "
      "an argument");
}

const HloRow kRows[] = {
    {"chlo.acos", unary<"acos">},
    {"chlo.acosh", unary<"acosh">},
    {"chlo.asin", unary<"asin">},
    {"chlo.asinh", unary<"asinh">},
    {"chlo.atan", unary<"atan">},
    {"chlo.atanh", unary<"atanh">},
    {"chlo.bessel_i1e", unary<"bessel_i1e">},
    {"chlo.broadcast_add", broadcasting<"stablehlo.add">},
    {"chlo.broadcast_and", broadcasting<"stablehlo.and">},
    {"chlo.broadcast_atan2", broadcasting<"stablehlo.atan2">},
    {"chlo.broadcast_compare", broadcasting<"stablehlo.compare">},
    {"chlo.broadcast_complex", broadcasting<"stablehlo.complex">},
    {"chlo.broadcast_divide", broadcasting<"stablehlo.divide">},
    {"chlo.broadcast_maximum", broadcasting<"stablehlo.maximum">},
    {"chlo.broadcast_minimum", broadcasting<"stablehlo.minimum">},
    {"chlo.broadcast_multiply", broadcasting<"stablehlo.multiply">},
    {"chlo.broadcast_next_after", broadcasting<"chlo.next_after">},
    {"chlo.broadcast_or", broadcasting<"stablehlo.or">},
    {"chlo.broadcast_polygamma", broadcasting<"chlo.polygamma">},
    {"chlo.broadcast_power", broadcasting<"stablehlo.power">},
    {"chlo.broadcast_remainder", broadcasting<"stablehlo.remainder">},
    {"chlo.broadcast_select", broadcasting<"stablehlo.select">},
    {"chlo.broadcast_shift_left", broadcasting<"stablehlo.shift_left">},
    {"chlo.broadcast_shift_right_arithmetic", broadcasting<"stablehlo.shift_right_arithmetic">},
    {"chlo.broadcast_shift_right_logical", broadcasting<"stablehlo.shift_right_logical">},
    {"chlo.broadcast_subtract", broadcasting<"stablehlo.subtract">},
    {"chlo.broadcast_xor", broadcasting<"stablehlo.xor">},
    {"chlo.broadcast_zeta", broadcasting<"chlo.zeta">},
    {"chlo.constant", broadcasting<"stablehlo.constant">},
    {"chlo.constant_like", constantLike},
    {"chlo.cosh", unary<"cosh">},
    {"chlo.digamma", unary<"digamma">},
    {"chlo.erf", unary<"erf">},
    {"chlo.erf_inv", unary<"erf_inv">},
    {"chlo.erfc", unary<"erfc">},
    {"chlo.is_inf", unary<"is_inf">},
    {"chlo.is_neg_inf", isInfinityOfSign<true>},
    {"chlo.is_pos_inf", isInfinityOfSign<false>},
    {"chlo.lgamma", unary<"lgamma">},
    {"chlo.next_after", binary<"next_after">},
    {"chlo.polygamma", binary<"polygamma">},
    {"chlo.sinh", unary<"sinh">},
    {"chlo.square", unary<"square">},
    {"chlo.tan", unary<"tan">},
    {"chlo.zeta", binary<"zeta">},
    {"custom_call @mhlo.acos", unary<"acos">},
    {"custom_call @mhlo.acosh", unary<"acosh">},
    {"custom_call @mhlo.asin", unary<"asin">},
    {"custom_call @mhlo.asinh", unary<"asinh">},
    {"custom_call @mhlo.atan", unary<"atan">},
    {"custom_call @mhlo.atanh", unary<"atanh">},
    {"custom_call @mhlo.bessel_i1e", unary<"bessel_i1e">},
    {"custom_call @mhlo.cosh", unary<"cosh">},
    {"custom_call @mhlo.digamma", unary<"digamma">},
    {"custom_call @mhlo.erf", unary<"erf">},
    {"custom_call @mhlo.erf_inv", unary<"erf_inv">},
    {"custom_call @mhlo.lgamma", unary<"lgamma">},
    {"custom_call @mhlo.sinh", unary<"sinh">},
    {"custom_call @mhlo.tan", unary<"tan">},
    {"mhlo.acos", unary<"acos">},
    {"mhlo.acosh", unary<"acosh">},
    {"mhlo.asin", unary<"asin">},
    {"mhlo.asinh", unary<"asinh">},
    {"mhlo.atanh", unary<"atanh">},
    {"mhlo.cosh", unary<"cosh">},
    {"mhlo.erf", unary<"erf">},
    {"mhlo.sinh", unary<"sinh">},
    {"custom_call @lapack_sgeev_ffi", lapack},
    {"custom_call @lapack_dgeev_ffi", lapack},
    {"custom_call @lapack_cgeev_ffi", lapack},
    {"custom_call @lapack_zgeev_ffi", lapack},
};

} // namespace

std::span<const HloRow> hloMathRows() { return kRows; }

} // namespace dtc
