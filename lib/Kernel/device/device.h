// Device header, last part in CUDA and cuda-emu, built on CUDA's intrinsics.

// Floats in the order of signed integers, -0 below +0, as exchanged between devices; NaN is the max or the
// min.
template <class T> DTC_FN dtc_sint<T> dtc_ordered(T x, bool nan_max) {
  typedef dtc_sint<T> S;
  constexpr S largest = (S)(~(dtc_uint<T>)0 >> 1);
  const S bits = dtc_bitcast<S>(x);
  if (x != x) return nan_max ? largest : (S)~largest;
  return bits < 0 ? (S)(bits ^ largest) : bits;
}
DTC_FN f32 dtc_of_ordered(i32 y) { return dtc_bitcast<f32>(y < 0 ? y ^ 0x7fffffff : y); }
DTC_FN f64 dtc_of_ordered(i64 y) { return dtc_bitcast<f64>(y < 0 ? y ^ (i64)0x7fffffffffffffffll : y); }

// Atomic max and min of floats, NaN kept, by compare and swap. Returns the old value.
template <class T, class F> DTC_FN T dtc_atomic_update(T* p, F f) {
  typedef dtc_uint<T> U;
  U old = *(volatile U*)p;
  for (;;) {
    const U expected = old;
    old = atomicCAS((U*)p, expected, dtc_bits(f(dtc_bitcast<T>(expected))));
    if (old == expected) return dtc_bitcast<T>(old);
  }
}
template <class T> struct dtc_max_with {
  T v;
  __device__ T operator()(T a) const { return dtc_max(a, v); }
};
template <class T> struct dtc_min_with {
  T v;
  __device__ T operator()(T a) const { return dtc_min(a, v); }
};
template <class T> struct dtc_mul_with {
  T v;
  __device__ T operator()(T a) const { return dtc_mul(a, v); }
};
template <class T> DTC_FN T dtc_atomic_max(T* p, T v) {
  if constexpr (dtc_is_float<T>)
    return dtc_atomic_update(p, dtc_max_with<T>{v});
  else
    return atomicMax(p, v);
}
template <class T> DTC_FN T dtc_atomic_min(T* p, T v) {
  if constexpr (dtc_is_float<T>)
    return dtc_atomic_update(p, dtc_min_with<T>{v});
  else
    return atomicMin(p, v);
}
template <class T> DTC_FN T dtc_atomic_mul(T* p, T v) { return dtc_atomic_update(p, dtc_mul_with<T>{v}); }
template <class T> DTC_FN T dtc_atomic_add(T* p, T v) {
  if constexpr (dtc_same<T, i64>)
    return (T)atomicAdd((u64*)p, (u64)v); // CUDA has it for unsigned only
  else
    return atomicAdd(p, v);
}

// A variable in the shared memory of the cluster's block of that rank: between two cluster barriers, the
// first of which guarantees that the block has started and the second that it has not ended.
template <class T> DTC_FN T* dtc_map_shared(T* p, u32 rank) {
  return (T*)dtc_map_shared_address((const void*)p, rank);
}

// --- functions whose result is rounded to a narrow float: within 2^-16 of the exact result, a sixteenth of
// f16's rounding error, and in few instructions (lib/Kernel/print/CudaEmitter.cpp selects them) ---
DTC_FN f32 dtc_near_exp(f32 x) { return dtc_exp2_near(x * 1.4426950408889634f); }
// Results below the smallest normal number are 0, negligible against the 1 of the max.
DTC_FN f32 dtc_near_exp_below(f32 x) { return dtc_exp2_fast(x * 1.4426950408889634f); }
// exp(x²) erfc(x) is a polynomial in t = 1 / (1 + 0.44 x), times t; fitted with relative error 6e-6 from 0 to
// 10.5.
DTC_FN f32 dtc_near_erfc(f32 x) {
  const f32 z = dtc_abs(x), t = dtc_reciprocal_fast(dtc_fma(0.44f, z, 1.0f));
  f32 y = -0.146106493f;
  y = dtc_fma(y, t, 0.350654955f);
  y = dtc_fma(y, t, 0.0407282735f);
  y = dtc_fma(y, t, 0.263587936f);
  y = dtc_fma(y, t, 0.242569107f);
  y = dtc_fma(y, t, 0.248561055f);
  y = y * t * dtc_exp2_fast(z * z * -1.4426950408889634f);
  return x < 0 ? 2.0f - y : y;
}

DTC_FN i64 dtc_index_min(i64 a, i64 b) { return a < b ? a : b; }
DTC_FN i64 dtc_blocks(i64 n, i64 per) { return (n + per - 1) / per; } // runs of at most `per` elements
// a / b, neither above `most`, uniform over all threads: a division of 64 bits takes several times as long as
// one of 32.
DTC_FN i64 dtc_quotient(i64 a, i64 b, i64 most) {
  return b == most ? a == most : most <= 0xffffffffll ? (i64)((u32)a / (u32)b) : a / b;
}

// --- across the threads of a block: all of them call it; every thread gets the result, always combined in
// the same order ---
template <class T> DTC_FN T dtc_shuffle_xor(T x, i32 lanes, u32 present = 0xffffffffu) {
  if constexpr (sizeof(T) < 4)
    return (T)__shfl_xor_sync(present, (i32)x, lanes);
  else
    return __shfl_xor_sync(present, x, lanes);
}
#define DTC_BLOCK_REDUCE(name, combine)                                                                      \
  template <int Threads, class T> DTC_FN T dtc_block_##name(T x) {                                           \
    __shared__ T partial[Threads / 32];                                                                      \
    for (i32 lanes = 16; lanes > 0; lanes >>= 1) x = combine(x, dtc_shuffle_xor(x, lanes));                  \
    __syncthreads(); /* the last result is read by all */                                                    \
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;                                                \
    __syncthreads();                                                                                         \
    x = partial[0];                                                                                          \
    for (i32 warp = 1; warp < Threads / 32; ++warp) x = combine(x, partial[warp]);                           \
    return x;                                                                                                \
  }
DTC_BLOCK_REDUCE(sum, dtc_add)
DTC_BLOCK_REDUCE(prod, dtc_mul)
DTC_BLOCK_REDUCE(max, dtc_max)
DTC_BLOCK_REDUCE(min, dtc_min)
DTC_BLOCK_REDUCE(any, dtc_or)
DTC_BLOCK_REDUCE(all, dtc_and)

// N elements in accesses of at most 16 bytes; p is aligned to those.
template <class T, int N> struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) dtc_pack {
  T at[N];
};
template <int N, class T> DTC_FN dtc_pack<T, N> dtc_load_pack(const T* p) {
  if constexpr (sizeof(T) * N > 16) {
    constexpr i32 part = 16 / sizeof(T);
    dtc_pack<T, N> x;
    for (i32 begin = 0; begin < N; begin += part) {
      const dtc_pack<T, part> y = dtc_load_pack<part>(p + begin);
      for (i32 i = 0; i < part; ++i) x.at[begin + i] = y.at[i];
    }
    return x;
  } else if constexpr (sizeof(T) * N == 16) {
    const uint4 bits = *(const uint4*)p;
    return dtc_bitcast<dtc_pack<T, N>>(bits);
  } else if constexpr (sizeof(T) * N == 8) {
    const uint2 bits = *(const uint2*)p;
    return dtc_bitcast<dtc_pack<T, N>>(bits);
  } else
    return *(const dtc_pack<T, N>*)p;
}
template <bool Global, int N, class T> DTC_FN void dtc_write_pack(T* p, const dtc_pack<T, N>& x) {
  if constexpr (sizeof(T) * N > 16) {
    constexpr i32 part = 16 / sizeof(T);
    for (i32 begin = 0; begin < N; begin += part) {
      dtc_pack<T, part> y;
      for (i32 i = 0; i < part; ++i) y.at[i] = x.at[begin + i];
      dtc_write_pack<Global>(p + begin, y);
    }
  } else if constexpr (sizeof(T) * N == 16 && Global)
    dtc_store_words((uint4*)p, dtc_bitcast<uint4>(x));
  else if constexpr (sizeof(T) * N == 8 && Global)
    dtc_store_words((uint2*)p, dtc_bitcast<uint2>(x));
  else if constexpr (sizeof(T) * N == 16)
    *(uint4*)p = dtc_bitcast<uint4>(x);
  else if constexpr (sizeof(T) * N == 8)
    *(uint2*)p = dtc_bitcast<uint2>(x);
  else if constexpr (sizeof(T) * N == 4)
    *(u32*)p = dtc_bitcast<u32>(x);
  else
    *(dtc_pack<T, N>*)p = x;
}
template <int N, class T> DTC_FN void dtc_store_pack(T* p, const dtc_pack<T, N>& x) { // to global memory
  dtc_write_pack<true>(p, x);
}
template <int N, class T> DTC_FN void dtc_stage_pack(T* p, const dtc_pack<T, N>& x) { // to shared memory
  dtc_write_pack<false>(p, x);
}
template <class T, i32 N> DTC_FN dtc_pack<T, N> dtc_same_pack(dtc_compute<T> x) {
  dtc_pack<T, N> y;
#pragma unroll
  for (i32 i = 0; i < N; ++i) y.at[i] = dtc_to_memory<T>(x);
  return y;
}
// dtc_random32 of N consecutive indices from `first` on, a multiple of N.
template <int N> DTC_FN dtc_pack<u32, N> dtc_random_pack(u64 first, u64 key, u64 upper) {
  dtc_pack<u32, N> x;
#pragma unroll
  for (i32 i = 0; i < N; i += 4) {
    const dtc_words<u64> w = dtc_philox(first / 4 + i / 4, key, upper);
    x.at[i] = w.w0, x.at[i + 1] = w.w1, x.at[i + 2] = w.w2, x.at[i + 3] = w.w3;
  }
  return x;
}
// Element `lane` of a pack, in its compute type. For bf16 by words, so that each is one shift or mask.
template <int N, class T> DTC_FN dtc_compute<T> dtc_lane(const dtc_pack<T, N>& x, i32 lane) {
#ifndef DTC_EMULATED // which checks each access of an array's element
  if constexpr (dtc_same<T, bf16> && N % 2 == 0) {
    u32 word;
    memcpy(&word, x.at + (lane & ~1), sizeof word);
    return dtc_bitcast<f32>(lane & 1 ? word & 0xffff0000u : word << 16);
  }
#endif
  return dtc_load(x.at + lane);
}
// A pack of narrow floats that a thread keeps in registers, as words. NVVM takes a dtc_pack apart into elements
// where it merges values (of a loop's iterations, or where a pack is read under a condition): the loaded words
// are then split as soon as they are read, which waits for the load and makes prefetching void.
template <class T, int N> struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) dtc_kept {
  static_assert(sizeof(T) * N % 4 == 0);
  u32 words[sizeof(T) * N / 4];
};
template <int N, class T> DTC_FN dtc_kept<T, N> dtc_load_kept(const T* p) {
  return dtc_bitcast<dtc_kept<T, N>>(dtc_load_pack<sizeof(T) * N / 4>((const u32*)p));
}
template <int N, class T> DTC_FN dtc_compute<T> dtc_lane(const dtc_kept<T, N>& x, i32 lane) {
  constexpr i32 each = 4 / sizeof(T);
  const u32 word = x.words[lane / each];
  if constexpr (dtc_same<T, bf16>)
    return dtc_bitcast<f32>(lane & 1 ? word & 0xffff0000u : word << 16);
  else
    return dtc_decode<T>(word >> lane % each * (8 * sizeof(T)) & ((1u << 8 * sizeof(T)) - 1));
}
// Rounds numbers to narrow floats. Pairs take one instruction, which has one NaN only: where there is any,
// all are converted again.
template <class T, int N> DTC_FN dtc_pack<T, N> dtc_round_pack(const dtc_pack<f32, N>& x) {
  if constexpr ((dtc_same<T, bf16> || dtc_same<T, f16>) && N % 2 == 0) {
    dtc_pack<u32, N / 2> words;
    bool numbers = true;
#pragma unroll
    for (i32 i = 0; i < N; i += 2) {
      numbers &= x.at[i] < x.at[i + 1] || x.at[i] >= x.at[i + 1];
      words.at[i / 2] = dtc_pair<T>(x.at[i], x.at[i + 1]);
    }
    if (__builtin_expect(!numbers, false)) {
#pragma unroll
      for (i32 i = 0; i < N; i += 2)
        words.at[i / 2] = dtc_encode<T>(x.at[i]) | dtc_encode<T>(x.at[i + 1]) << 16;
    }
    return dtc_bitcast<dtc_pack<T, N>>(words);
  } else {
    dtc_pack<T, N> y;
#pragma unroll
    for (i32 i = 0; i < N; ++i) y.at[i] = dtc_to_memory<T>(x.at[i]);
    return y;
  }
}
// Element `at` of a line of a tile in shared memory (lib/Kernel/schedule/TileSchedule.h): `Padding` elements follow
// each `Lines` lines.
template <int Length, int Lines, int Padding> DTC_FN i32 dtc_staged(i32 line, i32 at) {
  return line * Length + line / Lines * Padding + at;
}
// Elements with a stride of a warp from p on: where neighboring threads start at neighbors, each access
// covers complete lines.
template <int N, class T> DTC_FN dtc_pack<T, N> dtc_load_strided(const T* p) {
  dtc_pack<T, N> x;
#pragma unroll
  for (i32 lane = 0; lane < N; ++lane) x.at[lane] = p[lane * 32];
  return x;
}
// A pack of a row, or one element of a row's edges (lib/Kernel/schedule/RowSchedule.h, RowNest::edged).
template <bool Edge, int N, class T> DTC_FN dtc_pack<T, N> dtc_load_row(const T* p) {
  if constexpr (Edge) {
    dtc_pack<T, N> x{};
    x.at[0] = *p;
    return x;
  } else
    return dtc_load_pack<N>(p);
}
template <bool Edge, int N, class T> DTC_FN dtc_kept<T, N> dtc_load_kept_row(const T* p) {
  if constexpr (Edge) {
    dtc_kept<T, N> x{};
    x.words[0] = dtc_bitcast<typename dtc_int_of<sizeof(T)>::U>(*p);
    return x;
  } else
    return dtc_load_kept<N>(p);
}
template <bool Edge, int N, class T> DTC_FN void dtc_store_row(T* p, const dtc_pack<dtc_compute<T>, N>& x) {
  if constexpr (Edge)
    dtc_store(p, x.at[0]);
  else if constexpr (dtc_is_narrow<T>)
    dtc_store_pack(p, dtc_round_pack<T>(x));
  else
    dtc_store_pack(p, x);
}
