// Device header, the loops of generated CPU kernels: `dtc_each<N>(begin, end, body)` calls body(i, lanes) for
// every N-th i; `lanes` tells which of the N elements from i on exist, and loads and stores them. The body is
// compiled twice: for full vectors and for the remainder.

#define DTC_INLINE __attribute__((always_inline))

template <int N> struct dtc_full {
  template <class T> DTC_INLINE Vec<dtc_compute<T>, N> load(const T* p) const { return dtc_load<N>(p); }
  template <class T> DTC_INLINE void store(T* p, Vec<dtc_compute<T>, N> x) const { dtc_store<N>(p, x); }
  // Bypasses the caches if `stream`, which requires that p is aligned.
  template <class T> DTC_INLINE void store(T* p, Vec<dtc_compute<T>, N> x, bool stream) const {
    if (stream)
      dtc_store_stream<N>(p, x);
    else
      dtc_store<N>(p, x);
  }
  DTC_INLINE dtc_planes<f32, N> load(const c64* p) const { return dtc_load_planes<N>(p, N); }
  DTC_INLINE dtc_planes<f64, N> load(const c128* p) const { return dtc_load_planes<N>(p, N); }
  DTC_INLINE void store(c64* p, dtc_planes<f32, N> x, bool = false) const { dtc_store_planes<N>(p, x, N); }
  DTC_INLINE void store(c128* p, dtc_planes<f64, N> x, bool = false) const { dtc_store_planes<N>(p, x, N); }
  template <class T> DTC_INLINE void prefetch(const T* p) const {
#pragma unroll
    for (int i = 0; i < N; i += 64 / (int)sizeof(T)) dtc_prefetch(p + i);
  }
  // Into the second-level cache: the first has no room for both rows.
  template <class T> DTC_INLINE void prefetch_far(const T* p) const {
#pragma unroll
    for (int i = 0; i < N; i += 64 / (int)sizeof(T)) dtc_prefetch_far(p + i);
  }
  template <class V> DTC_INLINE V keep(V x, V) const { return x; }
  DTC_INLINE int count() const { return N; }
};
template <int N> struct dtc_part {
  i64 n;
  template <class T> DTC_INLINE Vec<dtc_compute<T>, N> load(const T* p) const {
    return dtc_load_part<N>(p, n);
  }
  template <class T> DTC_INLINE void store(T* p, Vec<dtc_compute<T>, N> x) const {
    dtc_store_part<N>(p, x, n);
  }
  template <class T> DTC_INLINE void store(T* p, Vec<dtc_compute<T>, N> x, bool) const { store(p, x); }
  DTC_INLINE dtc_planes<f32, N> load(const c64* p) const { return dtc_load_planes<N>(p, n); }
  DTC_INLINE dtc_planes<f64, N> load(const c128* p) const { return dtc_load_planes<N>(p, n); }
  DTC_INLINE void store(c64* p, dtc_planes<f32, N> x, bool = false) const { dtc_store_planes<N>(p, x, n); }
  DTC_INLINE void store(c128* p, dtc_planes<f64, N> x, bool = false) const { dtc_store_planes<N>(p, x, n); }
  template <class T> DTC_INLINE void prefetch(const T*) const {}
  template <class T> DTC_INLINE void prefetch_far(const T*) const {}
  // Lanes past the end become `other`: the initial value of a reduction.
  template <class V> DTC_INLINE V keep(V x, V other) const {
    return dtc_select(dtc_lt(dtc_iota<dtc_with<V, i32>>(), (dtc_with<V, i32>)(i32)n), x, other);
  }
  DTC_INLINE int count() const { return (int)n; }
};
template <int N, class Body> DTC_FN void dtc_each(i64 begin, i64 end, Body&& body) {
  i64 i = begin;
  for (; i + N <= end; i += N) body(i, dtc_full<N>());
  if (i < end) body(i, dtc_part<N>{end - i});
}
// The same if the end is known to be a multiple of the vector: half of the code.
template <int N, class Body> DTC_FN void dtc_each_full(i64 begin, i64 end, Body&& body) {
  for (i64 i = begin; i < end; i += N) body(i, dtc_full<N>());
}
// The same for less than one vector. The number of lanes is hidden from the optimizer: with a known number, 9
// to 15 of 16, it takes minutes over loops in the body that it unrolls.
template <int N, class Body> DTC_FN void dtc_each_one(i64 begin, i64 end, Body&& body) {
  i64 n = end - begin;
  __asm__("" : "+r"(n));
  body(begin, dtc_part<N>{n});
}

// p[offset] per lane, 0 in the lanes past the end and where `guard` is false.
template <class L, class T, int N>
DTC_FN Vec<dtc_compute<T>, N> dtc_gather_lanes(L lanes, const T* p, Vec<i64, N> offset) {
  Vec<dtc_compute<T>, N> x = (Vec<dtc_compute<T>, N>)(dtc_compute<T>)0;
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < lanes.count()) x[i] = dtc_load(p + offset[i]);
  return x;
}
template <class L, class T, int N>
DTC_FN Vec<dtc_compute<T>, N> dtc_gather_if(L lanes, const T* p, Vec<i64, N> offset, Vec<bool, N> guard) {
  Vec<dtc_compute<T>, N> x = (Vec<dtc_compute<T>, N>)(dtc_compute<T>)0;
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < lanes.count() && guard[i]) x[i] = dtc_load(p + offset[i]);
  return x;
}
template <class L, class T, int N>
DTC_FN void dtc_scatter_lanes(L lanes, T* p, Vec<i64, N> offset, Vec<dtc_compute<T>, N> x) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < lanes.count()) dtc_store(p + offset[i], (dtc_compute<T>)x[i]);
}
template <class L, class T, int N>
DTC_FN void dtc_scatter_if(L lanes, T* p, Vec<i64, N> offset, Vec<dtc_compute<T>, N> x, Vec<bool, N> guard) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < lanes.count() && guard[i]) dtc_store(p + offset[i], (dtc_compute<T>)x[i]);
}

// The tile whose rows are these vectors, transposed: exchanges blocks off the diagonal, recursively.
template <class I, I... Lane> struct dtc_swapped {
  template <int D, class V> static DTC_INLINE void of(V& a, V& b) {
    const V low = __builtin_shufflevector(a, b, ((Lane & D) ? (int)sizeof...(Lane) + Lane - D : Lane)...);
    b = __builtin_shufflevector(a, b, ((Lane & D) ? (int)sizeof...(Lane) + Lane : Lane + D)...);
    a = low;
  }
};
template <int N, int D, class V> DTC_FN void dtc_transpose_tile(V (&rows)[N]) {
  if constexpr (D > 0) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if ((i & D) == 0) __make_integer_seq<dtc_swapped, int, N>::template of<D>(rows[i], rows[i + D]);
    dtc_transpose_tile<N, D / 2>(rows);
  }
}
// out[i * to + k] = in[k * from + i] for i < n, k < m: in tiles whose cache lines are read and written
// completely.
template <class T> DTC_FN void dtc_transpose(T* target, const T* source, i64 n, i64 m, i64 to, i64 from) {
  typedef typename dtc_int_of<sizeof(T)>::U U;
  constexpr int N = sizeof(T) == 8 ? 8 : 16;
  U* const out = (U*)target;
  const U* const in = (const U*)source;
  i64 i = 0;
  for (; i + N <= n; i += N) {
    i64 k = 0;
    for (; k + N <= m; k += N) {
      Vec<U, N> rows[N];
#pragma unroll
      for (int r = 0; r < N; ++r) rows[r] = dtc_load<N>(in + (k + r) * from + i);
      dtc_transpose_tile<N, N / 2>(rows);
#pragma unroll
      for (int r = 0; r < N; ++r) dtc_store<N>(out + (i + r) * to + k, rows[r]);
    }
    for (; k < m; ++k)
      for (int r = 0; r < N; ++r) out[(i + r) * to + k] = in[k * from + i + r];
  }
  for (; i < n; ++i)
    for (i64 k = 0; k < m; ++k) out[i * to + k] = in[k * from + i];
}

DTC_FN i64 dtc_index_min(i64 a, i64 b) { return a < b ? a : b; }
DTC_FN i64 dtc_blocks(i64 n, i64 per) { return (n + per - 1) / per; } // runs of at most `per` elements

// The same for complex numbers.
template <class L, class Z, int N>
DTC_FN dtc_planes<typename Z::part, N> dtc_gather_if(L lanes, const Z* p, Vec<i64, N> offset,
                                                     Vec<bool, N> guard) {
  dtc_planes<typename Z::part, N> x(0);
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < lanes.count() && guard[i]) x.re[i] = p[offset[i]].re, x.im[i] = p[offset[i]].im;
  return x;
}
template <class L, class Z, int N>
DTC_FN dtc_planes<typename Z::part, N> dtc_gather_lanes(L lanes, const Z* p, Vec<i64, N> offset) {
  return dtc_gather_if(lanes, p, offset, (Vec<bool, N>)true);
}
template <class L, class Z, int N>
DTC_FN void dtc_scatter_lanes(L lanes, Z* p, Vec<i64, N> offset, dtc_planes<typename Z::part, N> x) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < lanes.count()) p[offset[i]] = Z(x.re[i], x.im[i]);
}
