// Device header, attention on the CPU: softmax(score(q kᵀ)) v of one block of query rows, without
// materializing the scores of more than a tile of keys (M. Milakov and N. Gimelshein, "Online normalizer
// calculation for softmax", 2018; T. Dao et al., "FlashAttention", 2022). The query rows are in the lanes, R
// vectors of N: keys and values are read in place, one element for all rows, and the max, the sum and the
// rescaling of a row need no operation across lanes.

DTC_FN i64 dtc_index_max(i64 a, i64 b) { return a > b ? a : b; }

#define DTC_UNROLL _Pragma("clang loop unroll(full)")

// y[j][r] += sum over c < depth of a(j, c) * b[c][r], for M values of j: the inner loops of both matrix
// products.
template <int M, int R, class V, class A> DTC_FN void dtc_rank_updates(i64 depth, A a, const V* b, V* y) {
  V sum[M][R];
  DTC_UNROLL for (int j = 0; j < M; ++j) DTC_UNROLL for (int r = 0; r < R; ++r) sum[j][r] = y[j * R + r];
  for (i64 c = 0; c < depth; ++c) {
    V row[R];
    DTC_UNROLL for (int r = 0; r < R; ++r) row[r] = b[c * R + r];
    DTC_UNROLL for (int j = 0; j < M; ++j) {
      const V x = (V)a(j, c);
      DTC_UNROLL for (int r = 0; r < R; ++r) sum[j][r] += x * row[r];
    }
  }
  DTC_UNROLL for (int j = 0; j < M; ++j) DTC_UNROLL for (int r = 0; r < R; ++r) y[j * R + r] = sum[j][r];
}
// The same for `count` values of j, a(j, c) = p[j * row + c * column].
template <int R, class V, class T>
DTC_FN void dtc_product(i64 count, i64 depth, const T* p, i64 row, i64 column, const V* b, V* y) {
  constexpr int M = DTC_VECTOR_BYTES == 64 ? 8 : 4;
  i64 j = 0;
  for (; j + M <= count; j += M) {
    const T* const at = p + j * row;
    dtc_rank_updates<M, R>(
        depth, [=](int m, i64 c) DTC_INLINE { return at[m * row + c * column]; }, b, y + j * R);
  }
  for (; j < count; ++j) {
    const T* const at = p + j * row;
    dtc_rank_updates<1, R>(depth, [=](int, i64 c) DTC_INLINE { return at[c * column]; }, b, y + j * R);
  }
}

// A matrix in memory: element [i][j] at p[i * row + j * column].
template <class T> struct dtc_matrix {
  const T* p;
  i64 row, column;
};
// Copies rows [begin, begin + count) contiguously to `room`, in the compute type: in memory the rows of one
// head are often a power of two apart and evict each other from the cache.
template <class A, class T>
DTC_FN dtc_matrix<A> dtc_unpacked(dtc_matrix<T> m, i64 begin, i64 count, i64 width, A* room) {
  const T* const p = m.p + begin * m.row;
  constexpr int N = DTC_VECTOR_BYTES / sizeof(A);
  for (i64 i = 0; i < count; ++i) {
    if (m.column == 1)
      dtc_each<N>(0, width, [&](i64 j, auto lanes) DTC_INLINE {
        lanes.store(room + i * width + j, lanes.load(p + i * m.row + j));
      });
    else
      for (i64 j = 0; j < width; ++j) room[i * width + j] = dtc_load(p + i * m.row + j * m.column);
  }
  return {room, width, 1};
}

// The number of keys processed together, and of blocks of rows that share their unpacked values.
// (lib/Kernel/print/PrintAttention.cpp requests scratch with the same numbers.)
constexpr i64 dtc_attention_keys = 64, dtc_attention_blocks = 8;

template <class A, int N, int R> struct dtc_attention_rows {
  typedef Vec<A, N> V;
  V *q, *y, *rowMax, *sum; // [depth][R], [width][R], [R], [R]
  dtc_sint<V>*begin, *end; // [R]: the keys that each row attends to
};

struct dtc_none {}; // a placeholder for outputs that are not requested
template <class F> constexpr bool dtc_asked = true;
template <> inline constexpr bool dtc_asked<dtc_none> = false;

template <class F, class V> constexpr bool dtc_calls = requires(F f, V s) { f(s, i64(0), i64(0)); };

// Turns the scores of a tile of `count` keys from `first` on, in p, into exp(score - max so far), and
// rescales the sums.
template <class A, int N, int R, class Score>
DTC_FN void dtc_attention_weights(dtc_attention_rows<A, N, R> state, Vec<A, N>* p, i64 row, i64 rows,
                                  i64 first, i64 count, i64 width, bool all, Score score) {
  typedef Vec<A, N> V;
  typedef dtc_sint<V> S;
  for (int r = 0; r < R; ++r) {
    V top = state.rowMax[r];
    auto pass = [&](auto lanes) DTC_INLINE { // `top` may ignore NaN: it stays in the sum
      for (i64 j = 0; j < count; ++j) {
        V s;
        if constexpr (dtc_calls<Score, V>)
          s = score(p[j * R + r], row + (i64)r * N, first + j);
        else
          s = score(p[j * R + r], row + (i64)r * N, first + j, lanes);
        if (!all) {
          const S at = (S)(dtc_elem<S>)(first + j);
          s = ((at >= state.begin[r]) & (at < state.end[r])) ? s : (V)-dtc_infinity<A>();
        }
        p[j * R + r] = s;
        top = s > top ? s : top;
      }
    };
    if constexpr (dtc_calls<Score, V>) // the score loads nothing by row
      pass(0);
    else if (rows >= (r + 1) * N)
      pass(dtc_full<N>());
    else if (rows > r * N)
      pass(dtc_part<N>{rows - r * N});
    const V base = top == -dtc_infinity<A>() ? (V)(A)0 : top; // a row that has attended to no key yet
    const V scale = dtc_exp(state.rowMax[r] - base);
    V total = state.sum[r] * scale;
    for (i64 j = 0; j < count; ++j) {
      const V x = dtc_exp(p[j * R + r] - base);
      p[j * R + r] = x;
      total += x;
    }
    state.rowMax[r] = top, state.sum[r] = total;
    for (i64 c = 0; c < width; ++c) state.y[c * R + r] *= scale;
  }
}

// Rows [first, first + rows), at most dtc_attention_blocks * N * R of them, against `keys` keys.
//   query(i, c): element c of query row i.  begin(i), end(i): the keys that row i attends to; both are
//   monotonic in i.
//   score(s, i, j, lanes): the score from the dot products s of key j with the rows from i on; without
//   `lanes` where it loads
//   nothing by row.
//   store(i, c, x): writes an element of the result.  rowSum(i, x): the log of row i's sum of exponentials;
//   or dtc_none.
template <class A, int N, int R, class TK, class TV, class Query, class Begin, class End, class Score,
          class Store, class RowSum>
DTC_FN void dtc_attention(i64 first, i64 rows, i64 keys, i64 depth, i64 width, dtc_matrix<TK> k,
                          dtc_matrix<TV> v, void* scratch, Query query, Begin begin, End end, Score score,
                          Store store, RowSum rowSum) {
  typedef Vec<A, N> V;
  typedef dtc_sint<V> S;
  constexpr i64 block = N * R;
  V* const q = (V*)scratch;
  V* const y = q + dtc_attention_blocks * depth * R;
  V* const rowMax = y + dtc_attention_blocks * width * R;
  V* const sum = rowMax + dtc_attention_blocks * R;
  S* const from = (S*)(sum + dtc_attention_blocks * R);
  S* const to = from + dtc_attention_blocks * R;
  V* const p = (V*)(to + dtc_attention_blocks * R); // [a tile of keys][R]
  A* const roomK = (A*)(p + dtc_attention_keys * R);
  A* const roomV = roomK + dtc_attention_keys * depth;
  auto stateOf = [=](i64 b) DTC_INLINE {
    return dtc_attention_rows<A, N, R>{q + b * depth * R, y + b * width * R, rowMax + b * R,
                                       sum + b * R,       from + b * R,      to + b * R};
  };
  const i64 blocks = dtc_blocks(rows, block), last = first + rows - 1;
  for (i64 b = 0; b < blocks; ++b) {
    const dtc_attention_rows<A, N, R> state = stateOf(b);
    // Element by element through memory: an insertion into a vector at a variable index is ten times slower.
    for (i64 i = 0; i < block; ++i) {
      const i64 row = dtc_index_min(first + b * block + i,
                                    last); // rows past the end repeat the last one, and are not written
      for (i64 c = 0; c < depth; ++c) ((A*)state.q)[c * block + i] = query(row, c);
      ((dtc_elem<S>*)state.begin)[i] = (dtc_elem<S>)begin(row);
      ((dtc_elem<S>*)state.end)[i] = (dtc_elem<S>)end(row);
    }
    for (i64 c = 0; c < width * R; ++c) state.y[c] = (V)(A)0;
    for (int r = 0; r < R; ++r) state.rowMax[r] = (V)-dtc_infinity<A>(), state.sum[r] = (V)(A)0;
  }
  const i64 seen = end(last);
  for (i64 key = begin(first); key < seen; key += dtc_attention_keys) {
    const i64 count = dtc_index_min(dtc_attention_keys, seen - key);
    const dtc_matrix<A> tile = dtc_unpacked<A>(k, key, count, depth, roomK);
    const dtc_matrix<A> values = dtc_unpacked<A>(v, key, count, width, roomV);
    for (i64 b = 0; b < blocks; ++b) {
      const i64 row = first + b * block, lastRow = dtc_index_min(row + block - 1, last);
      if (key >= end(lastRow) || key + count <= begin(row)) continue;
      const dtc_attention_rows<A, N, R> state = stateOf(b);
      for (i64 c = 0; c < count * R; ++c) p[c] = (V)(A)0;
      dtc_product<R>(count, depth, tile.p, tile.row, tile.column, state.q, p);
      const bool all = key >= begin(lastRow) && key + count <= end(row);
      dtc_attention_weights<A, N, R>(state, p, row, last + 1 - row, key, count, width, all, score);
      dtc_product<R>(width, count, values.p, values.column, values.row, p, state.y);
    }
  }
  for (i64 b = 0; b < blocks; ++b) {
    const dtc_attention_rows<A, N, R> state = stateOf(b);
    DTC_UNROLL for (int r = 0; r < R; ++r) { // 0 / 0 where a row attends to nothing, as in softmax
      const V total = keys == 0 ? (V)(A)1 : state.sum[r];
      for (i64 c = 0; c < width; ++c) state.y[c * R + r] /= total;
      if constexpr (dtc_asked<RowSum>) { // of no key -inf
        const V base = state.rowMax[r] == -dtc_infinity<A>() ? (V)(A)0 : state.rowMax[r];
        state.sum[r] = dtc_log(state.sum[r]) + base;
      }
    }
    if constexpr (dtc_asked<RowSum>)
      for (i64 i = 0; i < block && b * block + i < rows; ++i)
        rowSum(first + b * block + i, ((const A*)state.sum)[i]);
    for (i64 i = 0; i < block && b * block + i < rows; ++i)
      for (i64 c = 0; c < width; ++c) store(first + b * block + i, c, ((const A*)state.y)[c * block + i]);
  }
}
