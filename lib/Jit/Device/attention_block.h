// Device header, attention in CUDA and cuda-emu: softmax(score(q kᵀ)) v of Rows query rows by a block of 128 threads, without ever
// writing the scores of more than a tile of keys (online softmax: T. Dao et al., "FlashAttention", 2022). Thread (x, y) of
// 16 by 8 holds rows y * Rows / 8 and on, and of each every 16th key of a tile, then every 16th piece of the result; so the
// maximum and the sum of a row stay within half a warp. Shared memory is read 16 bytes at a time along what is summed over:
// eight rows of a thread make eight products of a key's piece.

DTC_FN i64 dtc_greatest(i64 a, i64 b) { return a > b ? a : b; }

struct dtc_none {}; // in the place of what is not asked for
template <class F> constexpr bool dtc_asked = true;
template <> inline constexpr bool dtc_asked<dtc_none> = false;

// Rows in memory whose elements lie together, each row at a multiple of 16 bytes: row i at p + i * stride.
template <class T> struct dtc_rows {
  T* p;
  i64 stride;
};
template <class F> constexpr bool dtc_are_rows = false;
template <class T> constexpr bool dtc_are_rows<dtc_rows<T>> = true;

// Rows [first, first + Rows) of `source`, those from `last` on and what is behind the columns zeros, to a tile of shared memory
// with rows of Columns rounded up to 16 bytes, `stride` apart. Of dtc_rows they are under way when this returns.
template <int Threads, int Rows, int Columns, class A, class Source>
DTC_FN void dtc_load_block(A* tile, int stride, i64 first, i64 last, Source source) {
  constexpr int L = 16 / (int)sizeof(A), pieces = (Columns + L - 1) / L;
  const int left = (i32)dtc_least(last - first, Rows);
  if constexpr (dtc_are_rows<Source>) {
    for (int n = (i32)threadIdx.x; n < Rows * pieces; n += Threads) {
      const int row = n / pieces, column = n % pieces * L;
      dtc_copy_async(tile + row * stride + column, source.p + (first + row) * source.stride + column,
                     row < left ? 16 : 0);
    }
  } else {
    for (int n = (i32)threadIdx.x; n < Rows * pieces * L; n += Threads) {
      const int row = n / (pieces * L), column = n % (pieces * L);
      tile[row * stride + column] = row < left && column < Columns ? source(first + row, (i64)column) : A(0);
    }
  }
}

// What the functions below know of a block: each thread has R rows, K keys of a tile, and E pieces of V elements of a row's result.
template <class T, int Rows_, int Keys_, int Depth, int Width_> struct dtc_block_cut {
  typedef T A;
  static constexpr int Threads = 128, Wide = 16, Rows = Rows_, Keys = Keys_, L = 16 / (int)sizeof(T),
                       Width = Width_;
  static constexpr int R = Rows / (Threads / Wide), K = Keys / Wide, Pieces = (Depth + L - 1) / L;
  static constexpr int V = Width % (Wide * L) == 0 ? L : Width % (Wide * 2) == 0 ? 2 : 1;
  static constexpr int E = (Width + Wide * V - 1) / (Wide * V);
  // From row to row in shared memory: 16 bytes past a multiple of them, so that neighbouring rows lie in other banks.
  static constexpr int QueryStride = (Pieces + 1) * L, Columns = (Width + L - 1) / L * L,
                       ValueStride = Columns + L, WeightStride = Keys + L;
};

// s += q kᵀ of the thread's rows and keys.
template <class Cut, class A> DTC_FN void dtc_block_scores(A (*s)[Cut::K], const A* q, const A* k) {
  constexpr int L = Cut::L;
#pragma unroll 1
  for (int c = 0; c < Cut::Pieces; ++c) {
    dtc_pack<A, L> b[Cut::K];
#pragma unroll
    for (int j = 0; j < Cut::K; ++j) b[j] = dtc_load_pack<L>(k + j * Cut::Wide * Cut::QueryStride + c * L);
#pragma unroll
    for (int r = 0; r < Cut::R; ++r) {
      const auto a = dtc_load_pack<L>(q + r * Cut::QueryStride + c * L);
#pragma unroll
      for (int j = 0; j < Cut::K; ++j)
#pragma unroll
        for (int l = 0; l < L; ++l) s[r][j] += a.at[l] * b[j].at[l];
    }
  }
}

// out += p v of the thread's rows and columns.
template <class Cut, class A>
DTC_FN void dtc_block_values(A (*out)[Cut::E][Cut::V], const A* p, const A* v, int x) {
  constexpr int L = Cut::L, V = Cut::V;
#pragma unroll 1
  for (int j = 0; j < Cut::Keys; j += L) {
    dtc_pack<A, L> a[Cut::R];
#pragma unroll
    for (int r = 0; r < Cut::R; ++r) a[r] = dtc_load_pack<L>(p + r * Cut::WeightStride + j);
#pragma unroll
    for (int l = 0; l < L; ++l)
#pragma unroll
      for (int e = 0; e < Cut::E; ++e) {
        const int column = (x + e * Cut::Wide) * V;
        dtc_pack<A, V> b = {};
        if (Cut::E * Cut::Wide * V <= Cut::Columns || column < Cut::Columns)
          b = dtc_load_pack<V>(v + (j + l) * Cut::ValueStride + column);
#pragma unroll
        for (int r = 0; r < Cut::R; ++r)
#pragma unroll
          for (int w = 0; w < V; ++w) out[r][e][w] += a[r].at[l] * b.at[w];
      }
  }
}

// What a thread knows of its rows.
template <class A, int R> struct dtc_block_rows {
  A greatest[R], sum[R]; // `sum` is of this thread's keys
  i32 begin[R], end[R];  // the keys that the row sees
};

// Scores become weights relative to the greatest so far, in shared memory, and what was summed so far is scaled down to it.
template <class Cut, class A, int R, class Score>
DTC_FN void dtc_block_softmax(A (*s)[Cut::K], A (*out)[Cut::E][Cut::V], dtc_block_rows<A, R>& rows, A* p,
                              int x, i64 first, i64 last, i32 key, Score score) {
  constexpr int K = Cut::K, Wide = Cut::Wide;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    A top = rows.greatest[r];
#pragma unroll
    for (int j = 0; j < K; ++j) {
      const i32 k = key + j * Wide;
      s[r][j] = k >= rows.begin[r] && k < rows.end[r] ? score(s[r][j], dtc_least(first + r, last), (i64)k)
                                                      : -dtc_infinity<A>();
      top = s[r][j] > top ? s[r][j] : top; // NaN may fall out: it stays in the sum
    }
    for (i32 lanes = Wide / 2; lanes > 0; lanes >>= 1) {
      const A other = dtc_shuffle_xor(top, lanes);
      top = other > top ? other : top;
    }
    const A base = top == -dtc_infinity<A>() ? A(0) : top; // a row that has seen no key yet
    const A scale = dtc_exp(rows.greatest[r] - base);
    A total = rows.sum[r] * scale;
#pragma unroll
    for (int j = 0; j < K; ++j) {
      const A weight = dtc_exp(s[r][j] - base);
      p[r * Cut::WeightStride + x + j * Wide] = weight;
      total += weight;
    }
    rows.greatest[r] = top, rows.sum[r] = total;
#pragma unroll
    for (int e = 0; e < Cut::E; ++e)
      for (int v = 0; v < Cut::V; ++v) out[r][e][v] *= scale;
  }
}

// The result's rows from `first` on, and what is asked of their sums. `none`: there are no keys at all.
template <class Cut, class A, int R, class Store, class RowSum>
DTC_FN void dtc_block_store(A (*out)[Cut::E][Cut::V], dtc_block_rows<A, R>& rows, int x, i64 first, i64 last,
                            bool none, Store store, RowSum rowSum) {
  constexpr int V = Cut::V;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    for (i32 lanes = Cut::Wide / 2; lanes > 0; lanes >>= 1)
      rows.sum[r] += dtc_shuffle_xor(rows.sum[r], lanes);
    const i64 row = first + r;
    if (row > last) continue;
    const A top = rows.greatest[r] == -dtc_infinity<A>() ? A(0) : rows.greatest[r];
    if constexpr (dtc_asked<RowSum>)
      if (x == 0) rowSum(row, dtc_log(rows.sum[r]) + top);
    const A inverse = none ? A(1) : A(1) / rows.sum[r]; // 0 / 0 where a row sees nothing, as softmax has it
#pragma unroll
    for (int e = 0; e < Cut::E; ++e) {
      const int column = (x + e * Cut::Wide) * V;
      dtc_pack<A, V> result;
      for (int v = 0; v < V; ++v) result.at[v] = out[r][e][v] * inverse;
      if constexpr (dtc_are_rows<Store>) {
        if (column < Cut::Width) dtc_store_pack(store.p + row * store.stride + column, result);
      } else {
        for (int v = 0; v < V; ++v)
          if (column + v < Cut::Width) store(row, (i64)(column + v), result.at[v]);
      }
    }
  }
}

//   query(i, c), key(j, c), value(j, c): elements, or dtc_rows of them.  begin(i), end(i): the keys that row i sees; neither
//   falls as i grows.  score(s, i, j): what becomes of the product s of row i and key j.  store(i, c, x): writes an element of
//   the result, or dtc_rows of it.  rowSum(i, x): the log of row i's sum of exponentials; or dtc_none.
template <class A, int Rows, int Keys, int Depth, int Width, class Query, class Key, class Value, class Begin,
          class End, class Score, class Store, class RowSum>
DTC_FN void dtc_attention(i64 first, i64 rows, i64 keys, Query query, Key key, Value value, Begin begin,
                          End end, Score score, Store store, RowSum rowSum) {
  typedef dtc_block_cut<A, Rows, Keys, Depth, Width> Cut;
  constexpr int Threads = Cut::Threads, Wide = Cut::Wide, R = Cut::R, K = Cut::K, E = Cut::E, V = Cut::V;
  constexpr int widest = Cut::QueryStride > Cut::ValueStride ? Cut::QueryStride : Cut::ValueStride;
  __shared__ __align__(16) A q[Rows * Cut::QueryStride];
  __shared__ __align__(16) A kv[Keys * widest]; // the keys of a tile, then its values
  __shared__ __align__(16) A p[Rows * Cut::WeightStride];
  const i32 thread = (i32)threadIdx.x, x = thread % Wide, y = thread / Wide * R;
  const i64 last = dtc_least(first + Rows, rows) - 1;
  dtc_load_block<Threads, Rows, Depth>(q, Cut::QueryStride, first, last + 1, query);
  dtc_block_rows<A, R> state;
  A out[R][E][V];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const i64 row = dtc_least(first + y + r, last); // rows past the end are not written
    state.begin[r] = (i32)begin(row), state.end[r] = (i32)end(row);
    state.greatest[r] = -dtc_infinity<A>(), state.sum[r] = 0;
#pragma unroll
    for (int e = 0; e < E; ++e)
      for (int v = 0; v < V; ++v) out[r][e][v] = 0;
  }
  const i64 seen = end(last); // what is behind is not read: it may be no number
#pragma unroll 1
  for (i64 at = begin(first); at < seen; at += Keys) {
    __syncthreads();
    dtc_load_block<Threads, Keys, Depth>(kv, Cut::QueryStride, at, seen, key);
    dtc_copy_commit();
    dtc_copy_wait<0>();
    __syncthreads();
    A s[R][K];
#pragma unroll
    for (int r = 0; r < R; ++r)
      for (int j = 0; j < K; ++j) s[r][j] = 0;
    dtc_block_scores<Cut>(s, q + y * Cut::QueryStride, kv + x * Cut::QueryStride);
    __syncthreads();
    dtc_load_block<Threads, Keys, Width>(kv, Cut::ValueStride, at, seen, value); // beside the softmax
    dtc_copy_commit();
    dtc_block_softmax<Cut>(s, out, state, p + y * Cut::WeightStride, x, first + y, last, (i32)at + x, score);
    dtc_copy_wait<0>();
    __syncthreads();
    dtc_block_values<Cut>(out, p + y * Cut::WeightStride, kv, x);
  }
  dtc_copy_commit(); // where no key is seen, the queries have not been waited for
  dtc_copy_wait<0>();
  dtc_block_store<Cut>(out, state, x, first + y, last, keys == 0, store, rowSum);
}
