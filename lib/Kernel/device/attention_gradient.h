// Device header, the gradient of attention of bf16 and f16 on tensor cores, in CUDA and cuda-emu: weights and
// their cotangents are recomputed from the log-sum-exp, tile by tile (T. Dao et al., "FlashAttention", 2022,
// algorithm 4), and neither is materialized. Some blocks walk over the keys with their queries and compute dq,
// the others over the queries with their keys and compute dk and dv: five matrix products become seven (eight
// where dk and dv are computed separately), and there are no atomics, so that results are deterministic.
// The next tile is copied while the present one is multiplied.

// s = a bᵀ: of the warp's 16 M rows of `a` from `row` on, with N rows of `b` from `from` on.
template <class T, int M, int N, int Steps, class A, class B>
DTC_FN void dtc_tile_products(f32 (*s)[N / 8][4], A a, int row, B b, int from = 0) {
#pragma unroll
  for (int n = 0; n < M * N / 2; ++n) s[n / (N / 2)][n / 4 % (N / 8)][n % 4] = 0;
#pragma unroll 2
  for (int c = 0; c < Steps; ++c) {
    u32 x[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) dtc_left(x[m], a, row + 16 * m, c);
#pragma unroll
    for (int n = 0; n < N / 16; ++n) {
      u32 y[4];
      dtc_right_transposed(y, b, from + 16 * n, c);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        dtc_mma<T>(s[m][2 * n], x[m], y[0], y[1]);
        dtc_mma<T>(s[m][2 * n + 1], x[m], y[2], y[3]);
      }
    }
  }
}
// out += p b, of the warp's 16 M rows of p, which are rounded to T, and N rows of b from `from` on.
template <class T, int M, int N, int Steps, class B>
DTC_FN void dtc_tile_sums(f32 (*out)[2 * Steps][4], const f32 (*p)[N / 8][4], B b, int from = 0) {
#pragma unroll
  for (int n = 0; n < N / 16; ++n) {
    u32 x[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        x[m][e] = dtc_pair<T>(p[m][2 * n + e / 2][e % 2 * 2], p[m][2 * n + e / 2][e % 2 * 2 + 1]);
#pragma unroll
    for (int c = 0; c < Steps; ++c) {
      u32 y[4];
      dtc_right(y, b, from + 16 * n, c);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        dtc_mma<T>(out[m][2 * c], x[m], y[0], y[1]);
        dtc_mma<T>(out[m][2 * c + 1], x[m], y[2], y[3]);
      }
    }
  }
}
// A matrix in memory: row i has contiguous elements from p + i * stride on.
template <class T> struct dtc_gradient_rows {
  T* p;
  i64 stride;
};
// The matrices of a tensor [batch][heads][rows or keys][…], its strides in elements.
template <class T> struct dtc_gradient_tensor {
  T* p;
  i64 heads, batch, head, row;
};
template <class T> DTC_FN dtc_gradient_rows<T> dtc_matrix_of(dtc_gradient_tensor<T> all, i64 n) {
  const i64 heads = dtc_index_max(all.heads, i64(1)); // of an empty shard, whose pointer is not used
  return {all.p + n / heads * all.batch + n % heads * all.head, all.row};
}

// Stores a warp's 16 M rows of sums, times `scale`, to rows from `row` on of a matrix; rows from `rows` on do
// not exist. Pairs: two elements can be stored at a time.
template <class T, int M, int Columns, int Width, bool Pairs>
DTC_FN void dtc_store_sums(dtc_gradient_rows<T> to, i64 row, i64 rows, const f32 (*sums)[Columns][4],
                           f32 scale) {
  const int lane = (i32)threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2 * M; ++h) {
    const i64 i = row + lane / 4 + 8 * h;
    if (i >= rows) continue;
    T* const p = to.p + i * to.stride;
#pragma unroll
    for (int n = 0; n < Columns; ++n) {
      const int c = n * 8 + lane % 4 * 2;
      const f32 x = sums[h / 2][n][h % 2 * 2] * scale, y = sums[h / 2][n][h % 2 * 2 + 1] * scale;
      if constexpr (Width % 2 == 0 && Pairs) {
        if (c < Width) *(u32*)(p + c) = dtc_pair<T>(x, y);
      } else {
        if (c < Width) dtc_store(p + c, x);
        if (c + 1 < Width) dtc_store(p + c + 1, y);
      }
    }
  }
}
template <int M, int Columns> DTC_FN void dtc_clear_sums(f32 (*sums)[Columns][4]) {
#pragma unroll
  for (int n = 0; n < 4 * M * Columns; ++n) sums[n / (4 * Columns)][n / 4 % Columns][n % 4] = 0;
}
// A weight from its score, and the cotangent of the score from that of the weight. Where the key is masked the
// weight is -0, which no exponential is: there the cotangent is 0 even if that of the weight is NaN.
DTC_FN f32 dtc_weight(f32 score, f32 lse) {
  return score == -dtc_infinity<f32>() ? -0.0f : dtc_exp2_fast((score - lse) * 1.4426950408889634f);
}
template <class A> DTC_FN A dtc_score_gradient(A score, A weight, A dp, A delta) {
  return score == -dtc_infinity<A>() ? A(0) : weight * (dp - delta);
}

// One head's matrices: q, dy and the statistics of each query, [rows][…]; k and v, [keys][…]; A is the
// accumulation type.
template <class T, class A> struct dtc_gradient_head {
  dtc_gradient_rows<const T> q, k, v;
  const A *lse, *delta; // no delta: computed from y and dy
  dtc_gradient_rows<const T> y, dy;
};
// Those of all heads; lse and delta are contiguous, [batch][heads][rows].
template <class T, class A> struct dtc_gradient_operands {
  dtc_gradient_tensor<const T> q, k, v;
  const A *lse, *delta;
  dtc_gradient_tensor<const T> y, dy;
};
// The matrices of query head n, with the key head `shared`.
template <class T, class A>
DTC_FN dtc_gradient_head<T, A> dtc_head_of(dtc_gradient_operands<T, A> all, i64 n, i64 shared, i64 rows) {
  return {dtc_matrix_of(all.q, n),
          dtc_matrix_of(all.k, shared),
          dtc_matrix_of(all.v, shared),
          all.lse + n * rows,
          all.delta ? all.delta + n * rows : nullptr,
          all.delta ? dtc_gradient_rows<const T>{} : dtc_matrix_of(all.y, n),
          dtc_matrix_of(all.dy, n)};
}
// A matrix as a source of tiles of A: its rows where 16 bytes of them can be copied (Packs: each begins at a
// multiple of 16 bytes), else its elements.
template <class A, int Width, bool Packs, class T> DTC_FN auto dtc_gradient_source(dtc_gradient_rows<T> m) {
  if constexpr (dtc_same<T, const A> && Packs && Width * sizeof(T) % 16 == 0)
    return dtc_rows<T>{m.p, m.stride};
  else
    return [m](i64 i, i64 c) { return dtc_load(m.p + i * m.stride + c); };
}
// delta of query i, if it exists, which four adjacent lanes share. All lanes of a warp call it.
template <int E, bool Packs, class T, class A>
DTC_FN A dtc_delta_of(dtc_gradient_head<T, A> head, i64 i, bool exists) {
  if (head.delta) return exists ? head.delta[i] : A(0);
  constexpr int N = Packs && E * sizeof(T) % 16 == 0 ? 16 / sizeof(T) : 1;
  const T *const y = head.y.p + i * head.y.stride, *const dy = head.dy.p + i * head.dy.stride;
  A sum = 0;
#pragma unroll
  for (int n = 0; n < (E + 4 * N - 1) / (4 * N); ++n) {
    const int c = (n * 4 + (i32)threadIdx.x % 4) * N;
    if (exists && c < E) {
      const dtc_pack<T, N> a = dtc_load_pack<N>(y + c), b = dtc_load_pack<N>(dy + c);
#pragma unroll
      for (int e = 0; e < N; ++e) sum += (A)dtc_load(&a.at[e]) * (A)dtc_load(&b.at[e]);
    }
  }
  sum += dtc_shuffle_xor(sum, 1);
  return sum + dtc_shuffle_xor(sum, 2);
}
// Copies the log-sum-exp and delta of the queries [at, at + N) to shared memory. A query that attends to no
// key contributes nothing, and its y is NaN, so that often its dy is NaN too: returns whether there is one,
// whose row must then be cleared in the tiles.
template <int N, int E, bool Packs, int Threads, class T, class A>
DTC_FN bool dtc_load_passing(A* passing, dtc_gradient_head<T, A> head, i64 at, i64 rows) {
  static_assert(N % 8 == 0); // whole warps
  bool unseeing = false;
#pragma unroll
  for (int n = (i32)threadIdx.x / 4; n < N; n += Threads / 4) {
    const bool exists = at + n < rows;
    const A delta = dtc_delta_of<E, Packs>(head, at + n, exists);
    if (threadIdx.x % 4 != 0) continue;
    const A lse = exists ? head.lse[at + n] : A(0);
    passing[n] = lse;
    passing[N + n] = delta;
    unseeing |= lse == -dtc_infinity<A>();
  }
  return unseeing;
}
template <int Threads, class T, int Rows, int Columns>
DTC_FN void dtc_clear_unseeing(dtc_tile<T, Rows, Columns> tile, const f32* lse) {
  constexpr int units = dtc_tile<T, Rows, Columns>::units;
  for (int n = (i32)threadIdx.x; n < Rows * units; n += Threads)
    if (lse[n / units] == -dtc_infinity<f32>())
      *(uint4*)tile.unit(n / units, n % units) = make_uint4(0, 0, 0, 0);
}

// The tiling: Rows rows stay, 16 M for each of four warps, and N others pass, in two stages unless these do not
// fit the 99 KiB of the smallest GPUs. For heads over 128 elements the sums of dk and dv would not fit the
// registers: they are computed by different blocks. OfResult: delta is computed from y, whose tile has one
// stage. (lib/Kernel/print/PrintCalls.cpp computes the same numbers of blocks and bytes of shared memory.)
template <class T_, int D_, int E_, bool Packs_, int M_, int Stages_, bool OfResult_>
struct dtc_gradient_tiling {
  typedef T_ T;
  static constexpr bool Packs = Packs_; // see dtc_gradient_source; the results' rows likewise
  static constexpr int M = M_, Stages = Stages_, D = D_, E = E_, Longest = D > E ? D : E, Rows = 64 * M,
                       Threads = 128, N = Longest <= 192 ? 32 : 16;
  static constexpr bool Apart = Longest > 128, OfResult = OfResult_;
  static constexpr int StepsD = (D + 15) / 16, StepsE = (E + 15) / 16, ColumnsD = 2 * StepsD,
                       ColumnsE = 2 * StepsE;
  typedef dtc_tile<T, Rows, D> StaysD;
  typedef dtc_tile<T, Rows, E> StaysE;
  typedef dtc_tile<T, N, D> PassesD;
  typedef dtc_tile<T, N, E> PassesE;
  static constexpr int stage = PassesD::elements + PassesE::elements;
  static constexpr int bytes =
      2 * (StaysD::elements + StaysE::elements + Stages * stage + (OfResult ? PassesE::elements : 0)) +
      2 * N * (int)sizeof(f32);
};
template <class Tiling> struct dtc_gradient_tiles {
  typename Tiling::StaysD staysD;
  typename Tiling::StaysE staysE;
  typename Tiling::T* passes; // stages of a PassesD and a PassesE
  typename Tiling::PassesE y;
  f32* passing; // [2][N]: the log-sum-exp and delta of the passing queries
  DTC_MEMBER typename Tiling::PassesD passesD(int stage) const { return {passes + stage * Tiling::stage}; }
  DTC_MEMBER typename Tiling::PassesE passesE(int stage) const {
    return {passes + stage * Tiling::stage + Tiling::PassesD::elements};
  }
};
template <class Tiling> DTC_FN dtc_gradient_tiles<Tiling> dtc_tiles_in(void* shared) {
  typename Tiling::T* const memory = (typename Tiling::T*)shared;
  typename Tiling::T *const second = memory + Tiling::StaysD::elements,
                            *const third = second + Tiling::StaysE::elements,
                            *const fourth = third + Tiling::Stages * Tiling::stage;
  return {{memory},
          {second},
          third,
          {fourth},
          (f32*)(fourth + (Tiling::OfResult ? Tiling::PassesE::elements : 0))};
}

// The log-sum-exp and, for the gradient of keys, delta of the queries of a tile that has arrived, to shared
// memory. Returns whether there is a query that attends to no key, like dtc_load_passing.
template <class Tiling, bool Keys, class T>
DTC_FN bool dtc_tile_passing(dtc_gradient_tiles<Tiling> t, int stage, dtc_gradient_head<T, f32> head, i64 at,
                             i64 rows) {
  constexpr int N = Tiling::N, units = Tiling::PassesE::units;
  bool unseeing = false;
  if constexpr (Tiling::OfResult && Keys) { // four adjacent lanes for each query
    const int row = (i32)threadIdx.x / 4, own = (i32)threadIdx.x % 4;
    if (row >= N) return false; // whole warps
    const f32 lse = at + row < rows ? head.lse[at + row] : 0;
    f32 sum = 0;
#pragma unroll
    for (int n = 0; n < (units + 3) / 4; ++n) {
      if (n * 4 + own >= units) continue; // the columns past the end are zeros
      const dtc_pack<T, 8> a = dtc_load_pack<8>((const T*)t.y.unit(row, n * 4 + own)),
                           b = dtc_load_pack<8>((const T*)t.passesE(stage).unit(row, n * 4 + own));
#pragma unroll
      for (int e = 0; e < 8; ++e) sum += dtc_load(&a.at[e]) * dtc_load(&b.at[e]);
    }
    sum += dtc_shuffle_xor(sum, 1);
    sum += dtc_shuffle_xor(sum, 2);
    if (own == 0) t.passing[row] = lse, t.passing[N + row] = sum;
    return lse == -dtc_infinity<f32>();
  } else {
    for (int n = (i32)threadIdx.x; n < N; n += Tiling::Threads) {
      const f32 lse = at + n < rows ? head.lse[at + n] : 0;
      t.passing[n] = lse;
      if constexpr (Keys) t.passing[N + n] = at + n < rows ? head.delta[at + n] : 0;
      unseeing |= lse == -dtc_infinity<f32>();
    }
    return unseeing;
  }
}

// The rows of a lane of a warp: of M times 16 those numbered lane / 4 and 8 + lane / 4 of each 16.
template <int M> struct dtc_gradient_state {
  f32 lse[2 * M], delta[2 * M];
  i32 from[2 * M], to[2 * M]; // the keys that the query attends to
};
// Turns the scores of the queries from `row` on, and of the keys from `key` on, into their cotangents. Inside:
// each of these queries attends to each of these keys.
template <bool Inside, int M, int N, class Score>
DTC_FN void dtc_query_cotangents(f32 (*s)[N / 8][4], const f32 (*dp)[N / 8][4],
                                 const dtc_gradient_state<M>& state, i64 row, i64 last, i32 key,
                                 Score score) {
#pragma unroll
  for (int h = 0; h < 2 * M; ++h) {
    const i64 i = dtc_index_min(row + 8 * h, last);
#pragma unroll
    for (int n = 0; n < N / 4; ++n) {
      f32& x = s[h / 2][n / 2][h % 2 * 2 + n % 2];
      const i32 j = key + n / 2 * 8 + n % 2;
      x = Inside || (j >= state.from[h] && j < state.to[h]) ? score(x, i, (i64)j) : -dtc_infinity<f32>();
      x = dtc_score_gradient(x, dtc_weight(x, state.lse[h]), dp[h / 2][n / 2][h % 2 * 2 + n % 2],
                             state.delta[h]);
    }
  }
}

// dq of the queries [first, first + Rows).  begin(i), end(i): the keys that query i attends to; both are
// monotonic in i.
template <class Tiling, class T, class Begin, class End, class Score>
DTC_FN void dtc_query_gradient(dtc_gradient_tiles<Tiling> t, dtc_gradient_head<T, f32> head,
                               dtc_gradient_rows<T> dq, i64 first, i64 rows, f32 scale, Begin begin, End end,
                               Score score) {
  constexpr int M = Tiling::M, N = Tiling::N, Threads = Tiling::Threads, Stages = Tiling::Stages;
  const int lane = (i32)threadIdx.x % 32, own = (i32)threadIdx.x / 32 * 16 * M;
  const i64 last = dtc_index_min(first + Tiling::Rows, rows) - 1, row = first + own + lane / 4;
  const i64 seen = end(last);
  const auto load = [&](i64 at, int stage) {
    dtc_load_tile<Threads>(t.passesD(stage), at, seen,
                           dtc_gradient_source<T, Tiling::D, Tiling::Packs>(head.k));
    dtc_load_tile<Threads>(t.passesE(stage), at, seen,
                           dtc_gradient_source<T, Tiling::E, Tiling::Packs>(head.v));
  };
  i64 at = begin(first);
  dtc_load_tile<Threads>(t.staysD, first, rows, dtc_gradient_source<T, Tiling::D, Tiling::Packs>(head.q));
  dtc_load_tile<Threads>(t.staysE, first, rows, dtc_gradient_source<T, Tiling::E, Tiling::Packs>(head.dy));
  if (at < seen) load(at, 0);
  dtc_copy_commit();
  dtc_gradient_state<M> state;
  f32 sums[M][Tiling::ColumnsD][4];
  dtc_clear_sums<M>(sums);
#pragma unroll
  for (int h = 0; h < 2 * M; ++h) {
    const i64 i = dtc_index_min(row + 8 * h, last);
    state.lse[h] = head.lse[i], state.from[h] = (i32)begin(i), state.to[h] = (i32)end(i);
    state.delta[h] = dtc_delta_of<Tiling::E, Tiling::Packs>(head, i, true);
  }
  // All rows of the warp attend to the keys from `allFrom` up to `allTo`.
  const i32 allFrom = (i32)begin(dtc_index_min(first + own + 16 * M - 1, last)),
            allTo = (i32)end(dtc_index_min(first + own, last));
#pragma unroll 1
  for (int stage = 0; at < seen; at += N) {
    dtc_copy_wait<0>();
    __syncthreads(); // the keys have arrived, and all threads are done with the previous ones
    if (Stages > 1 && at + N < seen) load(at + N, stage ^ 1);
    dtc_copy_commit();
    f32 s[M][N / 8][4], dp[M][N / 8][4];
    dtc_tile_products<T, M, N, Tiling::StepsD>(s, t.staysD, own, t.passesD(stage));
    dtc_tile_products<T, M, N, Tiling::StepsE>(dp, t.staysE, own, t.passesE(stage));
    if (at >= allFrom && at + N <= allTo)
      dtc_query_cotangents<true, M, N>(s, dp, state, row, last, (i32)at + lane % 4 * 2, score);
    else
      dtc_query_cotangents<false, M, N>(s, dp, state, row, last, (i32)at + lane % 4 * 2, score);
    dtc_tile_sums<T, M, N, Tiling::StepsD>(sums, s, t.passesD(stage));
    if constexpr (Stages > 1) {
      stage ^= 1;
    } else {
      __syncthreads(); // all threads are done with the keys
      if (at + N < seen) load(at + N, 0);
      dtc_copy_commit();
    }
  }
  dtc_copy_wait<0>(); // if the loop had no iteration
  dtc_store_sums<T, M, Tiling::ColumnsD, Tiling::D, Tiling::Packs>(dq, first + own, rows, sums, scale);
}

// Turns the scores of the keys from `key` on, and of the queries from `query` on, into weights. Inside: each of
// these queries exists and attends to each of these keys.
template <bool Inside, int M, int N, class Begin, class End, class Score>
DTC_FN void dtc_key_weights(f32 (*s)[N / 8][4], const f32* lse, i32 key, i32 last, i32 query, i32 rows,
                            Begin begin, End end, Score score) {
  const int lane = (i32)threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < N / 4; ++n) {
    const int column = n / 2 * 8 + lane % 4 * 2 + n % 2;
    const i32 i = query + column;
    i32 from = 0, to = 0;
    if constexpr (!Inside) from = (i32)begin(i), to = i < rows ? (i32)dtc_index_min(end(i), last + 1) : 0;
#pragma unroll
    for (int h = 0; h < 2 * M; ++h) {
      f32& x = s[h / 2][n / 2][h % 2 * 2 + n % 2];
      const i32 j = key + 8 * h;
      x = dtc_weight(Inside || (j >= from && j < to) ? score(x, (i64)i, (i64)j) : -dtc_infinity<f32>(),
                     lse[column]);
    }
  }
}
// Turns the cotangents of the weights `p` of Part queries into those of the scores.
template <int M, int N, int Part>
DTC_FN void dtc_key_cotangents(f32 (*dp)[Part / 8][4], const f32 (*p)[N / 8][4], const f32* delta, int from) {
  const int lane = (i32)threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < Part / 4; ++n) {
    const f32 less = delta[from + n / 2 * 8 + lane % 4 * 2 + n % 2];
#pragma unroll
    for (int h = 0; h < 2 * M; ++h) {
      f32& d = dp[h / 2][n / 2][h % 2 * 2 + n % 2];
      const f32 weight = p[h / 2][from / 8 + n / 2][h % 2 * 2 + n % 2];
      d = dtc_bits(weight) == dtc_bits(-0.0f) ? 0 : weight * (d - less); // masked
    }
  }
}

// dk (if Keys) and dv (if Values) of the keys [first, first + Rows), from the queries of `groups` heads.
// firstOf(j), lastOf(j): the queries that attend to key j are in [firstOf(j), lastOf(j)), both monotonic in
// j.  head(g): its matrices; score(s, g, i, j).
template <class Tiling, bool Keys, bool Values, class T, class Head, class Begin, class End, class First,
          class Last, class Score>
DTC_FN void dtc_key_gradient(dtc_gradient_tiles<Tiling> t, i64 groups, Head head, dtc_gradient_rows<T> dk,
                             dtc_gradient_rows<T> dv, i64 first, i64 rows, i64 keys, f32 scale, Begin begin,
                             End end, First firstOf, Last lastOf, Score score) {
  constexpr int M = Tiling::M, N = Tiling::N, Threads = Tiling::Threads, Stages = Tiling::Stages;
  const int lane = (i32)threadIdx.x % 32, own = (i32)threadIdx.x / 32 * 16 * M;
  const i32 last = (i32)dtc_index_min(first + Tiling::Rows, keys) - 1, key = (i32)first + own;
  const i32 lowest = (i32)firstOf(first), seen = (i32)lastOf(last);
  const auto load = [&](i32 g, i32 at, int stage) {
    const dtc_gradient_head<T, f32> h = head(g);
    dtc_load_tile<Threads>(t.passesD(stage), at, seen, dtc_gradient_source<T, Tiling::D, Tiling::Packs>(h.q));
    dtc_load_tile<Threads>(t.passesE(stage), at, seen,
                           dtc_gradient_source<T, Tiling::E, Tiling::Packs>(h.dy));
    if constexpr (Tiling::OfResult && Keys)
      dtc_load_tile<Threads>(t.y, at, seen, dtc_gradient_source<T, Tiling::E, Tiling::Packs>(h.y));
  };
  dtc_load_tile<Threads>(t.staysD, first, keys, dtc_gradient_source<T, Tiling::D, Tiling::Packs>(head(0).k));
  if constexpr (Keys)
    dtc_load_tile<Threads>(t.staysE, first, keys,
                           dtc_gradient_source<T, Tiling::E, Tiling::Packs>(head(0).v));
  i32 g = lowest < seen ? 0 : (i32)groups, at = lowest;
  if (g < groups) load(g, at, 0);
  dtc_copy_commit();
  f32 sumsK[M][Tiling::ColumnsD][4], sumsV[M][Tiling::ColumnsE][4];
  dtc_clear_sums<M>(sumsK), dtc_clear_sums<M>(sumsV);
#pragma unroll 1
  for (int stage = 0; g < groups;) {
    const i32 present = at, group = g;
    at += N;
    if (at >= seen) at = lowest, ++g;
    dtc_copy_wait<0>();
    __syncthreads(); // the queries have arrived, and all threads are done with the previous ones
    const bool unseeing = dtc_tile_passing<Tiling, Keys>(t, stage, head(group), present, rows);
    if (__syncthreads_or(unseeing)) {
      dtc_clear_unseeing<Threads>(t.passesD(stage), t.passing);
      dtc_clear_unseeing<Threads>(t.passesE(stage), t.passing);
      __syncthreads();
    }
    if (Stages > 1 && g < groups) load(g, at, stage ^ 1);
    dtc_copy_commit();
    f32 p[M][N / 8][4];
    dtc_tile_products<T, M, N, Tiling::StepsD>(p, t.staysD, own, t.passesD(stage));
    const i32 lastQuery = present + N - 1;
    const auto scoreOf = [&](f32 x, i64 i, i64 j) { return score(x, (i64)group, i, j); };
    if (lastQuery < rows && key + 16 * M - 1 <= last && begin(lastQuery) <= key &&
        end(present) >= key + 16 * M)
      dtc_key_weights<true, M, N>(p, t.passing, key + lane / 4, last, present, (i32)rows, begin, end,
                                  scoreOf);
    else
      dtc_key_weights<false, M, N>(p, t.passing, key + lane / 4, last, present, (i32)rows, begin, end,
                                   scoreOf);
    if constexpr (Values) dtc_tile_sums<T, M, N, Tiling::StepsE>(sumsV, p, t.passesE(stage));
    if constexpr (Keys) {
      constexpr int Part = M > 1 ? 16 : N; // fewer registers
#pragma unroll
      for (int from = 0; from < N; from += Part) {
        f32 dp[M][Part / 8][4];
        dtc_tile_products<T, M, Part, Tiling::StepsE>(dp, t.staysE, own, t.passesE(stage), from);
        dtc_key_cotangents<M, N, Part>(dp, p, t.passing + N, from);
        dtc_tile_sums<T, M, Part, Tiling::StepsD>(sumsK, dp, t.passesD(stage), from);
      }
    }
    if constexpr (Stages > 1) {
      stage ^= 1;
    } else {
      __syncthreads(); // all threads are done with the queries
      if (g < groups) load(g, at, 0);
      dtc_copy_commit();
    }
  }
  dtc_copy_wait<0>(); // if the loop had no iteration
  if constexpr (Keys)
    dtc_store_sums<T, M, Tiling::ColumnsD, Tiling::D, Tiling::Packs>(dk, first + own, keys, sumsK, scale);
  if constexpr (Values)
    dtc_store_sums<T, M, Tiling::ColumnsE, Tiling::E, Tiling::Packs>(dv, first + own, keys, sumsV, 1);
}

// The gradients of all heads; `heads` key heads of all batches, each for `groups` query heads; `shared` is
// Tiling::bytes of shared memory. A shard of the heads may be empty: no groups.
//   begin(i), end(i), firstOf(j), lastOf(j) as above; score(s, n, i, j): of query head n.
template <class Tiling, class Begin, class End, class First, class Last, class Score>
DTC_FN void dtc_attention_gradient(void* shared, i64 heads, i64 groups, i64 rows, i64 keys,
                                   dtc_gradient_operands<typename Tiling::T, f32> all,
                                   dtc_gradient_tensor<typename Tiling::T> dq,
                                   dtc_gradient_tensor<typename Tiling::T> dk,
                                   dtc_gradient_tensor<typename Tiling::T> dv, f32 scale, Begin begin,
                                   End end, First firstOf, Last lastOf, Score score) {
  typedef typename Tiling::T T;
  const dtc_gradient_tiles<Tiling> tiles = dtc_tiles_in<Tiling>(shared);
  const i64 keyBlocks = dtc_blocks(keys, Tiling::Rows), rowBlocks = dtc_blocks(rows, Tiling::Rows);
  const i64 keyUnits = heads * keyBlocks;
  i64 unit = blockIdx.x;
  if (unit < keyUnits * (Tiling::Apart ? 2 : 1)) {
    const i64 head = unit % keyUnits / keyBlocks, first = unit % keyBlocks * Tiling::Rows;
    const auto headOf = [&](i64 g) { return dtc_head_of(all, head * groups + g, head, rows); };
    const auto scoreOf = [&](f32 s, i64 g, i64 i, i64 j) { return score(s, head * groups + g, i, j); };
    const dtc_gradient_rows<T> k = dtc_matrix_of(dk, head), v = dtc_matrix_of(dv, head);
    if constexpr (!Tiling::Apart)
      dtc_key_gradient<Tiling, true, true>(tiles, groups, headOf, k, v, first, rows, keys, scale, begin, end,
                                           firstOf, lastOf, scoreOf);
    else if (unit < keyUnits)
      dtc_key_gradient<Tiling, true, false>(tiles, groups, headOf, k, v, first, rows, keys, scale, begin, end,
                                            firstOf, lastOf, scoreOf);
    else
      dtc_key_gradient<Tiling, false, true>(tiles, groups, headOf, k, v, first, rows, keys, scale, begin, end,
                                            firstOf, lastOf, scoreOf);
    return;
  }
  unit -= keyUnits * (Tiling::Apart ? 2 : 1);
  if (unit >= heads * groups * rowBlocks) return;
  const i64 n = unit / rowBlocks, first = (rowBlocks - 1 - unit % rowBlocks) * Tiling::Rows;
  dtc_query_gradient(tiles, dtc_head_of(all, n, n / groups, rows), dtc_matrix_of(dq, n), first, rows, scale,
                     begin, end, [&](f32 s, i64 i, i64 j) { return score(s, n, i, j); });
}
