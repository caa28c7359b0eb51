// Device header, the gradient of an attention mask that is added to the scores: their cotangents, summed
// along batch and heads where these are `Summed` (the mask is broadcast there), sequentially. A block has 64
// queries against Tiles tiles of keys, and keeps its sums in registers. This one is for bf16 and f16 on tensor
// cores, in CUDA and cuda-emu; attention_gradient_block.h has the one for other dtypes.

// The coordinates of a unit: the block of queries and the first key, and its heads [head, end) of each of its
// batches.
struct dtc_mask_unit {
  i64 batch, head, row, key; // of its result
  i64 firstBatch, endBatch, firstHead, endHead;
  bool is;
};
template <int Rows, int Keys, bool SummedBatch, bool SummedHeads>
DTC_FN dtc_mask_unit dtc_mask_unit_of(i64 unit, i64 batch, i64 heads, i64 rows, i64 keys) {
  const i64 keyBlocks = dtc_blocks(keys, Keys), rowBlocks = dtc_blocks(rows, Rows);
  const i64 ownHeads = SummedHeads ? 1 : heads, ownBatches = SummedBatch ? 1 : batch;
  dtc_mask_unit u = {};
  u.is = unit < ownBatches * ownHeads * rowBlocks * keyBlocks;
  if (!u.is) return u;
  u.key = unit % keyBlocks * Keys;
  u.row = unit / keyBlocks % rowBlocks * Rows;
  const i64 outer = unit / keyBlocks / rowBlocks;
  u.head = outer % ownHeads, u.batch = outer / ownHeads;
  u.firstBatch = SummedBatch ? 0 : u.batch, u.endBatch = SummedBatch ? batch : u.batch + 1;
  u.firstHead = SummedHeads ? 0 : u.head, u.endHead = SummedHeads ? heads : u.head + 1;
  return u;
}

// `all`: of `batch` times `heads` query heads, `groups` of which share a key head; out: rows of `keys` elements,
// with strides ofBatch and ofHead. begin(i), end(i), score(s, n, i, j) as for dtc_attention_gradient.
template <class Tiling, int Tiles, bool SummedBatch, bool SummedHeads, class M, class Begin, class End,
          class Score>
DTC_FN void dtc_mask_gradient(void* shared, i64 batch, i64 heads, i64 groups, i64 rows, i64 keys,
                              dtc_gradient_operands<typename Tiling::T, f32> all, M* out, i64 ofBatch,
                              i64 ofHead, Begin begin, End end, Score score) {
  typedef typename Tiling::T T;
  constexpr int N = Tiling::N, Threads = Tiling::Threads;
  const auto u = dtc_mask_unit_of<Tiling::Rows, N * Tiles, SummedBatch, SummedHeads>(blockIdx.x, batch, heads,
                                                                                     rows, keys);
  if (!u.is) return;
  static_assert(Tiling::M == 1 && !Tiling::OfResult);
  const dtc_gradient_tiles<Tiling> t = dtc_tiles_in<Tiling>(shared);
  const auto staysD = t.staysD;
  const auto staysE = t.staysE;
  const auto passesD = t.passesD(0);
  const auto passesE = t.passesE(0);
  const int lane = (i32)threadIdx.x % 32, own = (i32)threadIdx.x / 32 * 16;
  const i64 first = u.row, last = dtc_index_min(first + Tiling::Rows, rows) - 1, lowest = begin(first),
            most = end(last);
  f32 sums[Tiles][N / 8][4];
#pragma unroll
  for (int n = 0; n < Tiles * N / 2; ++n) sums[n / (N / 2)][n % (N / 2) / 4][n % 4] = 0;
  i32 from[2], to[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const i64 i = dtc_index_min(first + own + lane / 4 + 8 * h, last);
    from[h] = (i32)begin(i), to[h] = (i32)end(i);
  }
  const bool seen = u.key < most && u.key + N * Tiles > lowest; // whether there is any key
#pragma unroll 1
  for (i64 b = u.firstBatch; seen && b < u.endBatch; ++b)
#pragma unroll 1
    for (i64 g = u.firstHead; g < u.endHead; ++g) {
      const i64 n = b * heads + g;
      const dtc_gradient_head<T, f32> head = dtc_head_of(all, n, n / groups, rows);
      __syncthreads(); // all threads are done with the previous queries
      dtc_load_tile<Threads>(staysD, first, rows, dtc_gradient_source<T, Tiling::D, Tiling::Packs>(head.q));
      dtc_load_tile<Threads>(staysE, first, rows, dtc_gradient_source<T, Tiling::E, Tiling::Packs>(head.dy));
      f32 lse[2], delta[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const i64 i = dtc_index_min(first + own + lane / 4 + 8 * h, last);
        lse[h] = head.lse[i], delta[h] = head.delta[i];
      }
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        const i64 at = u.key + tile * N;
        if (at >= most || at + N <= lowest) continue;
        __syncthreads(); // all threads are done with the previous keys
        dtc_load_tile<Threads>(passesD, at, keys, dtc_gradient_source<T, Tiling::D, Tiling::Packs>(head.k));
        dtc_load_tile<Threads>(passesE, at, keys, dtc_gradient_source<T, Tiling::E, Tiling::Packs>(head.v));
        dtc_copy_commit();
        dtc_copy_wait<0>();
        __syncthreads();
        f32 s[1][N / 8][4], dp[1][N / 8][4];
        dtc_tile_products<T, 1, N, Tiling::StepsD>(s, staysD, own, passesD);
        dtc_tile_products<T, 1, N, Tiling::StepsE>(dp, staysE, own, passesE);
#pragma unroll
        for (int e = 0; e < N / 2; ++e) {
          const int h = e % 4 / 2;
          const i32 j = (i32)at + e / 4 * 8 + lane % 4 * 2 + e % 2;
          const i64 i = dtc_index_min(first + own + lane / 4 + 8 * h, last);
          const f32 x =
              j >= from[h] && j < to[h] ? score(s[0][e / 4][e % 4], n, i, (i64)j) : -dtc_infinity<f32>();
          sums[tile][e / 4][e % 4] +=
              dtc_score_gradient(x, dtc_weight(x, lse[h]), dp[0][e / 4][e % 4], delta[h]);
        }
      }
    }
  M* const p = out + u.batch * ofBatch + u.head * ofHead;
#pragma unroll
  for (int e = 0; e < Tiles * N / 2; ++e) {
    const i64 i = first + own + lane / 4 + 8 * (e % 4 / 2), j = u.key + e / 4 * 8 + lane % 4 * 2 + e % 2;
    if (i < rows && j < keys) dtc_store(p + i * keys + j, sums[e / (N / 2)][e % (N / 2) / 4][e % 4]);
  }
}
