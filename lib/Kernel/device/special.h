// Device header: special functions and integers' bits. f32 is computed in f64 and rounded once (docs/math.md
// has the bounds); where the algorithm depends on the number, it is applied per lane, in a function of its
// own.
#ifdef __CUDACC__
#define DTC_FAR static __device__ __noinline__
#else
#define DTC_FAR static __attribute__((noinline))
#endif

// c[0] x^(N-1) + … + c[N-1]
template <class D, int N> DTC_FN D dtc_horner(const f64 (&c)[N], D x) {
  D q = (D)c[0];
#pragma unroll
  for (int i = 1; i < N; ++i) q = q * x + (D)c[i];
  return q;
}
#ifdef __CUDACC__
#define DTC_FAR1(name)                                                                                       \
  DTC_FN f32 name(f32 x) { return (f32)name##_far(x); }                                                      \
  DTC_FN f64 name(f64 x) { return name##_far(x); }
#define DTC_FAR2(name)                                                                                       \
  DTC_FN f32 name(f32 a, f32 b) { return (f32)name##_far(a, b); }                                            \
  DTC_FN f64 name(f64 a, f64 b) { return name##_far(a, b); }
#else
#define DTC_FAR1(name)                                                                                       \
  template <class T> DTC_FN T name(T x) {                                                                    \
    if constexpr (dtc_is_vector<T>) {                                                                        \
      T y;                                                                                                   \
      for (int i = 0; i < dtc_type<T>::lanes; ++i) y[i] = (dtc_elem<T>)name##_far(x[i]);                     \
      return y;                                                                                              \
    } else                                                                                                   \
      return (T)name##_far(x);                                                                               \
  }
#define DTC_FAR2(name)                                                                                       \
  template <class T> DTC_FN T name(T a, T b) {                                                               \
    if constexpr (dtc_is_vector<T>) {                                                                        \
      T y;                                                                                                   \
      for (int i = 0; i < dtc_type<T>::lanes; ++i) y[i] = (dtc_elem<T>)name##_far(a[i], b[i]);               \
      return y;                                                                                              \
    } else                                                                                                   \
      return (T)name##_far(a, b);                                                                            \
  }
#endif

#ifndef __CUDACC__ // CUDA has these itself (cuda.h)
extern "C" {
f32 asinhf(f32);
f32 acoshf(f32);
f32 atanhf(f32);
f32 cbrtf(f32);
f64 asinh(f64);
f64 acosh(f64);
f64 atanh(f64);
f64 cbrt(f64);
}
DTC_LANES1(asinh)
DTC_LANES1(acosh)
DTC_LANES1(atanh)
DTC_LANES1(cbrt)
template <class D> DTC_FN D dtc_log_wide(D x) { // x > 0 and normal
  return dtc_log2_wide(x) * (D)0x1.62e42fefa39efp-1;
}
template <class T> DTC_FN T dtc_asinh(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_asinh(x);
  else {
    typedef dtc_with<T, f64> D;
    const D a = dtc_cast<f64>(dtc_abs(x)), s = a * a;
    const D near = a + a * s * (s * DTC_D(0.075) - DTC_D(0x1.5555555555555p-3));
    const D y = dtc_select(dtc_lt(a, DTC_D(0.005)), near, dtc_log_wide(a + dtc_sqrt(s + DTC_D(1))));
    // x + x instead of x: LLVM 19 folds x wrongly into the rounding to bf16.
    return dtc_select(dtc_is_finite(x), dtc_copysign(dtc_cast<f32>(y), x), x + x);
  }
}
template <class T> DTC_FN T dtc_acosh(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_acosh(x);
  else {
    typedef dtc_with<T, f64> D;
    const D a = dtc_cast<f64>(x);
    const T y = dtc_cast<f32>(dtc_log_wide(a + dtc_sqrt((a - DTC_D(1)) * (a + DTC_D(1)))));
    return dtc_select(dtc_lt(x, DTC_F(1)), (T)dtc_quiet_nan<f32>(),
                      dtc_select(dtc_lt(x, (T)dtc_infinity<f32>()), y, x));
  }
}
template <class T> DTC_FN T dtc_atanh(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_atanh(x);
  else {
    typedef dtc_with<T, f64> D;
    const T size = dtc_abs(x);
    const D a = dtc_cast<f64>(size), s = a * a;
    const D near = a + a * s * (s * DTC_D(0.2) + DTC_D(0x1.5555555555555p-2));
    const D far = DTC_D(0.5) * dtc_log_wide((DTC_D(1) + a) / (DTC_D(1) - a));
    T y = dtc_cast<f32>(dtc_select(dtc_lt(a, DTC_D(0.005)), near, far));
    y = dtc_select(dtc_eq(size, DTC_F(1)), (T)dtc_infinity<f32>(), y);
    y = dtc_select(dtc_gt(size, DTC_F(1)), (T)dtc_quiet_nan<f32>(), y);
    return dtc_select(dtc_is_nan(x), x, dtc_copysign(y, x));
  }
}
template <class T> DTC_FN T dtc_cbrt(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_cbrt(x);
  else {
    const auto a = dtc_cast<f64>(dtc_abs(x));
    typedef dtc_with<T, f64> D;
    const T y = dtc_cast<f32>(dtc_exp_wide(dtc_log2_wide(a) * DTC_D(0x1.62e42fefa39efp-1 / 3)));
    const auto plain = dtc_is_finite(x) & dtc_ne(x, DTC_F(0));
    return dtc_select(plain, dtc_copysign(y, x), x + x); // as in asinh
  }
}

// erf⁻¹(x) / x by w = -log(1 - x²): polynomials in w and, in the tails, in its square root; fitted at
// Chebyshev's points, relative error 6e-10. One step of Halley's method makes it exact in f64.
template <class D> DTC_FN D dtc_erf_inv_guess(D x) { // |x| < 1
  const f64 near[] = {0x1.c6d49ac735f6ap-44,  0x1.39958635fa94ap-40, -0x1.38fa3d1797c8dp-36,
                      -0x1.674943d88b9d0p-37, 0x1.30db5e6f80fbap-30, -0x1.820b7eefbee73p-28,
                      -0x1.968704a1ea82ep-26, 0x1.e3cb9ddb96fdap-22, -0x1.d5401c91e1770p-20,
                      -0x1.aabb5f855349fp-17, 0x1.9912d1720377dp-13, -0x1.b666469e62c82p-11,
                      -0x1.780def5523f98p-8,  0x1.eedbebd3576a1p-3,  0x1.9fa072ed74f80p+0};
  const f64 far[] = {-0x1.55dd4c826e582p-26, 0x1.6ed8e7b040d7fp-23,  -0x1.02ba8e38a7840p-21,
                     0x1.74b59f6bd0000p-26,  0x1.ac7014955b300p-19,  -0x1.492632d106600p-17,
                     0x1.3b7c367213a00p-16,  -0x1.08eb8925bd000p-15, 0x1.d053804128000p-15,
                     -0x1.f07daf94a8000p-14, 0x1.50bd70e7c8000p-12,  -0x1.c78a1feb40000p-11,
                     0x1.4a40a7fee0000p-10,  0x1.026e26383fae0p+0,   0x1.eb7e0916cf050p+1};
  const D w = -dtc_log_wide((DTC_D(1) - x) * (DTC_D(1) + x));
  return x * dtc_select(dtc_lt(w, DTC_D(6.25)), dtc_horner(near, w - DTC_D(3)),
                        dtc_horner(far, dtc_sqrt(w) - DTC_D(4)));
}
DTC_FAR f64 dtc_erf_inv_far(f64 x) {
  const f64 a = dtc_abs(x);
  if (!(a < 1)) return a == 1 ? x * dtc_infinity<f64>() : dtc_quiet_nan<f64>();
  if (a == 0) return x;
  const f64 y = dtc_erf_inv_guess(a);
  const f64 off = a < 0.5 ? dtc_erf(y) - a : (1 - a) - dtc_erfc(y);
  const f64 step = off * 0x1.c5bf891b4ef6bp-1 * dtc_exp(y * y);
  return dtc_copysign(y - step / (1 + y * step), x);
}
template <class T> DTC_FN T dtc_erf_inv(T x) {
  if constexpr (dtc_is_f64<T>) {
    if constexpr (dtc_is_vector<T>) {
      T y;
      for (int i = 0; i < dtc_type<T>::lanes; ++i) y[i] = dtc_erf_inv_far(x[i]);
      return y;
    } else
      return dtc_erf_inv_far(x);
  } else {
    const T y = dtc_cast<f32>(dtc_erf_inv_guess(dtc_cast<f64>(x))), size = dtc_abs(x);
    const T edge = dtc_select(dtc_eq(size, DTC_F(1)), x * (T)dtc_infinity<f32>(), (T)dtc_quiet_nan<f32>());
    return dtc_select(dtc_eq(x, DTC_F(0)), x, dtc_select(dtc_lt(size, DTC_F(1)), y, edge));
  }
}

// log |Γ(x)|: near 1 and 2 by the series at 2, beyond 8 by Stirling's, between them and below by x Γ(x) = Γ(x
// + 1), for negative numbers by reflection.
DTC_FAR f64 dtc_lgamma_far(f64 x) {
  const f64 series[] = {0x1.3b15d2b2fc10cp-31,  -0x1.47b1679258d0ep-30, 0x1.555a877ffd2c3p-29,
                        -0x1.6434a8447aeadp-28, 0x1.7469daccfadcdp-27,  -0x1.862c734df3eacp-26,
                        0x1.99b93c2070b10p-25,  -0x1.af5a6cbbf8a98p-24, 0x1.c76bbb3f07a4ep-23,
                        -0x1.e2600d93cfd2fp-22, 0x1.0064cdeb22f0fp-20,  -0x1.11b2eb7679541p-19,
                        0x1.2597a39f34aabp-18,  -0x1.3cbc963ce2242p-17, 0x1.580dcee66eb03p-16,
                        -0x1.78de5bd7c81efp-15, 0x1.a127b0f17d65ap-14,  -0x1.d3fd4c76d2fc7p-13,
                        0x1.0b36af86396e9p-11,  -0x1.38ac5c2bf8e08p-10, 0x1.7add6eadb6c30p-9,
                        -0x1.e404fc218f5f2p-8,  0x1.51322ac7d8483p-6,   -0x1.13e001a557607p-4,
                        0x1.4a34cc4a60fa6p-2,   0x1.b0ee6072093cep-2,   0}; // the last: 1 - Euler's constant
  const f64 stirling[] = {1.0 / 156,  -691.0 / 360360, 1.0 / 1188, -1.0 / 1680,
                          1.0 / 1260, -1.0 / 360,      1.0 / 12};
  if (x != x) return x;
  f64 a = dtc_abs(x), reflected = 0;
  if (a == dtc_infinity<f64>()) return a;
  if (x < 0.5) {
    if (x <= 0 && dtc_floor(x) == x) return dtc_infinity<f64>();
    if (x < 0) { // log |Γ(x)| = log(π / |x sin(πx)|) - log Γ(|x|)
      f64 part = a - dtc_floor(a);
      if (part > 0.5) part = 1 - part;
      reflected = dtc_log(0x1.921fb54442d18p+1 / (a * dtc_sin(part * 0x1.921fb54442d18p+1)));
    }
  }
  f64 y;
  if (a >= 8) {
    y = (a - 0.5) * dtc_log(a) - a + 0x1.d67f1c864beb5p-1 + dtc_horner(stirling, 1 / (a * a)) / a;
  } else {
    f64 product = 1, t = a, more = 0;
    for (; t >= 2.5; t -= 1) product *= t - 1;
    if (t < 0.5) {
      more = -dtc_log(t);
      t += 1;
    }
    y = t < 1.5 ? dtc_horner(series, t - 1) - dtc_log(t) + more : dtc_horner(series, t - 2);
    if (product != 1) y += dtc_log(product);
  }
  return x < 0 ? reflected - y : y;
}
DTC_FAR1(dtc_lgamma)
#endif

// The derivative of log Γ: up to 10 by ψ(x + 1) = ψ(x) + 1/x, from there on the asymptotic series.
DTC_FAR f64 dtc_digamma_far(f64 x) {
  const f64 series[] = {-3617.0 / 8160, 1.0 / 12,  -691.0 / 32760, 1.0 / 132,
                        -1.0 / 240,     1.0 / 252, -1.0 / 120,     1.0 / 12};
  if (x == dtc_infinity<f64>()) return x;
  if (x <= 0 && dtc_floor(x) == x) return dtc_quiet_nan<f64>();
  f64 y = 0, a = x;
  if (x < 0) {
    y = -0x1.921fb54442d18p+1 / dtc_tan((x - dtc_round(x)) * 0x1.921fb54442d18p+1);
    a = 1 - x;
  }
  for (; a < 10; a += 1) y -= 1 / a;
  const f64 s = 1 / (a * a);
  return y + (dtc_log(a) - 0.5 / a - s * dtc_horner(series, s));
}
DTC_FAR1(dtc_digamma)

// Σ (q + i)^-s for s > 1, q > 0: ten terms, and Euler and Maclaurin's formula for the rest.
DTC_FAR f64 dtc_zeta_sum(f64 s, f64 q) {
  const f64 bernoulli[] = {1.0 / 12,
                           -1.0 / 720,
                           1.0 / 30240,
                           -1.0 / 1209600,
                           1.0 / 47900160,
                           -691.0 / 1307674368000,
                           1.0 / 74724249600,
                           -3617.0 / 10670622842880000,
                           43867.0 / 5109094217170944000};
  if (q == dtc_infinity<f64>()) return 0;
  f64 sum = 0, a = q;
  for (int i = 0; i < 10; ++i, a += 1) sum += dtc_pow(a, -s);
  const f64 last = dtc_pow(a, -s);
  if (last == 0) return sum; // its factors below may be infinite
  sum += last * (a / (s - 1) + 0.5);
  f64 term = last * s / a;
  for (int k = 0; k < 9; ++k) {
    sum += bernoulli[k] * term;
    term *= (s + (2 * k + 1)) / a * ((s + (2 * k + 2)) / a);
  }
  return sum;
}
// Hurwitz's zeta function. q <= 0: poles at integers (infinite for even s, else NaN); between them s must be
// an integer, and the terms of negative q + i are the first ones of another such sum.
DTC_FAR f64 dtc_zeta_far(f64 s, f64 q) {
  if (!(s >= 1) || q != q) return dtc_quiet_nan<f64>();
  if (s == 1) return dtc_infinity<f64>();
  if (q > 0) return dtc_zeta_sum(s, q);
  const bool even = dtc_floor(s / 2) * 2 == s;
  if (dtc_floor(q) == q) return even ? dtc_infinity<f64>() : dtc_quiet_nan<f64>();
  if (dtc_floor(s) != s) return dtc_quiet_nan<f64>();
  const f64 up = q - dtc_floor(q), down = dtc_ceil(q) - q; // next to 0 on either side
  const f64 above = dtc_zeta_sum(s, up), below = dtc_zeta_sum(s, down), beyond = dtc_zeta_sum(s, 1 - q);
  if (even) return above + (below - beyond);
  return below == dtc_infinity<f64>() ? (up < down ? above : -below) : (above - below) + beyond;
}
DTC_FAR2(dtc_zeta)
// The n-th derivative of digamma, (-1)^(n+1) n! ζ(n + 1, x).
DTC_FAR f64 dtc_polygamma_far(f64 n, f64 x) {
  if (n == 0) return dtc_digamma_far(x);
  if (!(n > 0) || dtc_floor(n) != n) return dtc_quiet_nan<f64>();
  f64 factorial = 1;
  for (f64 i = 2; i <= n && i <= 171; i += 1) factorial *= i;
  const f64 y = factorial * dtc_zeta_far(n + 1, x);
  return dtc_floor(n / 2) * 2 == n ? -y : y;
}
DTC_FAR2(dtc_polygamma)

// exp(-|x|) I_v(x), v = 0 or 1: up to 20 the power series, whose terms are all positive; beyond, the
// asymptotic one.
DTC_FAR f64 dtc_bessel_far(f64 x, int v) {
  const f64 a = dtc_abs(x), square = a * a / 4;
  if (a == dtc_infinity<f64>()) return 0;
  f64 term = 1, sum = 1;
  if (a <= 20) {
    if (v) term = sum = a / 2;
    for (f64 k = 1; k < 80 && term > sum * 0x1p-54; k += 1) {
      term *= square / (k * (k + v));
      sum += term;
    }
    return sum * dtc_exp(-a);
  }
  for (f64 k = 1; k < 40; k += 1) {
    term *= ((2 * k - 1) * (2 * k - 1) - 4 * v) / (8 * k * a);
    sum += term;
    if (dtc_abs(term) < 0x1p-54) break;
  }
  return sum * dtc_rsqrt(a) * 0x1.9884533d43651p-2;
}
DTC_FN f64 dtc_bessel_i0e_far(f64 x) { return dtc_bessel_far(x, 0); }
DTC_FN f64 dtc_bessel_i1e_far(f64 x) { return dtc_copysign(dtc_bessel_far(x, 1), x); }
DTC_FAR1(dtc_bessel_i0e)
DTC_FAR1(dtc_bessel_i1e)

// --- bits of integers ---
template <class T> DTC_FN T dtc_popcnt(T x) {
  typedef dtc_uint<T> U;
  typedef dtc_elem<U> E;
  constexpr int bits = sizeof(E) * 8;
  const E all = (E) ~(E)0; // 0x55…, 0x33…, 0x0f… of this width
  U v = (U)x;
  v = (U)(v - ((v >> (U)(E)1) & (U)(E)(all / 3)));
  v = (U)((v & (U)(E)(all / 5)) + ((v >> (U)(E)2) & (U)(E)(all / 5)));
  v = (U)((v + (v >> (U)(E)4)) & (U)(E)(all / 17));
  if constexpr (bits >= 16) v = (U)(v + (v >> (U)(E)8));
  if constexpr (bits >= 32) v = (U)(v + (v >> (U)(E)16));
  if constexpr (bits >= 64) v = (U)(v + (v >> (U)(E)(bits / 2)));
  return (T)(U)(v & (U)(E)0x7f);
}
template <class T> DTC_FN T dtc_clz(T x) {
  typedef dtc_uint<T> U;
  typedef dtc_elem<U> E;
  constexpr int bits = sizeof(E) * 8;
  U v = (U)x;
#pragma unroll
  for (int by = 1; by < bits; by *= 2) v = (U)(v | (v >> (U)(E)by));
  return (T)(U)((U)(E)bits - dtc_popcnt(v));
}
