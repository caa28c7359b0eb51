// Device header, CUDA's own part (NVRTC, no includes): the functions that the CPU has in math.h, and those
// that need inline PTX. Each has an equivalent of the same name in math.h, core.h or emu.h.

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

// A barrier of `threads` threads of the block, complete warps; id is 1 to 15.
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
// The last cluster barrier, before which no block ends: shared memory has been read by then, so that no
// ordering is needed, and a block does not wait for its stores (PTX ISA, barrier.cluster: by default an
// arrive is a release, with a fence).
DTC_FN void dtc_cluster_end() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// The address in the shared memory of the block of that rank that corresponds to `p` in this block's.
DTC_FN const void* dtc_map_shared_address(const void* p, u32 rank) {
  u64 mapped;
  asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"((u64)p), "r"(rank));
  return (const void*)mapped;
}

// --- tensor cores (sm_80 and later): all 32 lanes of a warp take part ---
//
// c += a b, sums in f32; a is 16 x 16, b 16 x 8, c 16 x 8 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with
// floating point type"). Lane 4 r + q holds, two elements per register, the lower column (of b: row) first:
//   a[0], a[1]: columns 2q, 2q+1 of rows r and r+8;  a[2], a[3]: columns 2q+8, 2q+9 of the same rows
//   b0, b1: rows 2q, 2q+1 and 2q+8, 2q+9 of column r;  c[0], c[1]: columns 2q, 2q+1 of row r;  c[2], c[3]: of
//   row r+8
template <class T> DTC_FN void dtc_mma(f32* c, const u32* a, u32 b0, u32 b1) {
  if constexpr (dtc_same<T, bf16>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Loads four 8 x 8 matrices of 16-bit elements from shared memory: row i of matrix m is at the address in
// lane 8 m + i, 16 aligned bytes. Lane 4 r + q gets of matrix m, in x[m], columns 2q, 2q+1 of row r;
// transposed: rows 2q, 2q+1 of column r.
DTC_FN void dtc_load_matrices(u32* x, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
DTC_FN void dtc_load_transposed(u32* x, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"((u32)__cvta_generic_to_shared(row))
               : "memory");
}
// Two floats rounded to T (bf16 or f16), the first in the lower half.
template <class T> DTC_FN u32 dtc_pair(f32 first, f32 second) {
  u32 y;
  if constexpr (dtc_same<T, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));
  return y;
}
// 2 to the x, within 2 ulp; results below the smallest normal number are 0.
DTC_FN f32 dtc_exp2_fast(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// The same with subnormal results.
DTC_FN f32 dtc_exp2_near(f32 x) {
  f32 y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 1 / x within 1 ulp, where x is from 1 to 2^126, or infinite or NaN.
DTC_FN f32 dtc_reciprocal_fast(f32 x) {
  f32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// a / b within 2 ulp.
DTC_FN f32 dtc_near_div(f32 a, f32 b) {
  f32 y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

// Within 2 ulp, where b is below 2^126.
DTC_FN f32 dtc_divide_fast(f32 a, f32 b) { return __fdividef(a, b); }
DTC_FN f64 dtc_divide_fast(f64 a, f64 b) { return a / b; }

// --- f32 to and from narrow floats (bf16: sm_80 and later; f8: sm_89) ---
//
// Rounded to nearest, ties to even, including subnormals. NaN gives one pattern, and overflow of an f8 its
// max: ops.h (dtc_encode, dtc_decode) corrects the differences to the IR.
#define DTC_CONVERTS
#if __CUDA_ARCH__ >= 890
#define DTC_CONVERTS_F8
#endif
// Uses the instructions for pairs: ptxas compiles those for single values to a unit shared with ex2 and rcp,
// 16 lanes per clock.
DTC_FN u32 dtc_round_bf16(f32 x) { return dtc_pair<bf16>(x, 0); }
DTC_FN u32 dtc_round_f16(f32 x) { return dtc_pair<f16>(x, 0); }
DTC_FN f32 dtc_widen_f16(u32 bits) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((u16)bits));
  return y;
}
#ifdef DTC_CONVERTS_F8
DTC_FN u32 dtc_round_f8e4m3(f32 x) {
  u16 y;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
  return y;
}
DTC_FN u32 dtc_round_f8e5m2(f32 x) {
  u16 y;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
  return y;
}
// As an f16.
DTC_FN u32 dtc_widen_f8e4m3(u32 bits) {
  u32 y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((u16)bits));
  return y & 0xffffu;
}
#endif

// --- stores of 8 and 16 bytes to global memory, aligned ---
//
// As one instruction: NVVM takes a store of a uint4 apart, and joins the words again only where it still knows
// the distance of their addresses, which it loses in kernels with many packs per thread.
DTC_FN void dtc_store_words(uint4* p, uint4 x) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)), "r"(x.x),
               "r"(x.y), "r"(x.z), "r"(x.w)
               : "memory");
}
DTC_FN void dtc_store_words(uint2* p, uint2 x) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "r"(x.x), "r"(x.y)
               : "memory");
}

// --- asynchronous copies from global to shared memory (sm_80 and later) ---
//
// 16 bytes, aligned on both sides: `bytes` of the source, the rest zeros. They are visible to the thread
// itself after it has waited for their group, and to others after a further barrier.
DTC_FN void dtc_copy_async(void* to, const void* from, i32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
// Commits the copies started since the last commit as a group.
DTC_FN void dtc_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most the `Left` latest groups of the thread are in flight.
template <int Left> DTC_FN void dtc_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
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
