// Device header: the ops built on core.h and on the functions of math.h (CUDA: cuda.h).

// --- integer division ---
template <class T> DTC_FN T dtc_div_int(T a, T b, bool remainder) {
  const T zero = (T)(dtc_elem<T>)0, one = (T)(dtc_elem<T>)1;
  const auto none = dtc_eq(b, zero);
  if constexpr (dtc_is_signed<T>) {
    const auto minus = dtc_eq(b, (T)(dtc_elem<T>)-1); // INT_MIN / -1 traps on x86
    const T by = dtc_select(none, one, dtc_select(minus, one, b));
    if (remainder) return dtc_select(none, zero, dtc_select(minus, zero, (T)(a % by)));
    return dtc_select(none, zero, dtc_select(minus, dtc_neg(a), (T)(a / by)));
  } else {
    const T by = dtc_select(none, one, b);
    return dtc_select(none, zero, remainder ? (T)(a % by) : (T)(a / by));
  }
}
template <class T> DTC_FN T dtc_div(T a, T b) { // truncates
  if constexpr (dtc_is_float<T>)
    return a / b;
  else
    return dtc_div_int(a, b, false);
}
template <class T> DTC_FN T dtc_rem(T a, T b) { // the dividend's sign
  if constexpr (dtc_is_float<T>)
    return dtc_fmod(a, b);
  else
    return dtc_div_int(a, b, true);
}
template <class T> DTC_FN T dtc_mod(T a, T b) { // the divisor's sign
  const T zero = (T)(dtc_elem<T>)0;
  const T r = dtc_rem(a, b);
  if constexpr (dtc_is_float<T> || dtc_is_signed<T>) {
    const auto wrong = dtc_lt(r, zero) ^ dtc_lt(b, zero);
    const T m = dtc_select(dtc_ne(r, zero) & wrong, dtc_add(r, b), r);
    if constexpr (dtc_is_float<T>)
      return dtc_select(dtc_eq(r, zero), dtc_copysign(zero, b), m);
    else
      return m;
  } else {
    return r;
  }
}
// For floats through the remainder, which is exact: floor(a / b) may be one too large, where the quotient is
// rounded up.
template <class T> DTC_FN T dtc_floor_div_float(T a, T b) {
  const T zero = (T)(dtc_elem<T>)0, one = (T)(dtc_elem<T>)1, r = dtc_rem(a, b), quotient = a / b;
  const auto below = dtc_ne(r, zero) & (dtc_lt(r, zero) ^ dtc_lt(b, zero));
  T q = (a - r) / b;
  q = dtc_select(below, q - one, q);
  const T down = dtc_floor(q);
  T y = dtc_select(dtc_gt(q - down, (T)(dtc_elem<T>)0.5), down + one, down);
  y = dtc_select(dtc_eq(q, zero), dtc_copysign(zero, quotient), y);
  return dtc_select(dtc_eq(b, zero), quotient, y);
}
template <class T> DTC_FN T dtc_floor_div(T a, T b) {
  if constexpr (dtc_is_float<T>)
    return dtc_floor_div_float(a, b);
  else if constexpr (dtc_is_signed<T>) {
    const T zero = (T)(dtc_elem<T>)0, q = dtc_div(a, b), r = dtc_rem(a, b);
    return dtc_select(dtc_ne(r, zero) & (dtc_lt(r, zero) ^ dtc_lt(b, zero)), dtc_sub(q, (T)(dtc_elem<T>)1),
                      q);
  } else
    return dtc_div(a, b);
}

#ifdef __CUDACC__ // of integers; of floats in cuda.h
template <class T> DTC_FN T dtc_fma(T a, T b, T c) { return dtc_add(dtc_mul(a, b), c); }
#endif

// --- activations and similar functions, over the functions of math.h or CUDA's own ---
template <class T> DTC_FN T dtc_reciprocal(T x) { return (T)(dtc_elem<T>)1 / x; }
template <class T> DTC_FN T dtc_relu(T x) {
  return dtc_select(dtc_lt(x, (T)(dtc_elem<T>)0), (T)(dtc_elem<T>)0, x);
}
template <class T> DTC_FN T dtc_leaky_relu(T x, dtc_elem<T> slope) {
  return dtc_select(dtc_lt(x, (T)(dtc_elem<T>)0), x * (T)slope, x);
}
template <class T> DTC_FN T dtc_sigmoid(T x) {
  const T one = (T)(dtc_elem<T>)1, e = dtc_exp(-dtc_abs(x)); // never overflows
  return dtc_select(dtc_lt(x, (T)(dtc_elem<T>)0), e, one) / (one + e);
}
template <class T> DTC_FN T dtc_silu(T x) { return x * dtc_sigmoid(x); }
template <class T> DTC_FN T dtc_softplus(T x, dtc_elem<T> beta = 1) {
  const T y = x * (T)beta;
  const T big = dtc_max(y, (T)(dtc_elem<T>)0);
  return (big + dtc_log1p(dtc_exp(-dtc_abs(y)))) / (T)beta;
}
template <class T> DTC_FN T dtc_gelu(T x) {
  return (T)(dtc_elem<T>)0.5 * x * ((T)(dtc_elem<T>)1 + dtc_erf(x * (T)(dtc_elem<T>)0.70710678118654752440));
}
template <class T> DTC_FN T dtc_gelu_tanh(T x) {
  const T inner = (T)(dtc_elem<T>)0.79788456080286535588 * (x + (T)(dtc_elem<T>)0.044715 * x * x * x);
  return (T)(dtc_elem<T>)0.5 * x * ((T)(dtc_elem<T>)1 + dtc_tanh(inner));
}

// log(exp(a) + exp(b)); -inf is the identity.
template <class T> DTC_FN T dtc_log_add_exp(T a, T b) {
  const T highest = dtc_max(a, b), distance = -dtc_abs(a - b);
  const T sum = highest + dtc_log1p(dtc_exp(distance));
  return dtc_select(dtc_is_inf(highest), highest, sum);
}

#ifndef __CUDACC__
template <class I, I... Lane> struct dtc_counted {
  template <class V> static constexpr V make() { return V{(dtc_elem<V>)Lane...}; }
};
// 0, 1, 2, … in the lanes.
template <class V> DTC_FN V dtc_iota() {
  return __make_integer_seq<dtc_counted, int, dtc_type<V>::lanes>::template make<V>();
}
#endif

// --- random numbers: Philox4x32-10 (lib/Ops/elementwise/Random.cpp defines the streams) ---
template <class T> struct dtc_words {
  dtc_with<T, u32> w0, w1, w2, w3;
};
template <class T> DTC_FN dtc_with<T, u32> dtc_high_half(T x) { return dtc_cast<u32>(x >> (T)32ull); }
template <class T> DTC_FN dtc_words<T> dtc_philox(T block, T key, T upper) {
  if constexpr (dtc_is_vector<T>) { // in 64-bit lanes whose upper halves are ignored
    const T low = (T)0xffffffffull;
    T c0 = block, c1 = block >> (T)32ull, c2 = upper, c3 = upper >> (T)32ull, k0 = key, k1 = key >> (T)32ull;
    for (int round = 0; round < 10; ++round) {
      const T p0 = (c0 & low) * (T)0xD2511F53ull, p1 = (c2 & low) * (T)0xCD9E8D57ull;
      c0 = (p1 >> (T)32ull) ^ c1 ^ k0;
      c1 = p1;
      c2 = (p0 >> (T)32ull) ^ c3 ^ k1;
      c3 = p0;
      k0 = k0 + (T)0x9E3779B9ull;
      k1 = k1 + (T)0xBB67AE85ull;
    }
    return {dtc_cast<u32>(c0), dtc_cast<u32>(c1), dtc_cast<u32>(c2), dtc_cast<u32>(c3)};
  } else {
    u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = (u32)upper, c3 = (u32)(upper >> 32);
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    for (int round = 0; round < 10; ++round) {
      const u64 p0 = (u64)c0 * 0xD2511F53u, p1 = (u64)c2 * 0xCD9E8D57u;
      c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
      c1 = (u32)p1;
      c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
      c3 = (u32)p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {c0, c1, c2, c3};
  }
}
// Word i % 4 of block i / 4.
template <class T> DTC_FN dtc_with<T, u32> dtc_any_words(T i, T key, T upper) {
  typedef dtc_with<T, u32> U;
  const dtc_words<T> w = dtc_philox(i >> (T)2ull, key, upper);
  const U at = dtc_cast<u32>(i);
  const auto odd = dtc_ne(at & (U)1u, (U)0u), second = dtc_ne(at & (U)2u, (U)0u);
  return dtc_select(second, dtc_select(odd, w.w3, w.w2), dtc_select(odd, w.w1, w.w0));
}
#ifndef __CUDACC__
// Lanes that hold consecutive elements from a multiple of 4 on share their blocks, four words each.
template <int N> DTC_FN bool dtc_in_blocks(Vec<u64, N> i) {
  return (i[0] & 3) == 0 && !dtc_any(dtc_ne(i - (Vec<u64, N>)(u64)i[0], dtc_iota<Vec<u64, N>>()));
}
template <class I, I... Lane> struct dtc_joined { // one after the other
  template <class W> static __attribute__((always_inline)) auto of(W a, W b) {
    return __builtin_shufflevector(a, b, Lane...);
  }
};
template <class I, I... Lane> struct dtc_dealt { // of four quarters in turn
  template <class W> static __attribute__((always_inline)) auto of(W a, W b) {
    return __builtin_shufflevector(a, b, (Lane % 4 * ((int)sizeof...(Lane) / 4) + Lane / 4)...);
  }
};
template <int N> DTC_FN Vec<u32, N> dtc_block_words(u64 first, u64 key, u64 upper) {
  typedef Vec<u64, N / 4> B;
  typedef __make_integer_seq<dtc_joined, int, N / 2> Joined;
  const dtc_words<B> w = dtc_philox((B)(first >> 2) + dtc_iota<B>(), (B)key, (B)upper);
  return __make_integer_seq<dtc_dealt, int, N>::of(Joined::of(w.w0, w.w1), Joined::of(w.w2, w.w3));
}
#endif
// All u64: the element's index in the global tensor, seed[0], seed[1].
template <class T> DTC_FN T dtc_random32(T i, T key, T upper) {
#ifndef __CUDACC__
  if constexpr (dtc_type<T>::lanes >= 8 && dtc_type<T>::lanes <= 64)
    if (dtc_in_blocks<dtc_type<T>::lanes>(i)) // key and upper are scalars
      return dtc_cast<u64>(dtc_block_words<dtc_type<T>::lanes>(i[0], key[0], upper[0]));
#endif
  return dtc_cast<u64>(dtc_any_words(i, key, upper));
}
template <class T> DTC_FN T dtc_random64(T i, T key, T upper) {
  typedef dtc_with<T, u32> U;
  const dtc_words<T> w = dtc_philox(i >> (T)1ull, key, upper);
  const auto odd = dtc_ne(dtc_cast<u32>(i) & (U)1u, (U)0u);
  return dtc_cast<u64>(dtc_select(odd, w.w2, w.w0)) |
         (dtc_cast<u64>(dtc_select(odd, w.w3, w.w1)) << (T)32ull);
}
// Box and Muller: `odd` takes the sine. Words of 32 bits for f32, of 64 for f64.
template <class T> DTC_FN T dtc_box_muller(dtc_uint<T> radius, dtc_uint<T> angle, dtc_bool<T> odd) {
  typedef dtc_elem<T> E;
  typedef dtc_elem<dtc_uint<T>> W;
  typedef dtc_uint<T> U;
  constexpr int bits = sizeof(E) * 8;
  constexpr W top = (W)1 << (bits - 1);
  constexpr E unit = (E)0.5 / (E)top;
  const auto low = dtc_lt(radius, (U)top);
  const T x = (dtc_cast<E>(dtc_select(low, radius, ~radius)) + (T)(E)0.5) * (T)unit;
  const T log = dtc_select(low, dtc_log(x), dtc_log1p(-x));
  const U near = angle + (U)(W)(top >> 2);
  const U quarter = (near >> (U)(W)(bits - 2)) + dtc_select(odd, (U)(W)3, (U)(W)0);
  const T turn = dtc_cast<E>((dtc_sint<T>)(angle - ((near >> (U)(W)(bits - 2)) << (U)(W)(bits - 2)))) *
                 (T)(E)(6.283185307179586477 * (f64)unit);
  const auto sine = dtc_ne(quarter & (U)(W)1, (U)(W)0);
  const T y = dtc_select(sine, dtc_sin(turn), dtc_cos(turn));
  const auto negative = dtc_ne((quarter + (U)(W)1) & (U)(W)2, (U)(W)0); // quarters 1 and 2
  return dtc_sqrt((T)(E)-2 * log) * dtc_select(negative, -y, y);
}
template <class T, class I> DTC_FN T dtc_random_normal(T deviation, I i, I key, I upper) {
  typedef dtc_with<T, u32> U;
  const auto odd = dtc_ne(dtc_cast<u32>(i) & (U)1u, (U)0u);
  if constexpr (dtc_is_f64<T>) {
    const dtc_words<I> w = dtc_philox(i >> (I)1ull, key, upper);
    return deviation * dtc_box_muller<T>(dtc_cast<u64>(w.w0) | (dtc_cast<u64>(w.w1) << (I)32ull),
                                         dtc_cast<u64>(w.w2) | (dtc_cast<u64>(w.w3) << (I)32ull), odd);
  } else {
    const dtc_words<I> w = dtc_philox(i >> (I)2ull, key, upper);
    const auto second = dtc_ne(dtc_cast<u32>(i) & (U)2u, (U)0u);
    return deviation * dtc_box_muller<T>(dtc_select(second, w.w2, w.w0), dtc_select(second, w.w3, w.w1), odd);
  }
}

// --- narrow floats by bit operations; rounding to nearest, ties to even ---
// f32 -> Exponent/Mantissa bits. FiniteOnly: E4M3FN.
template <int Exponent, int Mantissa, bool FiniteOnly, class T> DTC_FN dtc_with<T, u32> dtc_narrow(T x) {
  typedef dtc_with<T, u32> U;
  constexpr u32 bias = (1u << (Exponent - 1)) - 1, drop = 23 - Mantissa;
  constexpr u32 infinity = ((1u << Exponent) - 1) << Mantissa, ones = (1u << (Exponent + Mantissa)) - 1;
  const U bits = dtc_bits(x), a = bits & (U)0x7fffffffu,
          sign = (bits >> (U)(31 - Exponent - Mantissa)) & (U)(ones + 1);
  const U half = (U)((1u << (drop - 1)) - 1) + ((a >> (U)drop) & (U)1u);
  const U normal = ((a + half) >> (U)drop) - (U)((127 - bias) << Mantissa);
  // Below the smallest normal number, adding 2^k leaves a's multiple of the smallest subnormal in the low
  // bits.
  constexpr u32 magic = (127 + 24 - bias - Mantissa) << 23;
  const U small = dtc_bits(dtc_bitcast<T>(a) + dtc_bitcast<T>((U)magic)) - (U)magic;
  U r = dtc_select(dtc_lt(a, (U)((128 - bias) << 23)), small, normal);
  constexpr u32 over = FiniteOnly ? ones : infinity;
  r = dtc_select(dtc_gt(normal, (U)over) & dtc_ge(a, (U)((128 - bias) << 23)), (U)over, r);
  r = dtc_select(dtc_ge(a, (U)0x7f800000u), (U)over, r);
  r = dtc_select(dtc_gt(a, (U)0x7f800000u), (U)(FiniteOnly ? ones : infinity | (1u << (Mantissa - 1))), r);
  return r | sign;
}
template <int Exponent, int Mantissa, bool FiniteOnly, class U> DTC_FN dtc_with<U, f32> dtc_widen(U code) {
  typedef dtc_with<U, f32> F;
  constexpr u32 bias = (1u << (Exponent - 1)) - 1, drop = 23 - Mantissa,
                ones = (1u << (Exponent + Mantissa)) - 1;
  constexpr u32 infinity = ((1u << Exponent) - 1) << Mantissa;
  const U a = code & (U)ones, sign = (code & (U)(ones + 1)) << (U)(31 - Exponent - Mantissa);
  const F value =
      dtc_bitcast<F>(a << (U)drop) * dtc_bitcast<F>((U)((254 - bias) << 23)); // exact, subnormals too
  const U special = (a << (U)drop) | (U)0x7f800000u | (FiniteOnly ? (U)0x400000u : (U)0u);
  return dtc_bitcast<F>(dtc_select(dtc_ge(a, (U)(FiniteOnly ? ones : infinity)), special, dtc_bits(value)) |
                        sign);
}
template <class T> DTC_FN dtc_with<T, u32> dtc_narrow_bf16(T x) {
  typedef dtc_with<T, u32> U;
  const U u = dtc_bits(x), r = (u + (U)0x7fffu + ((u >> (U)16) & (U)1u)) >> (U)16;
  return dtc_select(dtc_is_nan(x), (u >> (U)16) | (U)0x40u, r);
}
// f64 -> f32 with the last bit set if the conversion is inexact, so that rounding it again is correct.
template <class T> DTC_FN dtc_with<T, f32> dtc_round_to_odd(T x) {
  typedef dtc_with<T, f32> F;
  typedef dtc_with<T, u32> U;
  const F f = dtc_cast<f32>(x);
  const T back = dtc_cast<f64>(f);
  const U u = dtc_bits(f);
  const auto down = dtc_gt(dtc_abs(back), dtc_abs(x)); // rounded away from zero
  const U toward = u - dtc_select(down, (U)1u, (U)0u);
  const auto inexact = dtc_ne(back, x) & dtc_eq(x, x);
  return dtc_bitcast<F>(dtc_select(inexact, toward | (U)1u, u));
}
#ifdef DTC_EMULATED // the conversions that cuda.h has as instructions
#define DTC_CONVERTS
#define DTC_CONVERTS_F8
DTC_FN u32 dtc_round_bf16(f32 x) { return x != x ? 0x7fffu : dtc_narrow_bf16(x); }
DTC_FN u32 dtc_round_f16(f32 x) { return x != x ? 0x7fffu : dtc_narrow<5, 10, false>(x); }
DTC_FN f32 dtc_widen_f16(u32 bits) {
  const f32 y = dtc_widen<5, 10, false>(bits);
  return y != y ? dtc_bitcast<f32>(0x7fffffffu) : y;
}
DTC_FN u32 dtc_round_f8e4m3(f32 x) {
  const u32 y = dtc_narrow<4, 3, true>(x);
  return x != x ? 0x7fu : (y & 0x7fu) == 0x7fu ? y - 1 : y;
}
DTC_FN u32 dtc_round_f8e5m2(f32 x) {
  const u32 y = dtc_narrow<5, 2, false>(x);
  return x != x ? 0x7fu : (y & 0x7fu) == 0x7cu ? y - 1 : y;
}
DTC_FN u32 dtc_widen_f8e4m3(u32 bits) { return dtc_round_f16(dtc_widen<4, 3, true>(bits)); }
#endif

// f32 -> the bits of N, and back. A NaN keeps its sign (a bf16 its payload too); an f8e4m3 too large is NaN,
// anything else infinite.
#ifdef DTC_CONVERTS // by instructions, with corrections
template <class N> constexpr bool dtc_converts = dtc_same<N, bf16> || dtc_same<N, f16>;
#ifdef DTC_CONVERTS_F8
template <> constexpr bool dtc_converts<f8e4m3> = true;
template <> constexpr bool dtc_converts<f8e5m2> = true;
#endif
template <class N> DTC_FN u32 dtc_encode_one(f32 x) {
  const u32 bits = dtc_bits(x);
  if constexpr (dtc_same<N, bf16>)
    return x != x ? bits >> 16 | 0x40u : dtc_round_bf16(x);
  else if constexpr (dtc_same<N, f16>)
    return x != x ? (bits >> 16 & 0x8000u) | 0x7e00u : dtc_round_f16(x);
#ifdef DTC_CONVERTS_F8
  else if constexpr (
      dtc_same<N,
               f8e4m3>) // 464 is half way to the value beyond 448, the max, and rounds to the even one
    return dtc_abs(x) <= 464.0f ? dtc_round_f8e4m3(x) : (bits >> 24 & 0x80u) | 0x7fu;
  else // 61440 is half way beyond 57344, which is odd
    return dtc_abs(x) < 61440.0f ? dtc_round_f8e5m2(x) : (bits >> 24 & 0x80u) | (x != x ? 0x7eu : 0x7cu);
#endif
}
template <class N> DTC_FN f32 dtc_decode_one(u32 bits) {
  if constexpr (dtc_same<N, f16>) {
    const f32 nan = dtc_bitcast<f32>((bits & 0x8000u) << 16 | 0x7f800000u | (bits & 0x3ffu) << 13);
    return (bits & 0x7fffu) > 0x7c00u ? nan : dtc_widen_f16(bits);
  } else if constexpr (dtc_same<N, f8e5m2>) { // the upper half of an f16
    return dtc_decode_one<f16>(bits << 8);
  }
#ifdef DTC_CONVERTS_F8
  else {
    const f32 nan = dtc_bitcast<f32>((bits & 0x80u) << 24 | 0x7fc00000u);
    return (bits & 0x7fu) == 0x7fu ? nan : dtc_widen_f16(dtc_widen_f8e4m3(bits));
  }
#endif
}
#else
template <class N> constexpr bool dtc_converts = false;
template <class N> DTC_FN u32 dtc_encode_one(f32 x);
template <class N> DTC_FN f32 dtc_decode_one(u32 bits);
#endif
template <class N, class T> DTC_FN dtc_with<T, u32> dtc_encode(T x) {
  if constexpr (dtc_converts<N>)
    return dtc_encode_one<N>(x);
  else if constexpr (dtc_same<N, bf16>)
    return dtc_narrow_bf16(x);
  else if constexpr (dtc_same<N, f16>)
    return dtc_narrow<5, 10, false>(x);
  else if constexpr (dtc_same<N, f8e4m3>)
    return dtc_narrow<4, 3, true>(x);
  else
    return dtc_narrow<5, 2, false>(x);
}
template <class N, class U> DTC_FN dtc_with<U, f32> dtc_decode(U bits) {
  if constexpr (dtc_same<N, bf16>)
    return dtc_bitcast<dtc_with<U, f32>>(bits << (U)16u);
  else if constexpr (dtc_converts<N>)
    return dtc_decode_one<N>(bits);
  else if constexpr (dtc_same<N, f16>)
    return dtc_widen<5, 10, false>(bits);
  else if constexpr (dtc_same<N, f8e4m3>)
    return dtc_widen<4, 3, true>(bits);
  else
    return dtc_widen<5, 2, false>(bits);
}

// --- convert, as the op: dtc_convert<To>(x) ---
//
// Values in registers have the compute type: a narrow To gives the f32 equal to To's nearest value.
template <class To, class T> DTC_FN dtc_with<T, To> dtc_float_to_int(T x) {
  typedef dtc_with<T, To> R;
  constexpr int bits = sizeof(To) * 8;
  constexpr bool isSigned = dtc_is_signed<To>;
  constexpr To highest = (To)(isSigned ? ((u64)1 << (bits - 1)) - 1 : ~(u64)0);
  constexpr To lowest = isSigned ? (To)((u64)1 << (bits - 1)) : (To)0;
  constexpr dtc_elem<T> above = (dtc_elem<T>)((u64)1 << (bits - 1)) * (isSigned ? 1 : 2),
                        below = isSigned ? -above : 0;
  const auto high = dtc_ge(x, (T)above), low = dtc_lt(x, (T)below);
  const R inside = dtc_cast<To>(dtc_select(high | low | dtc_is_nan(x), (T)(dtc_elem<T>)0, x));
  return dtc_select(high, (R)highest, dtc_select(low, (R)lowest, inside));
}
// The bits of x rounded once to the narrow float N, in u32.
template <class N, class T> DTC_FN dtc_with<T, u32> dtc_pack_bits(T x) {
  if constexpr (dtc_is_f32<T>)
    return dtc_encode<N>(x);
  else if constexpr (dtc_is_f64<T>)
    return dtc_encode<N>(dtc_round_to_odd(x));
  else if constexpr (sizeof(dtc_elem<T>) <= 2)
    return dtc_encode<N>(dtc_cast<f32>(x));
  else
    return dtc_encode<N>(dtc_round_to_odd(dtc_cast<f64>(x)));
}
template <class To, class T> DTC_FN dtc_with<T, dtc_compute<To>> dtc_convert(T x) {
  if constexpr (dtc_same<dtc_elem<T>, To>)
    return x;
  else if constexpr (dtc_is_narrow<To>)
    return dtc_decode<To>(dtc_pack_bits<To>(x));
  else if constexpr (dtc_same<To, bool>)
    return dtc_ne(x, (T)(dtc_elem<T>)0);
  else if constexpr (dtc_is_float<T> && !dtc_is_float<To>)
    return dtc_float_to_int<To>(x);
  else
    return dtc_cast<To>(x);
}

// The bits of a value of dtype From as a To of the same size (the op `bitcast`).
template <class To, class From, class T> DTC_FN dtc_with<T, dtc_compute<To>> dtc_reinterpret(T x) {
  typedef typename dtc_int_of<sizeof(From)>::U U;
  dtc_with<T, U> bits;
  if constexpr (dtc_is_narrow<From>)
    bits = dtc_cast<U>(dtc_encode<From>(x));
  else if constexpr (dtc_same<From, bool>)
    bits = dtc_cast<U>(x);
  else
    bits = dtc_bits(x);
  if constexpr (dtc_is_narrow<To>)
    return dtc_decode<To>(dtc_cast<u32>(bits));
  else if constexpr (dtc_same<To, bool>)
    return dtc_ne(bits, (dtc_with<T, U>)(U)0);
  else
    return dtc_bitcast<dtc_with<T, To>>(bits);
}

// --- one element of memory, in its compute type ---
template <class T> DTC_FN dtc_compute<T> dtc_load(const T* p) {
  if constexpr (dtc_is_narrow<T>)
    return dtc_decode<T>((u32)p->bits);
  else
    return *p;
}
// x is of T's compute type already.
template <class T> DTC_FN T dtc_to_memory(dtc_compute<T> x) {
  if constexpr (dtc_is_narrow<T>) {
    T out;
    out.bits = (decltype(out.bits))dtc_encode<T>(x);
    return out;
  } else {
    return x;
  }
}
template <class T> DTC_FN void dtc_store(T* p, dtc_compute<T> x) { *p = dtc_to_memory<T>(x); }

// A number that orders like the element at p: NaN is the max, -0 equals 0; inverted where `Descending`.
template <bool Descending, class T> DTC_FN auto dtc_sort_key(const T* p) {
  const auto x = dtc_load(p);
  typedef dtc_compute<T> C;
  typedef typename dtc_int_of<sizeof(C)>::U U;
  constexpr U top = (U)((U)1 << (8 * sizeof(U) - 1));
  U key;
  if constexpr (dtc_is_float<C>) {
    const U bits = dtc_bits(x);
    key = x != x ? (U) ~(U)0 : x == 0 ? top : (bits & top) ? (U)~bits : (U)(bits | top);
  } else if constexpr (dtc_is_bool<C>)
    key = x ? 1 : 0;
  else if constexpr (dtc_is_signed<C>)
    key = (U)((U)x ^ top);
  else
    key = (U)x;
  return Descending ? (U)~key : key;
}
// The same of up to four bytes, in as many bits as they have.
template <bool Descending, class T> DTC_FN u32 dtc_digit_key(const T* p) {
  if constexpr (dtc_is_narrow<T>) {
    typedef decltype(p->bits) U;
    constexpr U top = (U)((U)1 << (8 * sizeof(U) - 1));
    const U bits = p->bits;
    const f32 x = dtc_load(p);
    const U key = x != x ? (U) ~(U)0 : x == 0 ? top : (bits & top) ? (U)~bits : (U)(bits | top);
    return Descending ? (U)~key : key;
  } else
    return dtc_sort_key<Descending>(p);
}
// Element i of a row in the representation of the radix sort's passes: its key over i, unless it is such a
// word already.
template <bool Descending, class T> DTC_FN u64 dtc_digit_word(const T* row, i64 i) {
  if constexpr (dtc_same<T, i64>)
    return (u64)row[i];
  else
    return (u64)dtc_digit_key<Descending>(row + i) << 32 | (u32)i;
}
