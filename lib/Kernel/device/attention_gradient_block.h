// Device header, the gradient of attention without tensor cores, in CUDA and cuda-emu: the algorithm of
// attention_gradient.h with the threads of attention_block.h. T is the type in memory, A (f32 or f64) the
// compute type; Rows rows stay and N pass.

template <class T_, class A_, int Rows_, int N_, int D_, int E_, bool Packs_>
struct dtc_plain_gradient_tiling {
  typedef T_ T;
  typedef A_ A;
  static constexpr int Rows = Rows_, N = N_, D = D_, E = E_;
  static constexpr bool Packs = Packs_;
  typedef dtc_block_layout<A, Rows, N, D, D> OfD; // products along q and k, and sums of them
  typedef dtc_block_layout<A, Rows, N, E, E> OfE; // the same of v and dy
  static constexpr int Threads = OfD::Threads, Wide = OfD::Wide, R = OfD::R, K = OfD::K;
  static_assert(OfD::QueryStride == OfD::ValueStride && OfE::QueryStride == OfE::ValueStride);
  static constexpr int elements =
      (Rows + N) * (OfD::QueryStride + OfE::QueryStride) + Rows * OfD::WeightStride + 2 * N;
  static constexpr int bytes = elements * (int)sizeof(A);
};
template <class A> struct dtc_plain_gradient_tiles {
  A *staysD, *staysE, *passesD, *passesE;
  A* weights; // [Rows][WeightStride]: a thread's rows are read by its half of a warp alone
  A* passing; // [2][N]: the log-sum-exp and delta of the passing queries
};

// A tile's products of staying rows and passing rows.
template <class Tiling, class A>
DTC_FN void dtc_plain_products(A (*s)[Tiling::K], const A* stays, const A* passes) {
#pragma unroll
  for (int r = 0; r < Tiling::R; ++r)
    for (int j = 0; j < Tiling::K; ++j) s[r][j] = 0;
  dtc_block_scores<Tiling>(s, stays, passes);
}
// out += x · passes, the thread's rows of x through shared memory.
template <class Tiling, class A>
DTC_FN void dtc_plain_sums(A (*out)[Tiling::E][Tiling::V], A* weights, const A (*x)[Tiling::K],
                           const A* passes, int column) {
  __syncwarp(); // all threads are done with the previous weights
#pragma unroll
  for (int r = 0; r < Tiling::R; ++r)
    for (int j = 0; j < Tiling::K; ++j)
      weights[r * Tiling::WeightStride + column + j * Tiling::Wide] = x[r][j];
  __syncwarp();
  dtc_block_values<Tiling>(out, weights, passes, column);
}
template <class Tiling, class T, class A>
DTC_FN void dtc_plain_store(dtc_gradient_rows<T> to, i64 row, i64 rows, const A (*sums)[Tiling::E][Tiling::V],
                            A scale, int x) {
#pragma unroll
  for (int r = 0; r < Tiling::R; ++r) {
    if (row + r >= rows) continue;
#pragma unroll
    for (int e = 0; e < Tiling::E; ++e) {
      const int column = (x + e * Tiling::Wide) * Tiling::V;
      for (int v = 0; v < Tiling::V; ++v)
        if (column + v < Tiling::Width)
          dtc_store(to.p + (row + r) * to.stride + column + v, sums[r][e][v] * scale);
    }
  }
}
template <class Tiling, class A> DTC_FN void dtc_plain_clear(A (*out)[Tiling::E][Tiling::V]) {
#pragma unroll
  for (int r = 0; r < Tiling::R; ++r)
    for (int n = 0; n < Tiling::E * Tiling::V; ++n) out[r][n / Tiling::V][n % Tiling::V] = 0;
}
// Rows of a tile of queries that attend to no key (dtc_load_passing).
template <int Threads, int N, int Stride, class A>
DTC_FN void dtc_plain_clear_unseeing(A* tile, const A* lse) {
  for (int n = (i32)threadIdx.x; n < N * Stride; n += Threads)
    if (lse[n / Stride] == -dtc_infinity<A>()) tile[n] = 0;
}

// See dtc_query_gradient.
template <class Tiling, class T, class A, class Begin, class End, class Score>
DTC_FN void dtc_plain_query_gradient(dtc_plain_gradient_tiles<A> t, dtc_gradient_head<T, A> head,
                                     dtc_gradient_rows<T> dq, i64 first, i64 rows, A scale, Begin begin,
                                     End end, Score score) {
  typedef typename Tiling::OfD OfD;
  typedef typename Tiling::OfE OfE;
  constexpr int N = Tiling::N, R = Tiling::R, K = Tiling::K, Threads = Tiling::Threads;
  const int x = (i32)threadIdx.x % Tiling::Wide, y = (i32)threadIdx.x / Tiling::Wide * R;
  const i64 last = dtc_index_min(first + Tiling::Rows, rows) - 1;
  dtc_load_block<Threads, Tiling::Rows, Tiling::D>(t.staysD, OfD::QueryStride, first, rows,
                                                   dtc_gradient_source<A, Tiling::D, Tiling::Packs>(head.q));
  dtc_load_block<Threads, Tiling::Rows, Tiling::E>(t.staysE, OfE::QueryStride, first, rows,
                                                   dtc_gradient_source<A, Tiling::E, Tiling::Packs>(head.dy));
  A sums[R][OfD::E][OfD::V], deltas[R];
  dtc_plain_clear<OfD>(sums);
#pragma unroll
  for (int r = 0; r < R; ++r)
    deltas[r] = dtc_delta_of<Tiling::E, Tiling::Packs>(head, dtc_index_min(first + y + r, last), true);
  const i64 seen = end(last);
#pragma unroll 1
  for (i64 at = begin(first); at < seen; at += N) {
    __syncthreads(); // all threads are done with the previous keys
    dtc_load_block<Threads, N, Tiling::D>(t.passesD, OfD::QueryStride, at, seen,
                                          dtc_gradient_source<A, Tiling::D, Tiling::Packs>(head.k));
    dtc_load_block<Threads, N, Tiling::E>(t.passesE, OfE::QueryStride, at, seen,
                                          dtc_gradient_source<A, Tiling::E, Tiling::Packs>(head.v));
    dtc_copy_commit();
    dtc_copy_wait<0>();
    __syncthreads();
    A s[R][K], dp[R][K];
    dtc_plain_products<OfD>(s, t.staysD + y * OfD::QueryStride, t.passesD + x * OfD::QueryStride);
    dtc_plain_products<OfE>(dp, t.staysE + y * OfE::QueryStride, t.passesE + x * OfE::QueryStride);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const i64 i = dtc_index_min(first + y + r, last), from = begin(i), to = end(i);
      const A lse = head.lse[i], delta = deltas[r];
#pragma unroll
      for (int n = 0; n < K; ++n) {
        const i64 j = at + x + n * Tiling::Wide;
        const A z = j >= from && j < to ? (A)score(s[r][n], i, j) : -dtc_infinity<A>();
        s[r][n] = dtc_score_gradient(z, dtc_exp(z - lse), dp[r][n], delta);
      }
    }
    dtc_plain_sums<OfD>(sums, t.weights + y * OfD::WeightStride, s, t.passesD, x);
  }
  dtc_copy_commit(); // if the loop had no iteration
  dtc_copy_wait<0>();
  dtc_plain_store<OfD>(dq, first + y, rows, sums, scale, x);
}

// See dtc_key_gradient.
template <class Tiling, class T, class A, class Head, class Begin, class End, class First, class Last,
          class Score>
DTC_FN void dtc_plain_key_gradient(dtc_plain_gradient_tiles<A> t, i64 groups, Head head,
                                   dtc_gradient_rows<T> dk, dtc_gradient_rows<T> dv, i64 first, i64 rows,
                                   i64 keys, A scale, Begin begin, End end, First firstOf, Last lastOf,
                                   Score score) {
  typedef typename Tiling::OfD OfD;
  typedef typename Tiling::OfE OfE;
  constexpr int N = Tiling::N, R = Tiling::R, K = Tiling::K, Threads = Tiling::Threads;
  const int x = (i32)threadIdx.x % Tiling::Wide, y = (i32)threadIdx.x / Tiling::Wide * R;
  dtc_load_block<Threads, Tiling::Rows, Tiling::D>(
      t.staysD, OfD::QueryStride, first, keys, dtc_gradient_source<A, Tiling::D, Tiling::Packs>(head(0).k));
  dtc_load_block<Threads, Tiling::Rows, Tiling::E>(
      t.staysE, OfE::QueryStride, first, keys, dtc_gradient_source<A, Tiling::E, Tiling::Packs>(head(0).v));
  A sumsK[R][OfD::E][OfD::V], sumsV[R][OfE::E][OfE::V];
  dtc_plain_clear<OfD>(sumsK), dtc_plain_clear<OfE>(sumsV);
  const i64 last = dtc_index_min(first + Tiling::Rows, keys) - 1, seen = lastOf(last);
#pragma unroll 1
  for (i64 g = 0; g < groups; ++g) {
    const dtc_gradient_head<T, A> h = head(g);
#pragma unroll 1
    for (i64 at = firstOf(first); at < seen; at += N) {
      __syncthreads(); // all threads are done with the previous queries
      dtc_load_block<Threads, N, Tiling::D>(t.passesD, OfD::QueryStride, at, seen,
                                            dtc_gradient_source<A, Tiling::D, Tiling::Packs>(h.q));
      dtc_load_block<Threads, N, Tiling::E>(t.passesE, OfE::QueryStride, at, seen,
                                            dtc_gradient_source<A, Tiling::E, Tiling::Packs>(h.dy));
      dtc_copy_commit();
      const bool unseeing = dtc_load_passing<N, Tiling::E, Tiling::Packs, Threads>(t.passing, h, at, rows);
      dtc_copy_wait<0>();
      if (__syncthreads_or(unseeing)) {
        dtc_plain_clear_unseeing<Threads, N, OfD::QueryStride>(t.passesD, t.passing);
        dtc_plain_clear_unseeing<Threads, N, OfE::QueryStride>(t.passesE, t.passing);
        __syncthreads();
      }
      A p[R][K], ds[R][K];
      dtc_plain_products<OfD>(p, t.staysD + y * OfD::QueryStride, t.passesD + x * OfD::QueryStride);
      dtc_plain_products<OfE>(ds, t.staysE + y * OfE::QueryStride, t.passesE + x * OfE::QueryStride);
#pragma unroll
      for (int n = 0; n < K; ++n) {
        const int column = x + n * Tiling::Wide;
        const i64 i = at + column, from = begin(i), to = end(i);
        const A lse = t.passing[column], delta = t.passing[N + column];
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const i64 j = first + y + r;
          const bool is = i < rows && j <= last && j >= from && j < to;
          const A z = is ? (A)score(p[r][n], g, i, j) : -dtc_infinity<A>();
          p[r][n] = z == -dtc_infinity<A>() ? A(0) : dtc_exp(z - lse);
          ds[r][n] = dtc_score_gradient(z, p[r][n], ds[r][n], delta);
        }
      }
      dtc_plain_sums<OfE>(sumsV, t.weights + y * OfD::WeightStride, p, t.passesE, x);
      dtc_plain_sums<OfD>(sumsK, t.weights + y * OfD::WeightStride, ds, t.passesD, x);
    }
  }
  dtc_copy_commit(); // if the loop had no iteration
  dtc_copy_wait<0>();
  dtc_plain_store<OfD>(dk, first + y, keys, sumsK, scale, x);
  dtc_plain_store<OfE>(dv, first + y, keys, sumsV, A(1), x);
}

// See dtc_attention_gradient.
template <class T, class A, int Rows, int N, int D, int E, bool Packs, class Begin, class End, class First,
          class Last, class Score>
DTC_FN void dtc_plain_attention_gradient(void* shared, i64 heads, i64 groups, i64 rows, i64 keys,
                                         dtc_gradient_operands<T, A> all, dtc_gradient_tensor<T> dq,
                                         dtc_gradient_tensor<T> dk, dtc_gradient_tensor<T> dv, A scale,
                                         Begin begin, End end, First firstOf, Last lastOf, Score score) {
  typedef dtc_plain_gradient_tiling<T, A, Rows, N, D, E, Packs> Tiling;
  constexpr int ofD = Tiling::OfD::QueryStride, ofE = Tiling::OfE::QueryStride;
  A* const staysD = (A*)shared;
  A *const staysE = staysD + Rows * ofD, *const passesD = staysE + Rows * ofE,
           *const passesE = passesD + N * ofD, *const weights = passesE + N * ofE;
  const dtc_plain_gradient_tiles<A> tiles = {staysD,  staysE,  passesD,
                                             passesE, weights, weights + Rows * Tiling::OfD::WeightStride};
  const i64 keyBlocks = dtc_blocks(keys, Rows), rowBlocks = dtc_blocks(rows, Rows);
  i64 unit = blockIdx.x;
  if (unit < heads * keyBlocks) {
    const i64 head = unit / keyBlocks, first = unit % keyBlocks * Rows;
    dtc_plain_key_gradient<Tiling>(
        tiles, groups, [&](i64 g) { return dtc_head_of(all, head * groups + g, head, rows); },
        dtc_matrix_of(dk, head), dtc_matrix_of(dv, head), first, rows, keys, scale, begin, end, firstOf,
        lastOf, [&](A s, i64 g, i64 i, i64 j) { return score(s, head * groups + g, i, j); });
    return;
  }
  unit -= heads * keyBlocks;
  if (unit >= heads * groups * rowBlocks) return;
  const i64 n = unit / rowBlocks, first = (rowBlocks - 1 - unit % rowBlocks) * Rows;
  dtc_plain_query_gradient<Tiling>(tiles, dtc_head_of(all, n, n / groups, rows), dtc_matrix_of(dq, n), first,
                                   rows, scale, begin, end,
                                   [&](A s, i64 i, i64 j) { return score(s, n, i, j); });
}

// See dtc_mask_gradient.
template <class Tiling, int Tiles, bool SummedBatch, bool SummedHeads, class M, class Begin, class End,
          class Score>
DTC_FN void dtc_plain_mask_gradient(void* shared, i64 batch, i64 heads, i64 groups, i64 rows, i64 keys,
                                    dtc_gradient_operands<typename Tiling::T, typename Tiling::A> all, M* out,
                                    i64 ofBatch, i64 ofHead, Begin begin, End end, Score score) {
  typedef typename Tiling::T T;
  typedef typename Tiling::A A;
  typedef typename Tiling::OfD OfD;
  typedef typename Tiling::OfE OfE;
  constexpr int N = Tiling::N, R = Tiling::R, K = Tiling::K, Threads = Tiling::Threads;
  const auto u = dtc_mask_unit_of<Tiling::Rows, N * Tiles, SummedBatch, SummedHeads>(blockIdx.x, batch, heads,
                                                                                     rows, keys);
  if (!u.is) return;
  A* const staysD = (A*)shared;
  A *const staysE = staysD + Tiling::Rows * OfD::QueryStride,
           *const passesD = staysE + Tiling::Rows * OfE::QueryStride,
           *const passesE = passesD + N * OfD::QueryStride;
  const int x = (i32)threadIdx.x % Tiling::Wide, y = (i32)threadIdx.x / Tiling::Wide * R;
  const i64 first = u.row, last = dtc_index_min(first + Tiling::Rows, rows) - 1, lowest = begin(first),
            most = end(last);
  A sums[Tiles][R][K];
#pragma unroll
  for (int n = 0; n < Tiles * R * K; ++n) sums[n / (R * K)][n / K % R][n % K] = 0;
  const bool seen = u.key < most && u.key + N * Tiles > lowest;
#pragma unroll 1
  for (i64 b = u.firstBatch; seen && b < u.endBatch; ++b)
#pragma unroll 1
    for (i64 g = u.firstHead; g < u.endHead; ++g) {
      const i64 n = b * heads + g;
      const dtc_gradient_head<T, A> head = dtc_head_of(all, n, n / groups, rows);
      __syncthreads(); // all threads are done with the previous queries
      dtc_load_block<Threads, Tiling::Rows, Tiling::D>(
          staysD, OfD::QueryStride, first, rows, dtc_gradient_source<A, Tiling::D, Tiling::Packs>(head.q));
      dtc_load_block<Threads, Tiling::Rows, Tiling::E>(
          staysE, OfE::QueryStride, first, rows, dtc_gradient_source<A, Tiling::E, Tiling::Packs>(head.dy));
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        const i64 at = u.key + tile * N;
        if (at >= most || at + N <= lowest) continue;
        __syncthreads(); // all threads are done with the previous keys
        dtc_load_block<Threads, N, Tiling::D>(passesD, OfD::QueryStride, at, keys,
                                              dtc_gradient_source<A, Tiling::D, Tiling::Packs>(head.k));
        dtc_load_block<Threads, N, Tiling::E>(passesE, OfE::QueryStride, at, keys,
                                              dtc_gradient_source<A, Tiling::E, Tiling::Packs>(head.v));
        dtc_copy_commit();
        dtc_copy_wait<0>();
        __syncthreads();
        A s[R][K], dp[R][K];
        dtc_plain_products<OfD>(s, staysD + y * OfD::QueryStride, passesD + x * OfD::QueryStride);
        dtc_plain_products<OfE>(dp, staysE + y * OfE::QueryStride, passesE + x * OfE::QueryStride);
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const i64 i = dtc_index_min(first + y + r, last), from = begin(i), to = end(i);
          const A lse = head.lse[i], delta = head.delta[i];
#pragma unroll
          for (int k = 0; k < K; ++k) {
            const i64 j = at + x + k * Tiling::Wide;
            const A z = j >= from && j < to ? (A)score(s[r][k], n, i, j) : -dtc_infinity<A>();
            sums[tile][r][k] += dtc_score_gradient(z, dtc_exp(z - lse), dp[r][k], delta);
          }
        }
      }
    }
  M* const p = out + u.batch * ofBatch + u.head * ofHead;
#pragma unroll
  for (int e = 0; e < Tiles * R * K; ++e) {
    const i64 i = first + y + e / K % R, j = u.key + e / (R * K) * N + x + e % K * Tiling::Wide;
    if (i < rows && j < keys) dtc_store(p + i * keys + j, sums[e / (R * K)][e / K % R][e % K]);
  }
}
