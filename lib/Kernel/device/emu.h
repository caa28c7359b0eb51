// Device header, cuda-emu's own part: CUDA's keywords, built-in variables, vector types and intrinsics, on
// the CPU. Threads are fibres of one OS thread; synchronization between them is in lib/Emu/EmuCluster.h.

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
// Becomes an offset into the block's shared memory (lib/Jit/Clang/SharedVariables.cpp). With `extern` and
// `[]`: its dynamic part.
#define __shared__ thread_local

// --- vector types ---
#define DTC_CUDA_VECTORS(T, name, align2, align4)                                                            \
  struct name##1 { T x; };                                                                                   \
  struct __attribute__((aligned(align2))) name##2 { T x, y; };                                               \
  struct name##3 { T x, y, z; };                                                                             \
  struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; };                                         \
  DTC_FN name##2 make_##name##2(T x, T y) { return {x, y}; }                                                 \
  DTC_FN name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                         \
  DTC_FN name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
DTC_CUDA_VECTORS(i8, char, 2, 4)
DTC_CUDA_VECTORS(u8, uchar, 2, 4)
DTC_CUDA_VECTORS(i16, short, 4, 8)
DTC_CUDA_VECTORS(u16, ushort, 4, 8)
DTC_CUDA_VECTORS(i32, int, 8, 16)
DTC_CUDA_VECTORS(u32, uint, 8, 16)
DTC_CUDA_VECTORS(i64, longlong, 16, 16)
DTC_CUDA_VECTORS(u64, ulonglong, 16, 16)
DTC_CUDA_VECTORS(f32, float, 8, 16)
DTC_CUDA_VECTORS(f64, double, 16, 16)

// --- built-in variables ---
struct __emu_thread {
  uint3 thread, block, blockSize, gridSize;
  u32 clusterRank, clusterSize;
};
extern "C" __attribute__((const)) const __emu_thread* __emu_self(); // constant during a thread's lifetime
#define threadIdx (__emu_self()->thread)
#define blockIdx (__emu_self()->block)
#define blockDim (__emu_self()->blockSize)
#define gridDim (__emu_self()->gridSize)
#define warpSize 32

// --- barriers: kinds as in EmuThread.h. lib/Jit/Clang/CheckAccesses.cpp fills in the last argument of each.
// ---
extern "C" i32 __emu_barrier(i32 kind, i32 value, i32 line, const char* location);
extern "C" void __emu_named_barrier(u32 id, u32 count, i32 line, const char* location);
#define __syncthreads() ((void)__emu_barrier(0, 0, __LINE__, nullptr))
#define __syncthreads_count(p) __emu_barrier(1, !!(p), __LINE__, nullptr)
#define __syncthreads_and(p) __emu_barrier(2, !!(p), __LINE__, nullptr)
#define __syncthreads_or(p) __emu_barrier(3, !!(p), __LINE__, nullptr)
DTC_FN void dtc_barrier(u32 id, u32 threads) { __emu_named_barrier(id, threads, __LINE__, nullptr); }

// --- clusters ---
extern "C" void __emu_cluster_barrier(i32 line, const char* location);
extern "C" void* __emu_map_shared(const void* p, u32 rank, i32 line, const char* location);
DTC_FN u32 dtc_cluster_rank() { return __emu_self()->clusterRank; }
DTC_FN u32 dtc_cluster_size() { return __emu_self()->clusterSize; }
DTC_FN void dtc_cluster_sync() { __emu_cluster_barrier(__LINE__, nullptr); }
DTC_FN void dtc_cluster_end() { __emu_cluster_barrier(__LINE__, nullptr); }
DTC_FN const void* dtc_map_shared_address(const void* p, u32 rank) {
  return __emu_map_shared(p, rank, __LINE__, nullptr);
}

// --- warps ---
extern "C" u64 __emu_warp(i32 kind, u32 mask, u64 value, i32 argument, i32 width, i32 line,
                          const char* location);
extern "C" u32 __emu_active();
template <class T>
DTC_FN T __emu_shuffle(i32 line, i32 kind, u32 mask, T value, i32 argument, i32 width = 32) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  typedef typename dtc_int_of<sizeof(T)>::U U;
  return __builtin_bit_cast(
      T, (U)__emu_warp(kind, mask, __builtin_bit_cast(U, value), argument, width, line, nullptr));
}
DTC_FN void __emu_syncwarp(i32 line, u32 mask = 0xffffffffu) { __emu_warp(0, mask, 0, 0, 32, line, nullptr); }
#define __syncwarp(...) __emu_syncwarp(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_sync(...) __emu_shuffle(__LINE__, 1, __VA_ARGS__)
#define __shfl_up_sync(...) __emu_shuffle(__LINE__, 2, __VA_ARGS__)
#define __shfl_down_sync(...) __emu_shuffle(__LINE__, 3, __VA_ARGS__)
#define __shfl_xor_sync(...) __emu_shuffle(__LINE__, 4, __VA_ARGS__)
#define __ballot_sync(mask, p) ((u32)__emu_warp(5, mask, !!(p), 0, 32, __LINE__, nullptr))
#define __any_sync(mask, p) ((i32)__emu_warp(6, mask, !!(p), 0, 32, __LINE__, nullptr))
#define __all_sync(mask, p) ((i32)__emu_warp(7, mask, !!(p), 0, 32, __LINE__, nullptr))
#define __activemask() __emu_active()

// --- tensor cores: the lanes pass the addresses of their registers (lib/Emu/EmuWarp.cpp) ---
struct __emu_mma {
  u32 a[4], b[2];
  f32 c[4];
};
struct __emu_matrices {
  uint4 row;
  u32 x[4];
  const void* from;
};
template <class T> DTC_FN void dtc_mma(f32* c, const u32* a, u32 b0, u32 b1) {
  __emu_mma m = {{a[0], a[1], a[2], a[3]}, {b0, b1}, {c[0], c[1], c[2], c[3]}};
  __emu_warp(dtc_same<T, bf16> ? 8 : 9, 0xffffffffu, (u64)&m, 0, 32, __LINE__, nullptr);
  for (int i = 0; i < 4; ++i) c[i] = m.c[i];
}
DTC_FN void __emu_load_matrices(i32 kind, u32* x, const void* row) {
  __emu_matrices m = {*(const uint4*)row, {}, row}; // an access of this thread, checked as any other
  __emu_warp(kind, 0xffffffffu, (u64)&m, 0, 32, __LINE__, nullptr);
  for (int i = 0; i < 4; ++i) x[i] = m.x[i];
}
DTC_FN void dtc_load_matrices(u32* x, const void* row) { __emu_load_matrices(10, x, row); }
DTC_FN void dtc_load_transposed(u32* x, const void* row) { __emu_load_matrices(11, x, row); }
template <class T> DTC_FN u32 dtc_pair(f32 first, f32 second) {
  if constexpr (dtc_same<T, bf16>)
    return dtc_round_bf16(first) | dtc_round_bf16(second) << 16;
  else
    return dtc_round_f16(first) | dtc_round_f16(second) << 16;
}
DTC_FN f32 dtc_exp2_fast(f32 x) {
  const f32 y = dtc_exp2(x);
  return y < 0x1p-126f ? 0 : y;
}
DTC_FN f32 dtc_exp2_near(f32 x) { return dtc_exp2(x); }
DTC_FN f32 dtc_reciprocal_fast(f32 x) { return 1 / x; }
DTC_FN f32 dtc_near_div(f32 a, f32 b) { return a / b; }
DTC_FN f32 dtc_divide_fast(f32 a, f32 b) { return a / b; }
DTC_FN f64 dtc_divide_fast(f64 a, f64 b) { return a / b; }

// --- stores to global memory as one instruction ---
DTC_FN void dtc_store_words(uint4* p, uint4 x) { *p = x; }
DTC_FN void dtc_store_words(uint2* p, uint2 x) { *p = x; }

// --- asynchronous copies: the operands of a copy in flight may not be accessed (lib/Emu/EmuCluster.cpp) ---
extern "C" void __emu_copy_async(void* to, const void* from, i32 bytes, i32 line, const char* location);
extern "C" void __emu_copy_commit();
extern "C" void __emu_copy_wait(i32 left, i32 line, const char* location);
DTC_FN void dtc_copy_async(void* to, const void* from, i32 bytes) {
  __emu_copy_async(to, from, bytes, __LINE__, nullptr);
}
DTC_FN void dtc_copy_commit() { __emu_copy_commit(); }
template <int Left> DTC_FN void dtc_copy_wait() { __emu_copy_wait(Left, __LINE__, nullptr); }

// --- atomics: they return the old value ---
// reports that the result depends on the order of atomics: sums of floats round
extern "C" void __emu_inexact();
template <class T, class F> DTC_FN T __emu_update(T* p, F f) {
  T old;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  for (;;) {
    T next = f(old);
    if (__atomic_compare_exchange(p, &old, &next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
  }
}
template <class T> DTC_FN T atomicAdd(T* p, dtc_elem<T> v) {
  if constexpr (dtc_is_float<T>) __emu_inexact();
  return __emu_update(p, [=](T a) { return (T)(a + v); });
}
template <class T> DTC_FN T atomicSub(T* p, dtc_elem<T> v) {
  if constexpr (dtc_is_float<T>) __emu_inexact();
  return __emu_update(p, [=](T a) { return (T)(a - v); });
}
template <class T> DTC_FN T atomicMax(T* p, dtc_elem<T> v) {
  return __emu_update(p, [=](T a) { return a < v ? v : a; });
}
template <class T> DTC_FN T atomicMin(T* p, dtc_elem<T> v) {
  return __emu_update(p, [=](T a) { return v < a ? v : a; });
}
template <class T> DTC_FN T atomicAnd(T* p, dtc_elem<T> v) {
  return __emu_update(p, [=](T a) { return (T)(a & v); });
}
template <class T> DTC_FN T atomicOr(T* p, dtc_elem<T> v) {
  return __emu_update(p, [=](T a) { return (T)(a | v); });
}
template <class T> DTC_FN T atomicXor(T* p, dtc_elem<T> v) {
  return __emu_update(p, [=](T a) { return (T)(a ^ v); });
}
template <class T> DTC_FN T atomicExch(T* p, dtc_elem<T> v) {
  return __emu_update(p, [=](T) { return v; });
}
template <class T> DTC_FN T atomicCAS(T* p, dtc_elem<T> expected, dtc_elem<T> v) {
  __emu_inexact(); // its purpose is unknown
  return __emu_update(p, [=](T a) { return a == expected ? v : a; });
}

// --- memory ---
extern "C" void __emu_fence(i32 blocks); // 0: among the threads of the block alone
DTC_FN void __threadfence() { __emu_fence(1); }
DTC_FN void __threadfence_system() { __emu_fence(1); }
DTC_FN void __threadfence_block() { __emu_fence(0); }
template <class T> DTC_FN T __ldg(const T* p) { return *p; }
template <class T> DTC_FN T __ldcs(const T* p) { return *p; }
template <class T> DTC_FN T __ldcg(const T* p) { return *p; }
template <class T> DTC_FN void __stcs(T* p, T v) { *p = v; }
template <class T> DTC_FN void __stcg(T* p, T v) { *p = v; }
DTC_FN i32 __float_as_int(f32 x) { return __builtin_bit_cast(i32, x); }
DTC_FN u32 __float_as_uint(f32 x) { return __builtin_bit_cast(u32, x); }
DTC_FN f32 __int_as_float(i32 x) { return __builtin_bit_cast(f32, x); }
DTC_FN f32 __uint_as_float(u32 x) { return __builtin_bit_cast(f32, x); }
DTC_FN i64 __double_as_longlong(f64 x) { return __builtin_bit_cast(i64, x); }
DTC_FN f64 __longlong_as_double(i64 x) { return __builtin_bit_cast(f64, x); }
DTC_FN i32 __popc(u32 x) { return __builtin_popcount(x); }
DTC_FN i32 __clz(i32 x) { return x ? __builtin_clz((u32)x) : 32; }
DTC_FN i32 __ffs(i32 x) { return __builtin_ffs(x); }

// --- launching a kernel: the arguments' values through an array of pointers ---
template <class T, T... I> struct __emu_sequence {};
template <class... A, int... I>
static void __emu_apply(void (*kernel)(A...), void* const* arguments, __emu_sequence<int, I...>) {
  kernel(*(A*)arguments[I]...);
}
template <class... A> constexpr u64 __emu_arity(void (*)(A...)) { return sizeof...(A); }
template <class... A> static void __emu_invoke(void (*kernel)(A...), void* const* arguments) {
  __emu_apply(kernel, arguments, __make_integer_seq<__emu_sequence, int, sizeof...(A)>());
}
