// Device header, part 1 of each prologue: types, with the names of the IR's dtypes, and type traits. No
// includes: Clang (cpu, cuda-emu) and NVRTC both read this text. On the CPU every function below takes a
// number or a vector of numbers (Vec<f32, 16>), per lane; in CUDA a number.

#ifdef __CUDACC__
#define DTC_FN static __device__ __forceinline__
#define DTC_MEMBER __device__ __forceinline__
#else
#define DTC_MEMBER inline __attribute__((always_inline))
#define DTC_FN static inline __attribute__((always_inline))
#endif

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

// Narrow floats are storage types only: load and store (or dtc_convert) convert them to f32 and back.
struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};
struct f8e4m3 {
  u8 bits;
}; // OCP E4M3FN: no infinity, overflow gives NaN
struct f8e5m2 {
  u8 bits;
};

// Complex numbers are storage types only, too: dtc_real and dtc_imag take their parts, dtc_complex combines
// them.
struct alignas(8) c64 {
  typedef f32 part;
  f32 re, im;
  c64() = default;
  DTC_MEMBER explicit c64(int zero) : re((f32)zero), im((f32)zero) {}
  DTC_MEMBER c64(f32 re, f32 im) : re(re), im(im) {}
};
struct alignas(16) c128 {
  typedef f64 part;
  f64 re, im;
  c128() = default;
  DTC_MEMBER explicit c128(int zero) : re(zero), im(zero) {}
  DTC_MEMBER c128(f64 re, f64 im) : re(re), im(im) {}
};

template <int Bytes> struct dtc_int_of;
template <> struct dtc_int_of<1> {
  typedef u8 U;
  typedef i8 S;
};
template <> struct dtc_int_of<2> {
  typedef u16 U;
  typedef i16 S;
};
template <> struct dtc_int_of<4> {
  typedef u32 U;
  typedef i32 S;
};
template <> struct dtc_int_of<8> {
  typedef u64 U;
  typedef i64 S;
};

template <class A, class B> constexpr bool dtc_same = false;
template <class A> constexpr bool dtc_same<A, A> = true;

// The element of T, its number of lanes, and T with other elements.
template <class T> struct dtc_type {
  typedef T elem;
  static constexpr int lanes = 1;
  template <class E> using with = E;
};
#ifndef __CUDACC__
template <class T, int N> using Vec = T __attribute__((ext_vector_type(N)));
template <class T, int N> struct dtc_type<T __attribute__((ext_vector_type(N)))> {
  typedef T elem;
  static constexpr int lanes = N;
  template <class E> using with = Vec<E, N>;
};
#endif
template <class T> using dtc_elem = typename dtc_type<T>::elem;
template <class T, class E> using dtc_with = typename dtc_type<T>::template with<E>;
template <class T> using dtc_bool = dtc_with<T, bool>;
template <class T> using dtc_uint = dtc_with<T, typename dtc_int_of<sizeof(dtc_elem<T>)>::U>;
template <class T> using dtc_sint = dtc_with<T, typename dtc_int_of<sizeof(dtc_elem<T>)>::S>;
template <class T> constexpr bool dtc_is_vector = dtc_type<T>::lanes != 1;
template <class T> constexpr bool dtc_is_f32 = dtc_same<dtc_elem<T>, f32>;
template <class T> constexpr bool dtc_is_f64 = dtc_same<dtc_elem<T>, f64>;
template <class T> constexpr bool dtc_is_float = dtc_is_f32<T> || dtc_is_f64<T>;
template <class T> constexpr bool dtc_is_bool = dtc_same<dtc_elem<T>, bool>;
template <class T> constexpr bool dtc_is_signed = !dtc_is_bool<T> && dtc_elem<T>(-1) < dtc_elem<T>(1);
template <class T>
constexpr bool dtc_is_narrow =
    dtc_same<T, bf16> || dtc_same<T, f16> || dtc_same<T, f8e4m3> || dtc_same<T, f8e5m2>;

// The compute type of a value of memory type T: f32 for the narrow floats.
template <class T, bool Narrow> struct dtc_compute_of {
  typedef T type;
};
template <class T> struct dtc_compute_of<T, true> {
  typedef f32 type;
};
template <class T> using dtc_compute = typename dtc_compute_of<T, dtc_is_narrow<T>>::type;

// Static conversion as in C++ (a float out of the integer type's range: any value), per lane.
template <class E, class T> DTC_FN dtc_with<T, E> dtc_cast(T x) {
#ifndef __CUDACC__
  if constexpr (dtc_is_vector<T>) {
    if constexpr (dtc_is_bool<T> && !dtc_same<E, bool>)
      return __builtin_convertvector(__builtin_convertvector(x, dtc_with<T, u8>) & u8(1), dtc_with<T, E>);
    else
      return __builtin_convertvector(x, dtc_with<T, E>);
  } else
#endif
    return (dtc_with<T, E>)x;
}
#if defined(__CUDACC_VER_MAJOR__) && __CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 4
template <class To, class From> DTC_FN To dtc_bitcast(From x) { // NVRTC 12.1 has no __builtin_bit_cast
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
#else
template <class To, class From> DTC_FN To dtc_bitcast(From x) { return __builtin_bit_cast(To, x); }
#endif
template <class T> DTC_FN dtc_uint<T> dtc_bits(T x) { return dtc_bitcast<dtc_uint<T>>(x); }
template <class E> DTC_FN E dtc_infinity() {
  if constexpr (dtc_same<E, f32>)
    return dtc_bitcast<f32>(0x7f800000u);
  else
    return dtc_bitcast<f64>(0x7ff0000000000000ull);
}
template <class E> DTC_FN E dtc_quiet_nan() {
  if constexpr (dtc_same<E, f32>)
    return dtc_bitcast<f32>(0x7fc00000u);
  else
    return dtc_bitcast<f64>(0x7ff8000000000000ull);
}
DTC_FN f32 dtc_real(c64 z) { return z.re; }
DTC_FN f32 dtc_imag(c64 z) { return z.im; }
DTC_FN c64 dtc_complex(f32 re, f32 im) { return c64(re, im); }
DTC_FN f64 dtc_real(c128 z) { return z.re; }
DTC_FN f64 dtc_imag(c128 z) { return z.im; }
DTC_FN c128 dtc_complex(f64 re, f64 im) { return c128(re, im); }
