// Device header, attention in CUDA and cuda-emu: softmax(score(q kᵀ)) v of Rows query rows by a block of 128
// threads, without materializing the scores of more than a tile of keys (online softmax: T. Dao et al.,
// "FlashAttention", 2022). Thread (x, y) of 16 by 8 holds rows y * Rows / 8 and on, and of each every 16th
// key of a tile, then every 16th part of the result; so the max and the sum of a row stay within half a warp.
// Shared memory is read 16 bytes at a time along the contracted dim: eight rows of a thread give eight
// products per part of a key.

DTC_FN i64 dtc_index_max(i64 a, i64 b) { return a > b ? a : b; }

struct dtc_none {}; // a placeholder for outputs that are not requested
template <class F> constexpr bool dtc_asked = true;
template <> inline constexpr bool dtc_asked<dtc_none> = false;

// Contiguous rows in memory, each at a multiple of 16 bytes: row i at p + i * stride.
template <class T> struct dtc_rows {
  T* p;
  i64 stride;
};
template <class F> constexpr bool dtc_are_rows = false;
template <class T> constexpr bool dtc_are_rows<dtc_rows<T>> = true;

// Copies rows [first, first + Rows) of `source` to a tile of shared memory, with zeros for rows from `last`
// on and past the columns; its rows are Columns rounded up to 16 bytes, `stride` apart. For dtc_rows the copy
// is still in flight on return.
template <int Threads, int Rows, int Columns, class A, class Source>
DTC_FN void dtc_load_block(A* tile, int stride, i64 first, i64 last, Source source) {
  constexpr int L = 16 / (int)sizeof(A), units = (Columns + L - 1) / L;
  const int left = (i32)dtc_index_min(last - first, Rows);
  if constexpr (dtc_are_rows<Source>) {
    for (int n = (i32)threadIdx.x; n < Rows * units; n += Threads) {
      const int row = n / units, column = n % units * L;
      dtc_copy_async(tile + row * stride + column, source.p + (first + row) * source.stride + column,
                     row < left ? 16 : 0);
    }
  } else {
    for (int n = (i32)threadIdx.x; n < Rows * units * L; n += Threads) {
      const int row = n / (units * L), column = n % (units * L);
      tile[row * stride + column] = row < left && column < Columns ? source(first + row, (i64)column) : A(0);
    }
  }
}

// The layout of a block, for the functions below: each thread has R rows, K keys of a tile, and E parts of V
// elements of a row's result.
template <class T, int Rows_, int Keys_, int Depth, int Width_> struct dtc_block_layout {
  typedef T A;
  static constexpr int Threads = 128, Wide = 16, Rows = Rows_, Keys = Keys_, L = 16 / (int)sizeof(T),
                       Width = Width_;
  static constexpr int R = Rows / (Threads / Wide), K = Keys / Wide, Pieces = (Depth + L - 1) / L;
  static constexpr int V = Width % (Wide * L) == 0 ? L : Width % (Wide * 2) == 0 ? 2 : 1;
  static constexpr int E = (Width + Wide * V - 1) / (Wide * V);
  // The row stride in shared memory: 16 bytes past a multiple of them, so that neighboring rows are in
  // different banks.
  static constexpr int QueryStride = (Pieces + 1) * L, Columns = (Width + L - 1) / L * L,
                       ValueStride = Columns + L, WeightStride = Keys + L;
};

// s += q kᵀ of the thread's rows and keys.
template <class Layout, class A> DTC_FN void dtc_block_scores(A (*s)[Layout::K], const A* q, const A* k) {
  constexpr int L = Layout::L;
#pragma unroll 1
  for (int c = 0; c < Layout::Pieces; ++c) {
    dtc_pack<A, L> b[Layout::K];
#pragma unroll
    for (int j = 0; j < Layout::K; ++j)
      b[j] = dtc_load_pack<L>(k + j * Layout::Wide * Layout::QueryStride + c * L);
#pragma unroll
    for (int r = 0; r < Layout::R; ++r) {
      const auto a = dtc_load_pack<L>(q + r * Layout::QueryStride + c * L);
#pragma unroll
      for (int j = 0; j < Layout::K; ++j)
#pragma unroll
        for (int l = 0; l < L; ++l) s[r][j] += a.at[l] * b[j].at[l];
    }
  }
}

// out += p v of the thread's rows and columns.
template <class Layout, class A>
DTC_FN void dtc_block_values(A (*out)[Layout::E][Layout::V], const A* p, const A* v, int x) {
  constexpr int L = Layout::L, V = Layout::V;
#pragma unroll 1
  for (int j = 0; j < Layout::Keys; j += L) {
    dtc_pack<A, L> a[Layout::R];
#pragma unroll
    for (int r = 0; r < Layout::R; ++r) a[r] = dtc_load_pack<L>(p + r * Layout::WeightStride + j);
#pragma unroll
    for (int l = 0; l < L; ++l)
#pragma unroll
      for (int e = 0; e < Layout::E; ++e) {
        const int column = (x + e * Layout::Wide) * V;
        dtc_pack<A, V> b = {};
        if (Layout::E * Layout::Wide * V <= Layout::Columns || column < Layout::Columns)
          b = dtc_load_pack<V>(v + (j + l) * Layout::ValueStride + column);
#pragma unroll
        for (int r = 0; r < Layout::R; ++r)
#pragma unroll
          for (int w = 0; w < V; ++w) out[r][e][w] += a[r].at[l] * b.at[w];
      }
  }
}

// The state of a thread's rows.
template <class A, int R> struct dtc_block_rows {
  A rowMax[R], sum[R];  // `sum` covers this thread's keys
  i32 begin[R], end[R]; // the keys that the row attends to
};

// Turns scores into weights relative to the max so far, in shared memory, and rescales the sums.
template <class Layout, class A, int R, class Score>
DTC_FN void dtc_block_softmax(A (*s)[Layout::K], A (*out)[Layout::E][Layout::V], dtc_block_rows<A, R>& rows,
                              A* p, int x, i64 first, i64 last, i32 key, Score score) {
  constexpr int K = Layout::K, Wide = Layout::Wide;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    A top = rows.rowMax[r];
#pragma unroll
    for (int j = 0; j < K; ++j) {
      const i32 k = key + j * Wide;
      s[r][j] = k >= rows.begin[r] && k < rows.end[r] ? score(s[r][j], dtc_index_min(first + r, last), (i64)k)
                                                      : -dtc_infinity<A>();
      top = s[r][j] > top ? s[r][j] : top; // `max` may ignore NaN: it stays in the sum
    }
    for (i32 lanes = Wide / 2; lanes > 0; lanes >>= 1) {
      const A other = dtc_shuffle_xor(top, lanes);
      top = other > top ? other : top;
    }
    const A base = top == -dtc_infinity<A>() ? A(0) : top; // a row that has attended to no key yet
    const A scale = dtc_exp(rows.rowMax[r] - base);
    A total = rows.sum[r] * scale;
#pragma unroll
    for (int j = 0; j < K; ++j) {
      const A weight = dtc_exp(s[r][j] - base);
      p[r * Layout::WeightStride + x + j * Wide] = weight;
      total += weight;
    }
    rows.rowMax[r] = top, rows.sum[r] = total;
#pragma unroll
    for (int e = 0; e < Layout::E; ++e)
      for (int v = 0; v < Layout::V; ++v) out[r][e][v] *= scale;
  }
}

// Stores the result's rows from `first` on, and the requested row sums. `none`: there are no keys at all.
template <class Layout, class A, int R, class Store, class RowSum>
DTC_FN void dtc_block_store(A (*out)[Layout::E][Layout::V], dtc_block_rows<A, R>& rows, int x, i64 first,
                            i64 last, bool none, Store store, RowSum rowSum) {
  constexpr int V = Layout::V;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    for (i32 lanes = Layout::Wide / 2; lanes > 0; lanes >>= 1)
      rows.sum[r] += dtc_shuffle_xor(rows.sum[r], lanes);
    const i64 row = first + r;
    if (row > last) continue;
    const A top = rows.rowMax[r] == -dtc_infinity<A>() ? A(0) : rows.rowMax[r];
    if constexpr (dtc_asked<RowSum>)
      if (x == 0) rowSum(row, dtc_log(rows.sum[r]) + top);
    // 0 / 0 where a row attends to nothing, as in softmax
    const A inverse = none ? A(1) : A(1) / rows.sum[r];
#pragma unroll
    for (int e = 0; e < Layout::E; ++e) {
      const int column = (x + e * Layout::Wide) * V;
      dtc_pack<A, V> result;
      for (int v = 0; v < V; ++v) result.at[v] = out[r][e][v] * inverse;
      if constexpr (dtc_are_rows<Store>) {
        if (column < Layout::Width) dtc_store_pack(store.p + row * store.stride + column, result);
      } else {
        for (int v = 0; v < V; ++v)
          if (column + v < Layout::Width) store(row, (i64)(column + v), result.at[v]);
      }
    }
  }
}

// query(i, c), key(j, c), value(j, c): elements, or dtc_rows of them.  begin(i), end(i): the keys that row i
// attends to; both are monotonic in i.  score(s, i, j): the score from the dot product s of row i and key j.
// store(i, c, x): writes an element of the result, or dtc_rows of it.  rowSum(i, x): the log of row i's sum
// of exponentials; or dtc_none.
template <class A, int Rows, int Keys, int Depth, int Width, class Query, class Key, class Value, class Begin,
          class End, class Score, class Store, class RowSum>
DTC_FN void dtc_attention(i64 first, i64 rows, i64 keys, Query query, Key key, Value value, Begin begin,
                          End end, Score score, Store store, RowSum rowSum) {
  typedef dtc_block_layout<A, Rows, Keys, Depth, Width> Layout;
  constexpr int Threads = Layout::Threads, Wide = Layout::Wide, R = Layout::R, K = Layout::K, E = Layout::E,
                V = Layout::V;
  constexpr int widest =
      Layout::QueryStride > Layout::ValueStride ? Layout::QueryStride : Layout::ValueStride;
  __shared__ __align__(16) A q[Rows * Layout::QueryStride];
  __shared__ __align__(16) A kv[Keys * widest]; // the keys of a tile, then its values
  __shared__ __align__(16) A p[Rows * Layout::WeightStride];
  const i32 thread = (i32)threadIdx.x, x = thread % Wide, y = thread / Wide * R;
  const i64 last = dtc_index_min(first + Rows, rows) - 1;
  dtc_load_block<Threads, Rows, Depth>(q, Layout::QueryStride, first, last + 1, query);
  dtc_block_rows<A, R> state;
  A out[R][E][V];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const i64 row = dtc_index_min(first + y + r, last); // rows past the end are not written
    state.begin[r] = (i32)begin(row), state.end[r] = (i32)end(row);
    state.rowMax[r] = -dtc_infinity<A>(), state.sum[r] = 0;
#pragma unroll
    for (int e = 0; e < E; ++e)
      for (int v = 0; v < V; ++v) out[r][e][v] = 0;
  }
  const i64 seen = end(last); // elements past the end are not read: they may be NaN
#pragma unroll 1
  for (i64 at = begin(first); at < seen; at += Keys) {
    __syncthreads();
    dtc_load_block<Threads, Keys, Depth>(kv, Layout::QueryStride, at, seen, key);
    dtc_copy_commit();
    dtc_copy_wait<0>();
    __syncthreads();
    A s[R][K];
#pragma unroll
    for (int r = 0; r < R; ++r)
      for (int j = 0; j < K; ++j) s[r][j] = 0;
    dtc_block_scores<Layout>(s, q + y * Layout::QueryStride, kv + x * Layout::QueryStride);
    __syncthreads();
    // overlapped with the softmax
    dtc_load_block<Threads, Keys, Width>(kv, Layout::ValueStride, at, seen, value);
    dtc_copy_commit();
    dtc_block_softmax<Layout>(s, out, state, p + y * Layout::WeightStride, x, first + y, last, (i32)at + x,
                              score);
    dtc_copy_wait<0>();
    __syncthreads();
    dtc_block_values<Layout>(out, p + y * Layout::WeightStride, kv, x);
  }
  dtc_copy_commit(); // without any keys, the copy of the queries has not been waited for
  dtc_copy_wait<0>();
  dtc_block_store<Layout>(out, state, x, first + y, last, keys == 0, store, rowSum);
}
