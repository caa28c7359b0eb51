// Device header, CPU and cuda-emu: erf and erfc. f32: inline, within the bounds of docs/math.md; f64: the C
// library's.

template <class T> DTC_FN T dtc_erf(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_erf(x);
  else {
    const T t = dtc_abs(x), s = x * x;
    T r = DTC_F(-1.72853470e-5f) * t + DTC_F(3.83197126e-4f);
    const T u = DTC_F(-3.88396438e-3f) * t + DTC_F(2.42546219e-2f);
    r = r * s + u;
    r = r * t + DTC_F(-1.06777877e-1f);
    r = r * t + DTC_F(-6.34846687e-1f);
    r = r * t + DTC_F(-1.28717512e-1f);
    r = r * t - t;
    const T large = dtc_copysign(DTC_F(1) - dtc_exp(r), x);
    T q = DTC_F(-5.96761703e-4f);
    q = q * s + DTC_F(4.99119423e-3f);
    q = q * s + DTC_F(-2.67681349e-2f);
    q = q * s + DTC_F(1.12819925e-1f);
    q = q * s + DTC_F(-3.76125336e-1f);
    q = q * s + DTC_F(1.28379166e-1f);
    const T y = dtc_select(dtc_gt(t, DTC_F(0.927734375f)), large, q * x + x);
    return dtc_select(dtc_is_nan(x), x, y);
  }
}

// erfc(a) = exp(-a * a) erfcx(a), and on each of 16 intervals erfcx is a polynomial of degree 5 in the
// distance from the interval's center, within 2^-23.5 (a minimax fit of the relative error, coefficients
// rounded to f32 from the lowest up). 1 + 1.4375 a, from 1 to 16, determines the interval by the low two bits
// of its exponent and the high two of its fraction. Rows: the centers (at the first interval 0, so that
// erfc(0) is 1), then the coefficients of degrees 0 to 5.
alignas(64) static const f32 dtc_erfcx_segments[7][16] = {
    {0x1.bd37a6p-1f, 0x1.37a6f4p+0f, 0x1.90b216p+0f, 0x1.e9bd38p+0f, 0x1.37a6f4p+1f, 0x1.90b216p+1f,
     0x1.e9bd38p+1f, 0x1.21642cp+2f, 0x1.642c86p+2f, 0x1.bd37a6p+2f, 0x1.0b2164p+3f, 0x1.37a6f4p+3f, 0,
     0x1.0b2164p-2f, 0x1.bd37a6p-2f, 0x1.37a6f4p-1f},
    {0x1.dd37eep-2f, 0x1.7fbddap-2f, 0x1.3eb2e8p-2f, 0x1.0f5e7ep-2f, 0x1.b9e232p-3f, 0x1.609a8cp-3f,
     0x1.24971ep-3f, 0x1.f36444p-4f, 0x1.98d74cp-4f, 0x1.48dd26p-4f, 0x1.12e252p-4f, 0x1.d819dap-5f, 0x1p+0f,
     0x1.865102p-1f, 0x1.4d2b06p-1f, 0x1.20bcc4p-1f},
    {-0x1.4583e2p-2f, -0x1.ba440ep-3f, -0x1.3b96acp-3f, -0x1.d4b6b8p-4f, -0x1.3e47a6p-4f, -0x1.9d427ap-5f,
     -0x1.1fdfcep-5f, -0x1.a66a1cp-6f, -0x1.1d0d8ap-6f, -0x1.72c108p-7f, -0x1.03c77ap-7f, -0x1.7fd000p-8f,
     -0x1.20dd6cp+0f, -0x1.761638p-1f, -0x1.2004cep-1f, -0x1.c47292p-2f},
    {0x1.844e54p-3f, 0x1.ca234ep-4f, 0x1.1ede84p-4f, 0x1.799cd8p-5f, 0x1.b34258p-6f, 0x1.d2e520p-7f,
     0x1.13b8e8p-7f, 0x1.5e1004p-8f, 0x1.87d254p-9f, 0x1.9dfd5cp-10f, 0x1.e7afeap-11f, 0x1.367410p-11f,
     0x1.fffa52p-1f, 0x1.24b8bap-1f, 0x1.9fea3ep-2f, 0x1.2e1916p-2f},
    {-0x1.a1c9e2p-4f, -0x1.b3b74cp-5f, -0x1.e5cb5ap-6f, -0x1.1eb80ap-6f, -0x1.1c5102p-7f, -0x1.fe38fep-9f,
     -0x1.018b60p-9f, -0x1.1c8e42p-10f, -0x1.09a7b0p-11f, -0x1.ca08dcp-13f, -0x1.c6be8ap-14f,
     -0x1.f3c2d8p-15f, -0x1.80910ep-1f, -0x1.8cf228p-2f, -0x1.077fccp-2f, -0x1.66230ep-3f},
    {0x1.a22cfep-5f, 0x1.84a64ap-6f, 0x1.83dbeep-7f, 0x1.9f0894p-8f, 0x1.6af560p-9f, 0x1.12c8b6p-10f,
     0x1.d77a7ep-12f, 0x1.cb70e0p-13f, 0x1.6a8fd6p-14f, 0x1.fed40ap-16f, 0x1.a906dap-17f, 0x1.94f1fep-18f,
     0x1.f24286p-2f, 0x1.e6a3a6p-3f, 0x1.25fcd6p-3f, 0x1.750b7ap-4f},
    {-0x1.81e0c2p-6f, -0x1.43321ap-7f, -0x1.2477d0p-8f, -0x1.1d185ap-9f, -0x1.b70330p-11f, -0x1.1b063ep-12f,
     -0x1.a4cd78p-14f, -0x1.68d51cp-15f, -0x1.dea30ep-17f, -0x1.15dab4p-18f, -0x1.87a70ep-20f,
     -0x1.424282p-21f, -0x1.d1bb4cp-3f, -0x1.100f7ap-3f, -0x1.315d76p-4f, -0x1.6e6f52p-5f},
};
// table[index % 16] per lane.
template <class T> DTC_FN T dtc_lookup16(const f32* table, dtc_uint<T> index) {
  constexpr int lanes = dtc_type<T>::lanes;
  if constexpr (!dtc_is_vector<T>) {
    return table[index & 15u];
  } else if constexpr (lanes > 16) {
    typedef Vec<f32, lanes / 2> Half;
    T y;
    y.lo = dtc_lookup16<Half>(table, index.lo), y.hi = dtc_lookup16<Half>(table, index.hi);
    return y;
  } else {
#ifdef __AVX512F__
    typedef float F16 __attribute__((vector_size(64)));
    typedef int I16 __attribute__((vector_size(64)));
    if constexpr (lanes == 16) return (T)__builtin_ia32_permvarsf512(*(const F16*)table, (I16)index);
#endif
#ifdef __AVX2__
    typedef float F8 __attribute__((vector_size(32)));
    typedef int I8 __attribute__((vector_size(32)));
    if constexpr (lanes == 8) {
      const T low = (T)__builtin_ia32_permvarsf256(*(const F8*)table, (I8)index);
      const T high = (T)__builtin_ia32_permvarsf256(*(const F8*)(table + 8), (I8)index);
      return dtc_select(dtc_ne(index & (dtc_uint<T>)8u, (dtc_uint<T>)0u), high, low);
    }
#endif
    T y;
    for (int i = 0; i < lanes; ++i) y[i] = table[index[i] & 15u];
    return y;
  }
}
// exp(-a * a), for 0 <= a <= 10.25, times `by`. The rounding error of the square is added to the remainder of
// the exponent's reduction, which may exceed ln(2)/2 slightly. Without fused multiply-adds the square is that
// of the upper half of a's digits, which is exact.
template <class T> DTC_FN T dtc_exp_square(T a, T by) {
#ifdef __FMA__
  const T square = a * a, rest = dtc_fma(a, a, -square);
#else
  const T upper = dtc_bitcast<T>(dtc_bits(a) & (dtc_uint<T>)0xfffff000u);
  const T square = upper * upper, rest = (a - upper) * (a + upper);
#endif
  dtc_sint<T> n;
  T k;
  const T r = dtc_exp_reduce(-square, n, k) - rest;
  return dtc_scale((r * r * dtc_exp_tail(r) + r) * by + by, n, k);
}
template <class T> DTC_FN T dtc_erfc(T x) {
  if constexpr (dtc_is_f64<T>)
    return dtc_lanes_erfc(x);
  else {
    const T a = dtc_limit(dtc_abs(x), 0.0f, 10.25f);
    const dtc_uint<T> segment = dtc_bits(DTC_F(1.4375f) * a + DTC_F(1)) >> (dtc_uint<T>)21u;
    const T u = a - dtc_lookup16<T>(dtc_erfcx_segments[0], segment);
    T q = dtc_lookup16<T>(dtc_erfcx_segments[6], segment);
    for (int i = 5; i > 0; --i) q = q * u + dtc_lookup16<T>(dtc_erfcx_segments[i], segment);
    const T tail = dtc_exp_square(a, q);
    return dtc_select(dtc_lt(x, DTC_F(0)), DTC_F(2) - tail, tail);
  }
}
