// Device header, core: comparisons, arithmetic and bits. The device header has dtc_<op> for each scalar op of
// the IR, also where an operator would do. Edge cases are the IR's: integers wrap, division by 0 gives 0 and
// INT_MIN / -1 gives INT_MIN, shifts past the width give 0 (shr of a negative: -1), max min relu clamp sign
// keep NaN, round is half to even, float to integer saturates and NaN gives 0.

// --- selection and comparison ---
template <class T> DTC_FN T dtc_select(dtc_bool<T> c, T a, T b) {
#ifndef __CUDACC__
  if constexpr (dtc_is_vector<T> && dtc_is_bool<T>)
    return (c & a) | (~c & b);
  else if constexpr (dtc_is_vector<T>)
    return (__builtin_convertvector(c, dtc_sint<T>) != 0) ? a : b;
  else
#endif
    return c ? a : b;
}
#ifdef __CUDACC__
#define DTC_COMPARE(name, op)                                                                                \
  template <class T> DTC_FN bool dtc_##name(T a, T b) { return a op b; }
#else
#define DTC_COMPARE(name, op)                                                                                \
  template <class T> DTC_FN dtc_bool<T> dtc_##name(T a, T b) {                                               \
    if constexpr (dtc_is_vector<T> && dtc_is_bool<T>)                                                        \
      return dtc_##name##_bool(a, b);                                                                        \
    else if constexpr (dtc_is_vector<T>)                                                                     \
      return __builtin_convertvector(a op b, dtc_bool<T>);                                                   \
    else                                                                                                     \
      return a op b;                                                                                         \
  }
template <class T> DTC_FN T dtc_eq_bool(T a, T b) { return ~(a ^ b); }
template <class T> DTC_FN T dtc_ne_bool(T a, T b) { return a ^ b; }
template <class T> DTC_FN T dtc_lt_bool(T a, T b) { return ~a & b; }
template <class T> DTC_FN T dtc_le_bool(T a, T b) { return ~a | b; }
template <class T> DTC_FN T dtc_gt_bool(T a, T b) { return a & ~b; }
template <class T> DTC_FN T dtc_ge_bool(T a, T b) { return a | ~b; }
#endif
DTC_COMPARE(eq, ==)
DTC_COMPARE(ne, !=)
DTC_COMPARE(lt, <)
DTC_COMPARE(le, <=)
DTC_COMPARE(gt, >)
DTC_COMPARE(ge, >=)

// --- arithmetic ---
#define DTC_ARITHMETIC(name, op)                                                                             \
  template <class T> DTC_FN T dtc_##name(T a, T b) {                                                         \
    if constexpr (dtc_is_float<T>)                                                                           \
      return a op b;                                                                                         \
    else                                                                                                     \
      return (T)(dtc_uint<T>)((dtc_uint<T>)a op(dtc_uint<T>) b);                                             \
  }
#if defined(__CUDACC__) || defined(DTC_EMULATED)
DTC_ARITHMETIC(add, +)
DTC_ARITHMETIC(sub, -)
// u16 operands are promoted to int, whose product overflows: hence u32.
template <class T> DTC_FN T dtc_mul(T a, T b) {
  if constexpr (dtc_is_float<T>)
    return a * b;
  else if constexpr (sizeof(T) < 4)
    return (T)((u32)a * (u32)b);
  else
    return (T)((dtc_uint<T>)a * (dtc_uint<T>)b);
}
#else // compiled with -fwrapv
template <class T> DTC_FN T dtc_add(T a, T b) { return a + b; }
template <class T> DTC_FN T dtc_sub(T a, T b) { return a - b; }
template <class T> DTC_FN T dtc_mul(T a, T b) { return a * b; }
#endif
template <class T> DTC_FN T dtc_neg(T x) {
  if constexpr (dtc_is_float<T>)
    return -x;
  else
    return dtc_sub((T)(dtc_elem<T>)0, x);
}
template <class T> DTC_FN T dtc_square(T x) { return dtc_mul(x, x); }

template <class T> DTC_FN dtc_bool<T> dtc_is_nan(T x) { return dtc_ne(x, x); }
template <class T> DTC_FN T dtc_abs(T x) {
  if constexpr (dtc_is_f32<T>)
    return dtc_bitcast<T>(dtc_bits(x) & (dtc_uint<T>)0x7fffffffu);
  else if constexpr (dtc_is_f64<T>)
    return dtc_bitcast<T>(dtc_bits(x) & (dtc_uint<T>)0x7fffffffffffffffull);
  else if constexpr (dtc_is_signed<T>)
    return dtc_select(dtc_lt(x, (T)(dtc_elem<T>)0), dtc_neg(x), x);
  else
    return x;
}
template <class T> DTC_FN dtc_bool<T> dtc_is_inf(T x) {
  return dtc_eq(dtc_abs(x), (T)dtc_infinity<dtc_elem<T>>());
}
template <class T> DTC_FN dtc_bool<T> dtc_is_finite(T x) {
  return dtc_lt(dtc_abs(x), (T)dtc_infinity<dtc_elem<T>>());
}
template <class T> DTC_FN T dtc_copysign(T magnitude, T sign) {
  const dtc_uint<T> top =
      (dtc_uint<T>)((typename dtc_int_of<sizeof(dtc_elem<T>)>::U)1 << (sizeof(dtc_elem<T>) * 8 - 1));
  return dtc_bitcast<T>((dtc_bits(magnitude) & ~top) | (dtc_bits(sign) & top));
}

#ifndef __CUDACC__ // one instruction in cuda.h
// One instruction returns b where either is NaN; a second restores a's NaN.
template <class T> DTC_FN T dtc_max_nan(T a, T b) {
  if constexpr (dtc_is_vector<T>)
    return (a != a) ? a : ((a > b) ? a : b);
  else
    return a > b || a != a ? a : b;
}
template <class T> DTC_FN T dtc_min_nan(T a, T b) {
  if constexpr (dtc_is_vector<T>)
    return (a != a) ? a : ((a < b) ? a : b);
  else
    return a < b || a != a ? a : b;
}
#endif
template <class T> DTC_FN T dtc_max(T a, T b) {
  if constexpr (dtc_is_bool<T>)
    return a | b;
  else if constexpr (dtc_is_float<T>)
    return dtc_max_nan(a, b);
  else
    return dtc_select(dtc_gt(a, b), a, b);
}
template <class T> DTC_FN T dtc_min(T a, T b) {
  if constexpr (dtc_is_bool<T>)
    return a & b;
  else if constexpr (dtc_is_float<T>)
    return dtc_min_nan(a, b);
  else
    return dtc_select(dtc_lt(a, b), a, b);
}
template <class T> DTC_FN T dtc_clamp(T x, T lo, T hi) { return dtc_min(dtc_max(x, lo), hi); } // lo > hi: hi
template <class T> DTC_FN T dtc_sign(T x) {
  const T zero = (T)(dtc_elem<T>)0, one = (T)(dtc_elem<T>)1;
  if constexpr (!dtc_is_float<T> && !dtc_is_signed<T>)
    return dtc_select(dtc_ne(x, zero), one, zero);
  else
    return dtc_select(dtc_gt(x, zero), one,
                      dtc_select(dtc_lt(x, zero), (T)(dtc_elem<T>)-1, x)); // keeps NaN and zeros
}

// --- bits ---
template <class T> DTC_FN T dtc_and(T a, T b) { return a & b; }
template <class T> DTC_FN T dtc_or(T a, T b) { return a | b; }
template <class T> DTC_FN T dtc_xor(T a, T b) { return a ^ b; }
template <class T> DTC_FN T dtc_not(T x) {
#ifndef __CUDACC__
  if constexpr (dtc_is_vector<T>)
    return ~x;
  else
#endif
      if constexpr (dtc_is_bool<T>)
    return !x;
  else
    return ~x;
}
// The shift count is unsigned: a negative one is past the width.
template <class T> DTC_FN T dtc_shl(T a, T n) {
  const dtc_uint<T> width =
      (dtc_uint<T>)(typename dtc_int_of<sizeof(dtc_elem<T>)>::U)(sizeof(dtc_elem<T>) * 8);
  const auto inside = dtc_lt((dtc_uint<T>)n, width);
  const dtc_uint<T> by = dtc_select(inside, (dtc_uint<T>)n, (dtc_uint<T>)(dtc_elem<dtc_uint<T>>)0);
  return dtc_select(inside, (T)(dtc_uint<T>)((dtc_uint<T>)a << by), (T)(dtc_elem<T>)0);
}
template <class T> DTC_FN T dtc_shr(T a, T n) {
  const dtc_uint<T> last =
      (dtc_uint<T>)(typename dtc_int_of<sizeof(dtc_elem<T>)>::U)(sizeof(dtc_elem<T>) * 8 - 1);
  const auto inside = dtc_le((dtc_uint<T>)n, last);
  const T by = (T)dtc_select(inside, (dtc_uint<T>)n, last);
  if constexpr (dtc_is_signed<T>)
    return (T)(a >> by);
  else
    return dtc_select(inside, (T)(a >> by), (T)(dtc_elem<T>)0);
}
template <class T, class N>
DTC_FN T dtc_pow_one(T base, N n) { // exact, wraps; negative exponents: 1, ±1, else 0
  const T one = (T)(dtc_elem<T>)1, zero = (T)(dtc_elem<T>)0;
  T r = one, b = base;
  if constexpr (dtc_is_signed<N>) {
    if (n < 0) {
      if constexpr (dtc_is_signed<T>)
        if (base == (T)-1) return (n & 1) ? base : one;
      return base == one ? one : zero;
    }
  }
  for (; n != 0; n = (N)(n >> 1)) {
    if (n & 1) r = dtc_mul(r, b);
    b = dtc_mul(b, b);
  }
  return r;
}
template <class T, class N> DTC_FN T dtc_pow_int(T base, N n) {
#ifndef __CUDACC__
  if constexpr (dtc_is_vector<T>) {
    T r;
    for (int i = 0; i < dtc_type<T>::lanes; ++i) r[i] = dtc_pow_one((dtc_elem<T>)base[i], (dtc_elem<N>)n[i]);
    return r;
  } else
#endif
    return dtc_pow_one(base, n);
}
