// Device header, last part on the CPU: vectors in memory, and operations across lanes.

#if defined(__AVX512F__)
#define DTC_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define DTC_VECTOR_BYTES 32
#else
#define DTC_VECTOR_BYTES 16
#endif
template <class T> constexpr int dtc_lanes = DTC_VECTOR_BYTES / sizeof(T); // that fill one register

// The bits of N elements of T in memory: what a vector load can hold.
template <class T, bool Narrow> struct dtc_memory_of {
  typedef T type;
};
template <class T> struct dtc_memory_of<T, true> {
  typedef typename dtc_int_of<sizeof(T)>::U type;
};
template <> struct dtc_memory_of<bool, false> {
  typedef u8 type;
};
template <class T> using dtc_memory = typename dtc_memory_of<T, dtc_is_narrow<T>>::type;

template <class T, int N> DTC_FN Vec<dtc_compute<T>, N> dtc_from_memory(Vec<dtc_memory<T>, N> m) {
  if constexpr (dtc_same<T, bool>) return __builtin_convertvector(m != 0, Vec<bool, N>);
#ifdef __F16C__
  else if constexpr (dtc_same<T, f16>)
    return __builtin_convertvector(__builtin_bit_cast(Vec<_Float16, N>, m), Vec<f32, N>);
#endif
  else if constexpr (dtc_is_narrow<T>)
    return dtc_decode<T>(__builtin_convertvector(m, Vec<u32, N>));
  else
    return m;
}
template <class T, int N> DTC_FN Vec<dtc_memory<T>, N> dtc_vector_to_memory(Vec<dtc_compute<T>, N> x) {
  if constexpr (dtc_same<T, bool>) return dtc_cast<u8>(x);
#ifdef __F16C__
  else if constexpr (dtc_same<T, f16>)
    return __builtin_bit_cast(Vec<u16, N>, __builtin_convertvector(x, Vec<_Float16, N>));
#endif
  else if constexpr (dtc_is_narrow<T>)
    return __builtin_convertvector(dtc_encode<T>(x), Vec<dtc_memory<T>, N>);
  else
    return x;
}

// N elements from p on, at any alignment.
template <int N, class T> DTC_FN Vec<dtc_compute<T>, N> dtc_load(const T* p) {
  Vec<dtc_memory<T>, N> m;
  __builtin_memcpy(&m, p, sizeof(T) * N);
  return dtc_from_memory<T, N>(m);
}
template <int N, class T> DTC_FN void dtc_store(T* p, Vec<dtc_compute<T>, N> x) {
  const Vec<dtc_memory<T>, N> m = dtc_vector_to_memory<T, N>(x);
  __builtin_memcpy(p, &m, sizeof(T) * N);
}
// Bypasses the caches, for outputs that are written once and not read again; p is aligned to the size of N
// elements.
template <int N, class T> DTC_FN void dtc_store_stream(T* p, Vec<dtc_compute<T>, N> x) {
  __builtin_nontemporal_store((dtc_vector_to_memory<T, N>(x)), (Vec<dtc_memory<T>, N>*)p);
}
DTC_FN void dtc_stream_fence() { __builtin_ia32_sfence(); } // after the last streaming store of a kernel

// N elements take several registers. Clang packs vectors of bool into bits, and does not split them.
template <class T, int N>
constexpr bool dtc_has_halves = (N > dtc_lanes<dtc_compute<T>>) && !dtc_same<dtc_compute<T>, bool>;

// The first n of N elements (0 <= n <= N); the other lanes are `fill`. Nothing past p + n is accessed.
template <int N, class T>
DTC_FN Vec<dtc_compute<T>, N> dtc_load_part(const T* p, i64 n, dtc_compute<T> fill = 0) {
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4 && N == 16) {
    typedef float F __attribute__((vector_size(64)));
    const Vec<T, 16> rest = (Vec<T, 16>)fill;
    return __builtin_bit_cast(
        Vec<T, 16>,
        __builtin_ia32_loadups512_mask((const f32*)p, __builtin_bit_cast(F, rest), (u16)((1u << n) - 1)));
  }
#endif
  if constexpr (dtc_has_halves<T, N>) { // several registers, of which at most one is partial
    constexpr int half = N / 2;
    Vec<dtc_compute<T>, N> x;
    x.lo = dtc_load_part<half>(p, n < half ? n : half, fill);
    x.hi = dtc_load_part<half>(p + half, n < half ? 0 : n - half, fill);
    return x;
  }
  T few[N];
  const T other = dtc_to_memory<T>(fill);
  for (int i = 0; i < N; ++i) few[i] = other;
  __builtin_memcpy(few, p, sizeof(T) * n);
  return dtc_load<N>(few);
}
template <int N, class T> DTC_FN void dtc_store_part(T* p, Vec<dtc_compute<T>, N> x, i64 n) {
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4 && N == 16) {
    typedef float F __attribute__((vector_size(64)));
    __builtin_ia32_storeups512_mask((f32*)p, __builtin_bit_cast(F, x), (u16)((1u << n) - 1));
    return;
  }
#endif
  if constexpr (dtc_has_halves<T, N>) {
    constexpr int half = N / 2;
    dtc_store_part<half>(p, (Vec<dtc_compute<T>, half>)x.lo, n < half ? n : half);
    dtc_store_part<half>(p + half, (Vec<dtc_compute<T>, half>)x.hi, n < half ? 0 : n - half);
    return;
  }
  T few[N];
  dtc_store<N>(few, x);
  __builtin_memcpy(p, few, sizeof(T) * n);
}
// x[offset[i]] per lane.
template <class T, int N> DTC_FN Vec<dtc_compute<T>, N> dtc_gather(const T* p, Vec<i64, N> offset) {
  Vec<dtc_compute<T>, N> x;
  for (int i = 0; i < N; ++i) x[i] = dtc_load(p + offset[i]);
  return x;
}
DTC_FN void dtc_prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
DTC_FN void dtc_prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }

// --- across lanes: halves onto halves, always in the same order ---
//
// Hides the origin of an integer vector from the optimizer: LLVM 19 does not terminate on comparisons between
// the halves of a select under an AVX-512 mask.
template <class T, int N> DTC_FN void dtc_hide(Vec<T, N>& x) {
#ifdef __AVX512F__
  if constexpr (!dtc_is_float<T> && (sizeof(x) == 32 || sizeof(x) == 64)) __asm__("" : "+v"(x));
#endif
}
#define DTC_FOLD(name, combine)                                                                              \
  template <class T, int N> DTC_FN T name(Vec<T, N> x) {                                                     \
    if constexpr (N == 2) {                                                                                  \
      return combine((T)x[0], (T)x[1]);                                                                      \
    } else {                                                                                                 \
      dtc_hide<T, N>(x);                                                                                     \
      return name<T, N / 2>(combine((Vec<T, N / 2>)x.lo, (Vec<T, N / 2>)x.hi));                              \
    }                                                                                                        \
  }
DTC_FOLD(dtc_reduce_sum, dtc_add)
DTC_FOLD(dtc_reduce_prod, dtc_mul)
DTC_FOLD(dtc_fold_max, dtc_max)
DTC_FOLD(dtc_fold_min, dtc_min)
// The max (min), in one instruction per step, without handling of NaN.
template <bool Max, class T, int N> DTC_FN T dtc_reduce_numbers(Vec<T, N> x) {
  if constexpr (N == 2) {
    const Vec<T, 2> y = __builtin_shufflevector(x, x, 1, 0);
    return (Max ? (x > y ? x : y) : (x < y ? x : y))[0];
  } else {
    const Vec<T, N / 2> a = x.lo, b = x.hi;
    return dtc_reduce_numbers<Max, T, N / 2>(Max ? (a > b ? a : b) : (a < b ? a : b));
  }
}
template <bool Max, class T, int N> DTC_FN T dtc_reduce_floats(Vec<T, N> x) {
  const T y = dtc_reduce_numbers<Max, T, N>(x);
  return dtc_any(dtc_is_nan(x)) ? dtc_quiet_nan<T>() : y;
}
template <class T, int N> DTC_FN T dtc_reduce_max(Vec<T, N> x) {
  if constexpr (dtc_is_float<T>)
    return dtc_reduce_floats<true, T, N>(x);
  else
    return dtc_fold_max<T, N>(x);
}
template <class T, int N> DTC_FN T dtc_reduce_min(Vec<T, N> x) {
  if constexpr (dtc_is_float<T>)
    return dtc_reduce_floats<false, T, N>(x);
  else
    return dtc_fold_min<T, N>(x);
}
template <int N> DTC_FN bool dtc_reduce_any(Vec<bool, N> x) { return dtc_any(x); }
template <int N> DTC_FN bool dtc_reduce_all(Vec<bool, N> x) { return !dtc_any(~x); }
