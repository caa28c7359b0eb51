// Device header, CPU and cuda-emu: mathematical functions of a number or, per lane, of a vector. f32: inline,
// without a call, within the bounds of docs/math.md (measured by test/unit/Jit/Math.cpp); only fmod, and sin,
// cos and tan of numbers beyond 1e6, call the C library. f64: the C library's. Contracted to fused
// multiply-adds where the processor has them.

// --- the C library, per lane ---
extern "C" {
f32 expf(f32);
f32 exp2f(f32);
f32 expm1f(f32);
f32 logf(f32);
f32 log2f(f32);
f32 log1pf(f32);
f32 sinf(f32);
f32 cosf(f32);
f32 tanf(f32);
f32 asinf(f32);
f32 acosf(f32);
f32 atanf(f32);
f32 sinhf(f32);
f32 coshf(f32);
f32 tanhf(f32);
f32 erff(f32);
f32 erfcf(f32);
f32 powf(f32, f32);
f32 atan2f(f32, f32);
f32 fmodf(f32, f32);
f64 exp(f64);
f64 exp2(f64);
f64 expm1(f64);
f64 log(f64);
f64 log2(f64);
f64 log1p(f64);
f64 sin(f64);
f64 cos(f64);
f64 tan(f64);
f64 asin(f64);
f64 acos(f64);
f64 atan(f64);
f64 sinh(f64);
f64 cosh(f64);
f64 tanh(f64);
f64 erf(f64);
f64 erfc(f64);
f64 pow(f64, f64);
f64 atan2(f64, f64);
f64 fmod(f64, f64);
}
#define DTC_LANES1(name)                                                                                     \
  template <class T> DTC_FN T dtc_lanes_##name(T x) {                                                        \
    if constexpr (dtc_is_vector<T>) {                                                                        \
      T y;                                                                                                   \
      for (int i = 0; i < dtc_type<T>::lanes; ++i) y[i] = dtc_lanes_##name(x[i]);                            \
      return y;                                                                                              \
    } else if constexpr (dtc_is_f32<T>)                                                                      \
      return name##f(x);                                                                                     \
    else                                                                                                     \
      return name(x);                                                                                        \
  }
#define DTC_LANES2(name)                                                                                     \
  template <class T> DTC_FN T dtc_lanes_##name(T a, T b) {                                                   \
    if constexpr (dtc_is_vector<T>) {                                                                        \
      T y;                                                                                                   \
      for (int i = 0; i < dtc_type<T>::lanes; ++i)                                                           \
        y[i] = dtc_lanes_##name((dtc_elem<T>)a[i], (dtc_elem<T>)b[i]);                                       \
      return y;                                                                                              \
    } else if constexpr (dtc_is_f32<T>)                                                                      \
      return name##f(a, b);                                                                                  \
    else                                                                                                     \
      return name(a, b);                                                                                     \
  }
DTC_LANES1(exp)
DTC_LANES1(exp2)
DTC_LANES1(expm1)
DTC_LANES1(log)
DTC_LANES1(log2)
DTC_LANES1(log1p)
DTC_LANES1(sin)
DTC_LANES1(cos)
DTC_LANES1(tan)
DTC_LANES1(asin)
DTC_LANES1(acos)
DTC_LANES1(atan)
DTC_LANES1(sinh)
DTC_LANES1(cosh)
DTC_LANES1(tanh)
DTC_LANES1(erf)
DTC_LANES1(erfc)
DTC_LANES2(pow)
DTC_LANES2(atan2)
DTC_LANES2(fmod)
#define DTC_LIBRARY2(name)                                                                                   \
  template <class T> DTC_FN T dtc_##name(T a, T b) { return dtc_lanes_##name(a, b); }
DTC_LIBRARY2(fmod)

// --- exact ---
template <class T> DTC_FN T dtc_sqrt(T x) { return __builtin_elementwise_sqrt(x); }
template <class T> DTC_FN T dtc_rsqrt(T x) {
  return (T)(dtc_elem<T>)1 / __builtin_elementwise_sqrt(x);
} // 1.5 ulp
template <class T> DTC_FN T dtc_fma(T a, T b, T c) {
  if constexpr (dtc_is_float<T>)
    return __builtin_elementwise_fma(a, b, c);
  else
    return a * b + c;
}
template <class T> DTC_FN T dtc_floor(T x) {
  if constexpr (dtc_is_float<T>)
    return __builtin_elementwise_floor(x);
  else
    return x;
}
template <class T> DTC_FN T dtc_ceil(T x) {
  if constexpr (dtc_is_float<T>)
    return __builtin_elementwise_ceil(x);
  else
    return x;
}
template <class T> DTC_FN T dtc_trunc(T x) {
  if constexpr (dtc_is_float<T>)
    return __builtin_elementwise_trunc(x);
  else
    return x;
}
template <class T> DTC_FN T dtc_round(T x) {
  if constexpr (dtc_is_float<T>)
    return __builtin_elementwise_roundeven(x);
  else
    return x;
}

// --- building blocks of the f32 functions ---
#define DTC_F(value) ((T)(f32)(value))
#define DTC_D(value) ((D)(f64)(value))
// x to the nearest integer, as a float, for |x| < 2^22; and the same in the low bits of an integer.
template <class T> DTC_FN T dtc_nearest(T x, dtc_sint<T>& n) {
  const T shifted = x + DTC_F(0x1.8p23f);
  n = dtc_bitcast<dtc_sint<T>>(shifted) - (dtc_sint<T>)0x4b400000;
  return shifted - DTC_F(0x1.8p23f);
}
template <class T> DTC_FN T dtc_power_of_two(dtc_sint<T> n) { // -126 <= n <= 127
  return dtc_bitcast<T>((n + (dtc_sint<T>)127) << (dtc_sint<T>)23);
}
// x * 2^n, rounded once, for |n| <= 250; `k` is n as a float.
template <class T> DTC_FN T dtc_scale(T x, dtc_sint<T> n, T k) {
#ifdef __AVX512F__
  typedef float F __attribute__((vector_size(64)));
  if constexpr (dtc_type<T>::lanes == 16)
    return (T)__builtin_ia32_scalefps512_mask((F)x, (F)k, (F)x, (unsigned short)-1, 4);
  else if constexpr (dtc_type<T>::lanes > 16) {
    typedef Vec<f32, dtc_type<T>::lanes / 2> Half;
    T y;
    y.lo = dtc_scale<Half>(x.lo, n.lo, k.lo), y.hi = dtc_scale<Half>(x.hi, n.hi, k.hi);
    return y;
  } else
#endif
  {
    const dtc_sint<T> half = n >> (dtc_sint<T>)1;
    return x * dtc_power_of_two<T>(half) * dtc_power_of_two<T>(n - half);
  }
}
// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2.
template <class T> DTC_FN T dtc_exp_tail(T r) {
  T q = DTC_F(0x1.6d11b6p-10f);
  q = q * r + DTC_F(0x1.120c1ap-7f);
  q = q * r + DTC_F(0x1.555518p-5f);
  q = q * r + DTC_F(0x1.5554dcp-3f);
  return q * r + DTC_F(0.5f);
}
// x = n ln(2) + r. The high part has few bits: n times it is exact.
template <class T> DTC_FN T dtc_exp_reduce(T x, dtc_sint<T>& n, T& k) {
  k = dtc_nearest(x * DTC_F(1.44269504f), n);
  const T r = x - k * DTC_F(0x1.62e400p-1f);
  return r - k * DTC_F(0x1.7f7d1cp-20f);
}
template <class T> DTC_FN T dtc_limit(T x, f32 lo, f32 hi) { // keeps NaN
  x = dtc_select(dtc_gt(x, DTC_F(hi)), DTC_F(hi), x);
  return dtc_select(dtc_lt(x, DTC_F(lo)), DTC_F(lo), x);
}

// --- exponentials ---
template <class T> DTC_FN T dtc_exp(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_exp(x);
  else {
    dtc_sint<T> n;
    T k;
    const T r = dtc_exp_reduce(dtc_limit(x, -104.0f, 89.0f), n, k);
    return dtc_scale(r * r * dtc_exp_tail(r) + r + DTC_F(1), n, k);
  }
}
template <class T> DTC_FN T dtc_exp2(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_exp2(x);
  else {
    dtc_sint<T> n;
    const T limited = dtc_limit(x, -151.0f, 129.0f);
    const T k = dtc_nearest(limited, n), r = (limited - k) * DTC_F(0.693147180559945f);
    return dtc_scale(r * r * dtc_exp_tail(r) + r + DTC_F(1), n, k);
  }
}
// e^r - 1 for |r| <= ln(2)/2.
template <class T> DTC_FN T dtc_expm1_reduced(T r) {
  T q = DTC_F(0x1.a125aap-13f);
  q = q * r + DTC_F(0x1.6d43f4p-10f);
  q = q * r + DTC_F(0x1.1110e0p-7f);
  q = q * r + DTC_F(0x1.5554e8p-5f);
  q = q * r + DTC_F(0x1.555556p-3f);
  q = q * r + DTC_F(0.5f);
  return r * r * q + r;
}
template <class T> DTC_FN T dtc_expm1(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_expm1(x);
  else {
    dtc_sint<T> n;
    T k;
    const T r = dtc_exp_reduce(dtc_limit(x, -18.0f, 89.0f), n, k);
    const T p = dtc_expm1_reduced(r);
    // 2^n (p + 1) - 1, with half of 2^n, since n may be 128.
    const T t = dtc_power_of_two<T>(n - (dtc_sint<T>)1);
    const T y = (p * t + (t - DTC_F(0.5f))) * DTC_F(2);
    return dtc_select(dtc_eq(n, (dtc_sint<T>)0), dtc_select(dtc_eq(x, DTC_F(0)), x, p), y);
  }
}

// --- logarithms ---
// x = 2^e (1 + m) with m in [-1/3, 1/3]; e as a float. For normal x.
template <class T> DTC_FN T dtc_log_reduce(T x, T& e) {
  const dtc_sint<T> bits = dtc_bitcast<dtc_sint<T>>(x);
  const dtc_sint<T> exponent = (bits - (dtc_sint<T>)0x3f2aaaab) & (dtc_sint<T>)(i32)0xff800000;
  e = dtc_cast<f32>(exponent) * DTC_F(0x1p-23f);
  return dtc_bitcast<T>(bits - exponent) - DTC_F(1);
}
// log(1 + m) - m for m in [-1/3, 1/3].
template <class T> DTC_FN T dtc_log_tail(T m) {
  const T s = m * m;
  T r = DTC_F(-0x1.0ae000p-3f), t = DTC_F(0x1.208000p-3f);
  r = r * s + DTC_F(-0x1.f198b2p-4f);
  t = t * s + DTC_F(0x1.1e5740p-3f);
  r = r * s + DTC_F(-0x1.55b36cp-3f);
  t = t * s + DTC_F(0x1.99d8b2p-3f);
  r = r * s + DTC_F(-0x1.fffe02p-3f);
  r = t * m + r;
  r = r * m + DTC_F(0x1.5554fap-2f);
  r = r * m + DTC_F(-0.5f);
  return r * s;
}
template <class T> DTC_FN T dtc_log_edges(T x, T y) {
  y = dtc_select(dtc_eq(x, DTC_F(0)), -(T)dtc_infinity<f32>(), y);
  y = dtc_select(dtc_lt(x, DTC_F(0)), (T)dtc_quiet_nan<f32>(), y);
  return dtc_select(dtc_lt(x, (T)dtc_infinity<f32>()), y, x); // infinity and NaN
}
template <class T> DTC_FN T dtc_log_parts(T x, T& e) {
  const auto small = dtc_lt(x, DTC_F(0x1p-126f));
  const T m = dtc_log_reduce(dtc_select(small, x * DTC_F(0x1p23f), x), e);
  e = dtc_select(small, e - DTC_F(23), e);
  return m;
}
template <class T> DTC_FN T dtc_log(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_log(x);
  else {
    T e;
    const T m = dtc_log_parts(x, e);
    return dtc_log_edges(x, e * DTC_F(0.693147182f) + (dtc_log_tail(m) + m));
  }
}
template <class T> DTC_FN T dtc_log2(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_log2(x);
  else {
    T e;
    const T m = dtc_log_parts(x, e);
    // log2(e) = 1 + 0.4427: the leading term m is added exactly once.
    const T r = dtc_log_tail(m) + m;
    return dtc_log_edges(x, e + (r * DTC_F(0.44269504f) + r));
  }
}
template <class T> DTC_FN T dtc_log1p(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_log1p(x);
  else {
    // log(u) + c/u, where u = 1 + x rounded and c is what the rounding lost; for small x the tail of x
    // itself.
    const T u = DTC_F(1) + x;
    const T c = dtc_select(dtc_ge(u, DTC_F(2)), DTC_F(1) - (u - x), x - (u - DTC_F(1)));
    T e;
    const T m = dtc_log_reduce(u, e);
    const T near = dtc_log_tail(x) + x;
    const T far = e * DTC_F(0.693147182f) + (dtc_log_tail(m) + (m + c / u));
    const T y = dtc_select(dtc_lt(dtc_abs(x), DTC_F(0.33f)), near, far);
    return dtc_select(dtc_eq(x, DTC_F(0)), x, dtc_log_edges(u, y));
  }
}

// --- tanh ---
// tanh(a) = m / (m + 2) with m = exp(2 a) - 1, which is exact to its last place near 0 as well; 1 from 9.02
// on.
template <class T> DTC_FN T dtc_tanh(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_tanh(x);
  else {
    dtc_sint<T> n;
    T k;
    const T a = dtc_limit(dtc_abs(x), 0.0f, 10.0f), r = dtc_exp_reduce(a + a, n, k);
    const T p = dtc_expm1_reduced(r), t = dtc_power_of_two<T>(n), m = p * t + (t - DTC_F(1));
    return dtc_copysign(m / (m + DTC_F(2)), x);
  }
}

// --- in f64, whose precision compensates for every step: rounded to f32 once ---
template <class D> DTC_FN D dtc_exp_wide(D x) { // |x| <= 700
  const D shifted = x * DTC_D(1.4426950408889634) + DTC_D(0x1.8p52), n = shifted - DTC_D(0x1.8p52);
  const D r = (x - n * DTC_D(0x1.62e42fefap-1)) - n * DTC_D(0x1.cf79abc9e3b39p-40);
  D q = DTC_D(0x1.a11315adb7217p-16);
  q = q * r + DTC_D(0x1.a1516cd4832f8p-13);
  q = q * r + DTC_D(0x1.6c1685907ace8p-10);
  q = q * r + DTC_D(0x1.1110c638e3c1ep-7);
  q = q * r + DTC_D(0x1.5555555c862dep-5);
  q = q * r + DTC_D(0x1.5555556750ea0p-3);
  q = q * r + DTC_D(0.5);
  const D y = q * r * r + r + DTC_D(1);
  typedef dtc_sint<D> I;
  return dtc_bitcast<D>(dtc_bitcast<I>(y) + (dtc_bitcast<I>(shifted) << (I)52ll));
}
template <class D> DTC_FN D dtc_log2_wide(D x) { // x > 0 and normal
  typedef dtc_sint<D> I;
  const I bits = dtc_bitcast<I>(x),
          exponent = (bits - (I)0x3fe5555555555555ll) & (I)(i64)0xfff0000000000000ull;
  // The exponent as a number, exactly: small integers are in the low bits of 1.5 * 2^52.
  const D e = dtc_bitcast<D>((exponent >> (I)52ll) + (I)0x4338000000000000ll) - DTC_D(0x1.8p52);
  const D m = dtc_bitcast<D>(bits - exponent), s = (m - DTC_D(1)) / (m + DTC_D(1)), z = s * s;
  D q = DTC_D(0x1.5e3af68249425p-4);
  q = q * z + DTC_D(0x1.72be46e4ffadap-4);
  q = q * z + DTC_D(0x1.c7252825eaa80p-4);
  q = q * z + DTC_D(0x1.24923e9b3f973p-3);
  q = q * z + DTC_D(0x1.999999a2e50dap-3);
  q = q * z + DTC_D(0x1.5555555554abap-2);
  return e + (q * z * s + s) * DTC_D(2.8853900817779268);
}
template <class D> DTC_FN D dtc_atan_wide(D t) { // 0 <= t <= 1
  const D s = t * t;
  D q = DTC_D(-0x1.eae3fce3e9b57p-11);
  q = q * s + DTC_D(0x1.96cc733874da8p-8);
  q = q * s + DTC_D(-0x1.3b92d4977ae50p-6);
  q = q * s + DTC_D(0x1.39fa7ae12ac35p-5);
  q = q * s + DTC_D(-0x1.d7eaf8f924fc4p-5);
  q = q * s + DTC_D(0x1.2fd217ccc6a7ap-4);
  q = q * s + DTC_D(-0x1.72251c83739b9p-4);
  q = q * s + DTC_D(0x1.c6d94a4e392f4p-4);
  q = q * s + DTC_D(-0x1.249035356f79fp-3);
  q = q * s + DTC_D(0x1.99998c8c70e06p-3);
  q = q * s + DTC_D(-0x1.5555554e74b35p-2);
  return q * s * t + t;
}
template <class D> DTC_FN D dtc_asin_wide(D x) { // |x| <= 0.5
  const D s = x * x;
  D q = DTC_D(0x1.d06eddee004bep-6);
  q = q * s + DTC_D(0x1.17d722d86d4bep-10);
  q = q * s + DTC_D(0x1.144d1f0d0554dp-6);
  q = q * s + DTC_D(0x1.14eefea06d8d9p-6);
  q = q * s + DTC_D(0x1.6f347e4a44c5dp-6);
  q = q * s + DTC_D(0x1.f1beb9c867b18p-6);
  q = q * s + DTC_D(0x1.6db6f5e9d0b98p-5);
  q = q * s + DTC_D(0x1.333333133277ep-4);
  q = q * s + DTC_D(0x1.555555555ba9ep-3);
  return q * s * x + x;
}

// asin(a) is `inner` up to 0.5 and pi/2 - 2 * inner beyond (true), where inner = asin(sqrt((1 - a) / 2)); NaN
// past 1.
template <class D> DTC_FN dtc_bool<D> dtc_asin_half(D a, D& inner) {
  const auto far = dtc_gt(a, DTC_D(0.5));
  inner = dtc_asin_wide(dtc_select(far, dtc_sqrt((DTC_D(1) - a) * DTC_D(0.5)), a));
  return far;
}
template <class T> DTC_FN T dtc_asin(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_asin(x);
  else {
    typedef dtc_with<T, f64> D;
    D inner;
    const auto far = dtc_asin_half<D>(dtc_cast<f64>(dtc_abs(x)), inner);
    const D y = dtc_select(far, DTC_D(0x1.921fb54442d18p0) - DTC_D(2) * inner, inner);
    return dtc_copysign(dtc_cast<f32>(y), x);
  }
}
template <class T> DTC_FN T dtc_acos(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_acos(x);
  else {
    typedef dtc_with<T, f64> D;
    const D wide = dtc_cast<f64>(x);
    D inner;
    const auto far = dtc_asin_half<D>(dtc_abs(wide), inner);
    const auto negative = dtc_lt(wide, DTC_D(0));
    const D near = DTC_D(0x1.921fb54442d18p0) - dtc_select(negative, -inner, inner), twice = DTC_D(2) * inner;
    const D outer = dtc_select(negative, DTC_D(0x1.921fb54442d18p1) - twice, twice);
    return dtc_cast<f32>(dtc_select(far, outer, near));
  }
}
template <class T> DTC_FN T dtc_atan2(T y, T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_atan2(y, x);
  else {
    typedef dtc_with<T, f64> D;
    const D a = dtc_cast<f64>(dtc_abs(y)), b = dtc_cast<f64>(dtc_abs(x));
    const auto steep = dtc_gt(a, b);
    D t = dtc_select(steep, b, a) / dtc_select(steep, a, b);
    t = dtc_select(dtc_eq(a, b), dtc_select(dtc_eq(a, DTC_D(0)), DTC_D(0), DTC_D(1)), t); // 0/0, inf/inf
    D r = dtc_atan_wide(t);
    r = dtc_select(steep, DTC_D(0x1.921fb54442d18p0) - r, r);
    const auto left = dtc_ne(dtc_bits(x) >> (dtc_uint<T>)31u, (dtc_uint<T>)0u);
    r = dtc_select(left, DTC_D(0x1.921fb54442d18p1) - r, r);
    return dtc_select(dtc_is_nan(x) | dtc_is_nan(y), x + y, dtc_copysign(dtc_cast<f32>(r), y));
  }
}
template <class T> DTC_FN T dtc_atan(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_atan(x);
  else
    return dtc_atan2(x, DTC_F(1));
}
template <class T> DTC_FN T dtc_sinh(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_sinh(x);
  else {
    typedef dtc_with<T, f64> D;
    const D wide = dtc_cast<f64>(dtc_limit(x, -95.0f, 95.0f)), s = wide * wide;
    D q = DTC_D(0x1.b557c78eb1ae2p-26);
    q = q * s + DTC_D(0x1.71d208a299728p-19);
    q = q * s + DTC_D(0x1.a01a131097a98p-13);
    q = q * s + DTC_D(0x1.1111110857b52p-7);
    q = q * s + DTC_D(0x1.5555555558201p-3);
    const D e = dtc_exp_wide(wide), far = (e - DTC_D(1) / e) * DTC_D(0.5);
    const auto near = dtc_lt(dtc_abs(wide), DTC_D(1));
    return dtc_copysign(dtc_cast<f32>(dtc_select(near, q * s * wide + wide, far)), x);
  }
}
template <class T> DTC_FN T dtc_cosh(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_cosh(x);
  else {
    typedef dtc_with<T, f64> D;
    const D e = dtc_exp_wide(dtc_cast<f64>(dtc_limit(x, -95.0f, 95.0f)));
    return dtc_cast<f32>((e + DTC_D(1) / e) * DTC_D(0.5));
  }
}
// As C's powf: 1 for power 0 and for base 1, NaN for a negative base and a non-integer power.
template <class T> DTC_FN T dtc_pow(T x, T y) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_pow(x, y);
  else {
    typedef dtc_with<T, f64> D;
    const T a = dtc_abs(x), size = dtc_abs(y), infinity = (T)dtc_infinity<f32>();
    const D log = dtc_log2_wide<D>(dtc_cast<f64>(a));
    D power = dtc_cast<f64>(y) * dtc_select(dtc_eq(a, DTC_F(0)), -(D)dtc_infinity<f64>(),
                                            dtc_select(dtc_eq(a, infinity), (D)dtc_infinity<f64>(), log));
    power = dtc_select(dtc_gt(power, DTC_D(200)), DTC_D(200), power);
    power = dtc_select(dtc_lt(power, DTC_D(-200)), DTC_D(-200), power);
    T r = dtc_cast<f32>(dtc_exp_wide(power * DTC_D(0x1.62e42fefa39efp-1)));
    r = dtc_select(dtc_is_nan(x) | dtc_is_nan(y), x + y, r);
    r = dtc_select(dtc_eq(a, DTC_F(1)) & dtc_eq(size, infinity), DTC_F(1), r);
    // Every float from 2^24 on is even.
    const auto integral = dtc_eq(dtc_trunc(y), y), countable = dtc_lt(size, DTC_F(0x1p24f));
    const T half = dtc_select(countable, y, DTC_F(0)) * DTC_F(0.5f);
    const auto odd = integral & countable & dtc_ne(dtc_trunc(half), half);
    const auto negative = dtc_ne(dtc_bits(x) >> (dtc_uint<T>)31u, (dtc_uint<T>)0u);
    r = dtc_select(negative & odd, -r, r);
    r = dtc_select(dtc_lt(x, DTC_F(0)) & dtc_not(integral) & dtc_lt(a, infinity), (T)dtc_quiet_nan<f32>(), r);
    return dtc_select(dtc_eq(y, DTC_F(0)) | dtc_eq(x, DTC_F(1)), DTC_F(1), r);
  }
}

// --- trigonometry: in f64, whose products with a 33-bit part of pi/2 are exact up to 2^20 quarter turns ---
template <class T> DTC_FN bool dtc_any(T mask) {
  if constexpr (dtc_type<T>::lanes >= 8 && dtc_type<T>::lanes <= 64) // a bit per lane
    return __builtin_bit_cast(typename dtc_int_of<dtc_type<T>::lanes / 8>::U, mask) != 0;
  else if constexpr (dtc_is_vector<T>) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < dtc_type<T>::lanes; ++i) any |= mask[i];
    return any;
  } else
    return mask;
}
template <class T> struct dtc_turn {
  T sine, cosine;
  dtc_sint<T> quadrant;
};
template <class T> DTC_FN dtc_turn<T> dtc_sincos(T x) { // f64, |x| <= 1e6
  const T shifted = x * (T)0x1.45f306dc9c883p-1 + (T)0x1.8p52, n = shifted - (T)0x1.8p52;
  const T r = (x - n * (T)0x1.921fb544p0) - n * (T)0x1.0b4611a626331p-34, s = r * r;
  T sine = (T)-0x1.994eb3774cf24p-13;
  sine = sine * s + (T)0x1.1107605230bc4p-7;
  sine = sine * s + (T)-0x1.555545995a603p-3;
  sine = sine * s * r + r;
  T cosine = (T)0x1.99343027bf8c3p-16;
  cosine = cosine * s + (T)-0x1.6c087e89a359dp-10;
  cosine = cosine * s + (T)0x1.55553e1068f19p-5;
  cosine = cosine * s + (T)-0x1.ffffffd0c621cp-2;
  cosine = cosine * s + (T)1.0;
  return {sine, cosine, dtc_bitcast<dtc_sint<T>>(shifted)};
}
template <class T> DTC_FN T dtc_quarter(const dtc_turn<T>& t, dtc_sint<T> quadrant) {
  typedef dtc_sint<T> I;
  const T y = dtc_select(dtc_ne(quadrant & (I)(i64)1, (I)(i64)0), t.cosine, t.sine);
  return dtc_select(dtc_ne(quadrant & (I)(i64)2, (I)(i64)0), -y, y);
}
// Beyond 1e6 the C library's; a lane's value does not depend on its neighbors.
#define DTC_NEAR_OR_LIBRARY(name, x, near)                                                                   \
  const auto far = dtc_gt(dtc_abs(x), DTC_F(1e6f));                                                          \
  if (__builtin_expect(dtc_any(far), 0)) return dtc_select(far, dtc_lanes_##name(x), near);                  \
  return near;
template <class T> DTC_FN T dtc_sin(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_sin(x);
  else {
    const auto t = dtc_sincos(dtc_cast<f64>(x));
    const T y = dtc_select(dtc_eq(x, DTC_F(0)), x, dtc_cast<f32>(dtc_quarter(t, t.quadrant)));
    DTC_NEAR_OR_LIBRARY(sin, x, y)
  }
}
template <class T> DTC_FN T dtc_cos(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_cos(x);
  else {
    const auto t = dtc_sincos(dtc_cast<f64>(x));
    const T y = dtc_cast<f32>(dtc_quarter(t, t.quadrant + (decltype(t.quadrant))(i64)1));
    DTC_NEAR_OR_LIBRARY(cos, x, y)
  }
}
template <class T> DTC_FN T dtc_tan(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_tan(x);
  else {
    const auto t = dtc_sincos(dtc_cast<f64>(x));
    const auto ratio = dtc_quarter(t, t.quadrant) / dtc_quarter(t, t.quadrant + (decltype(t.quadrant))(i64)1);
    const T y = dtc_select(dtc_eq(x, DTC_F(0)), x, dtc_cast<f32>(ratio));
    DTC_NEAR_OR_LIBRARY(tan, x, y)
  }
}
