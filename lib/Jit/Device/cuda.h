// Device header, CUDA's own part (NVRTC, no includes): the functions that the CPU has in math.h, and those that need inline
// PTX. What stands here has a twin of the same name in math.h, core.h or emu.h.

DTC_FN f32 dtc_max_nan(f32 a, f32 b) {
  f32 y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
DTC_FN f32 dtc_min_nan(f32 a, f32 b) {
  f32 y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
DTC_FN f64 dtc_max_nan(f64 a, f64 b) { return a > b || a != a ? a : b; }
DTC_FN f64 dtc_min_nan(f64 a, f64 b) { return a < b || a != a ? a : b; }

// A barrier of `threads` threads of the block, whole warps; id is 1 to 15.
DTC_FN void dtc_barrier(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- clusters (sm_90 and later): kernels with __cluster_dims__ ---
DTC_FN u32 dtc_cluster_rank() {
  u32 rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
DTC_FN u32 dtc_cluster_size() {
  u32 size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
// A barrier of all threads of the cluster; it orders shared and global memory among them.
DTC_FN void dtc_cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Where the block of that rank has what lies at `p` in the shared memory of this one.
DTC_FN const void* dtc_map_shared_address(const void* p, u32 rank) {
  u64 mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"((u64)p), "r"(rank));
  return (const void*)mapped;
}

#define DTC_CUDA1(name)                                                                                      \
  DTC_FN f32 dtc_##name(f32 x) { return name##f(x); }                                                        \
  DTC_FN f64 dtc_##name(f64 x) { return name(x); }
#define DTC_CUDA2(name)                                                                                      \
  DTC_FN f32 dtc_##name(f32 a, f32 b) { return name##f(a, b); }                                              \
  DTC_FN f64 dtc_##name(f64 a, f64 b) { return name(a, b); }
#define DTC_CUDA_ROUND(name, function)                                                                       \
  DTC_FN f32 dtc_##name(f32 x) { return function##f(x); }                                                    \
  DTC_FN f64 dtc_##name(f64 x) { return function(x); }                                                       \
  template <class T> DTC_FN T dtc_##name(T x) { return x; } // integers
DTC_CUDA1(exp)
DTC_CUDA1(exp2)
DTC_CUDA1(expm1)
DTC_CUDA1(log)
DTC_CUDA1(log2)
DTC_CUDA1(log1p)
DTC_CUDA1(sin)
DTC_CUDA1(cos)
DTC_CUDA1(tan)
DTC_CUDA1(asin)
DTC_CUDA1(acos)
DTC_CUDA1(atan)
DTC_CUDA1(sinh)
DTC_CUDA1(cosh)
DTC_CUDA1(tanh)
DTC_CUDA1(erf)
DTC_CUDA1(erfc)
DTC_CUDA1(asinh)
DTC_CUDA1(acosh)
DTC_CUDA1(atanh)
DTC_CUDA1(cbrt)
DTC_CUDA1(lgamma)
DTC_CUDA1(sqrt)
DTC_CUDA1(rsqrt)
DTC_CUDA2(pow)
DTC_CUDA2(atan2)
DTC_CUDA2(fmod)
DTC_CUDA_ROUND(floor, floor)
DTC_CUDA_ROUND(ceil, ceil)
DTC_CUDA_ROUND(trunc, trunc)
DTC_CUDA_ROUND(round, rint)
DTC_FN f32 dtc_erf_inv(f32 x) { return erfinvf(x); }
DTC_FN f64 dtc_erf_inv(f64 x) { return erfinv(x); }
DTC_FN f32 dtc_fma(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
DTC_FN f64 dtc_fma(f64 a, f64 b, f64 c) { return fma(a, b, c); }
