// Device header, attention of bf16 and f16 on tensor cores, in CUDA and cuda-emu: softmax(score(q kᵀ)) v of a
// block of query rows (T. Dao, "FlashAttention-2", 2023). A warp holds 16 M rows: its scores stay in
// registers from the first product to the second, since the layout of a product's result in lane 4 r + q is
// that of the left operand of the next product. The next values are copied while the scores are computed, the
// next keys while the values are summed.

// A tile of 16-bit elements in shared memory, in units of 16 bytes. Eight rows at the same unit are in
// different banks: the row stride is an odd number of units, so that all addresses of a lane are one base and
// a constant; the longest rows, whose tiles would then not fit 48 KiB, swizzle their units by row instead.
template <class T, int Rows, int Columns> struct dtc_tile {
  static constexpr int units = (Columns + 15) / 16 * 2; // a product takes 16 columns: padded with zeros
  static constexpr bool swizzled = units == 32;
  static constexpr int stride = swizzled ? units : units | 1, elements = Rows * stride * 8;
  T* p;
  DTC_MEMBER T* unit(int row, int number) const {
    return p + (row * stride + (swizzled ? number ^ (row & 7) : number)) * 8;
  }
  DTC_MEMBER T* element(int row, int column) const { return unit(row, column / 8) + column % 8; }
};

// Copies rows [first, first + Rows) of `source`, zeros for those from `last` on. For dtc_rows the copy is
// still in flight on return (the caller commits the group); else source(i, c) is an element.
template <int Threads, int Rows, int Columns, class T, class Source>
DTC_FN void dtc_load_tile(dtc_tile<T, Rows, Columns> tile, i64 first, i64 last, Source source) {
  constexpr int units = dtc_tile<T, Rows, Columns>::units, count = Rows * units;
  constexpr bool even = Threads % units == 0; // then a thread's units are in one column
  const int left = (i32)dtc_index_min(last - first, Rows);
  const int begin = (i32)threadIdx.x / units, own = (i32)threadIdx.x % units;
#pragma unroll
  for (int k = 0; k * Threads < count; ++k) {
    const int n = (i32)threadIdx.x + k * Threads;
    const int row = even ? begin + k * (Threads / units) : n / units, number = even ? own : n % units;
    if (count % Threads != 0 && n >= count) break;
    const i64 i = first + row;
    if constexpr (dtc_are_rows<Source>) { // nothing is read past the end
      dtc_copy_async(tile.unit(row, number),
                     source.p + first * source.stride + row * source.stride + number * 8,
                     row < left && number * 8 < Columns ? 16 : 0);
    } else {
      f32 x[8];
#pragma unroll
      for (int e = 0; e < 8; ++e)
        x[e] = i < last && number * 8 + e < Columns ? source(i, (i64)(number * 8 + e)) : 0;
      *(uint4*)tile.unit(row, number) = make_uint4(dtc_pair<T>(x[0], x[1]), dtc_pair<T>(x[2], x[3]),
                                                   dtc_pair<T>(x[4], x[5]), dtc_pair<T>(x[6], x[7]));
    }
  }
}

// The elements [row, row + 16) x [16 step, 16 step + 16) as the left operand of a product.
template <class Tile> DTC_FN void dtc_left(u32* x, Tile tile, int row, int step) {
  const int lane = (i32)threadIdx.x % 32;
  dtc_load_matrices(x, tile.unit(row + lane % 16, 2 * step + lane / 16));
}
// The same as the right operands of two products, of the first and of the last eight columns: x[0], x[1] and
// x[2], x[3]. Either with the rows as the contracted dim, or transposed, with the columns as the contracted
// dim.
template <class Tile> DTC_FN void dtc_right(u32* x, Tile tile, int row, int step) {
  const int lane = (i32)threadIdx.x % 32;
  dtc_load_transposed(x, tile.unit(row + lane % 16, 2 * step + lane / 16));
}
template <class Tile> DTC_FN void dtc_right_transposed(u32* x, Tile tile, int row, int step) {
  const int lane = (i32)threadIdx.x % 32;
  dtc_load_matrices(x, tile.unit(row + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
}

// The state of the rows that one lane holds: of M times 16 rows those numbered lane / 4 and 8 + lane / 4 of
// each 16.
template <int M> struct dtc_softmax_rows {
  f32 rowMax[2 * M], sum[2 * M]; // `sum` covers this lane's scores
  i32 begin[2 * M], end[2 * M];  // the keys that the row attends to
};

// Turns scores into weights relative to the max so far, and rescales the sums. Inside: each row attends to each
// key.
template <bool Inside, int M, int Keys, int Columns, class Score>
DTC_FN void dtc_online_softmax(f32 (*s)[Keys / 8][4], f32 (*out)[Columns][4], dtc_softmax_rows<M>& rows,
                               i64 row, i64 last, i32 key, Score score) {
  constexpr f32 log2e = 1.4426950408889634f;
#pragma unroll
  for (int h = 0; h < 2 * M; ++h) {
    const i64 at = dtc_index_min(row + h / 2 * 16 + h % 2 * 8, last);
    f32 top = rows.rowMax[h];
#pragma unroll
    for (int n = 0; n < Keys / 4; ++n) {
      f32& x = s[h / 2][n / 2][h % 2 * 2 + n % 2];
      const i32 j = key + n / 2 * 8 + n % 2;
      x = Inside || (j >= rows.begin[h] && j < rows.end[h]) ? score(x, at, (i64)j) : -dtc_infinity<f32>();
      top = x > top ? x : top; // `max` may ignore NaN: it stays in the sum
    }
#pragma unroll
    for (i32 lanes = 1; lanes < 4; lanes *= 2) {
      const f32 other = dtc_shuffle_xor(top, lanes);
      top = other > top ? other : top;
    }
    const f32 base = top == -dtc_infinity<f32>() ? 0 : top; // a row that has attended to no key yet
    const f32 scale = dtc_exp2_fast((rows.rowMax[h] - base) * log2e);
    f32 total = rows.sum[h] * scale;
#pragma unroll
    for (int n = 0; n < Keys / 4; ++n) {
      f32& x = s[h / 2][n / 2][h % 2 * 2 + n % 2];
      x = dtc_exp2_fast((x - base) * log2e);
      total += x;
    }
    rows.rowMax[h] = top, rows.sum[h] = total;
#pragma unroll
    for (int n = 0; n < Columns; ++n)
      out[h / 2][n][h % 2 * 2] *= scale, out[h / 2][n][h % 2 * 2 + 1] *= scale;
  }
}

// The tiling of a block: Rows query rows against tiles of Keys keys; warps split the rows, M times 16 each,
// or, where rows are few, the keys (Split warps, each with its own row sums, which are combined at the end).
// Stays: the query's operands stay in registers; else they are read again for each tile of keys.
template <int R, int K, int Multiple, int S, bool Stays> struct dtc_attention_tiling {
  static constexpr int Rows = R, Keys = K, M = Multiple, Split = S, Threads = R / (16 * M) * S * 32;
  static constexpr bool stays = Stays;
};
// Where the tiles of elements T are in shared memory, in elements. (lib/Kernel/print/PrintAttention.cpp
// computes the same number of bytes.)
template <class T, class Tiling, int Depth, int Width> struct dtc_attention_room {
  typedef dtc_tile<T, Tiling::Rows, Depth> QueryTile;
  typedef dtc_tile<T, Tiling::Keys, Depth> KeyTile;
  typedef dtc_tile<T, Tiling::Keys, Width> ValueTile;
  static constexpr int pair = KeyTile::elements + ValueTile::elements;
  static constexpr int joined = Tiling::Split > 1 ? Tiling::Split * 16 * ((Width + 15) / 16 * 16) * 2 : 0;
  static constexpr int passing = Tiling::stays ? QueryTile::elements : 0;
  static constexpr int most = passing > joined ? passing : joined, query = most > pair ? most : pair;
  static constexpr int bytes = 2 * (query + (Tiling::stays ? 0 : QueryTile::elements));
};

// Combines the sums of warps that have processed different keys. Every thread of the block calls it.
template <class Tiling, int Columns>
DTC_FN void dtc_join_splits(f32 (*out)[Columns][4], dtc_softmax_rows<1>& rows, f32* memory) {
  constexpr f32 log2e = 1.4426950408889634f;
  __shared__ f32 parts[2][Tiling::Split][16];
  const int lane = (i32)threadIdx.x % 32, warp = (i32)threadIdx.x / 32;
  for (int h = 0; h < 2; ++h)
    if (lane % 4 == 0) {
      parts[0][warp][lane / 4 + 8 * h] = rows.rowMax[h];
      parts[1][warp][lane / 4 + 8 * h] = rows.sum[h];
    }
  __syncthreads(); // and all are done with the tiles
  for (int h = 0; h < 2; ++h) {
    f32 top = -dtc_infinity<f32>(), sum = 0;
    for (int w = 0; w < Tiling::Split; ++w) {
      const f32 x = parts[0][w][lane / 4 + 8 * h];
      top = x > top ? x : top;
    }
    const f32 base = top == -dtc_infinity<f32>() ? 0 : top;
    for (int w = 0; w < Tiling::Split; ++w)
      sum += parts[1][w][lane / 4 + 8 * h] * dtc_exp2_fast((parts[0][w][lane / 4 + 8 * h] - base) * log2e);
    const f32 scale = dtc_exp2_fast((rows.rowMax[h] - base) * log2e);
    rows.rowMax[h] = top, rows.sum[h] = sum;
#pragma unroll
    for (int n = 0; n < Columns; ++n)
      for (int e = 0; e < 2; ++e)
        memory[(warp * 16 + lane / 4 + 8 * h) * (8 * Columns) + n * 8 + lane % 4 * 2 + e] =
            out[0][n][2 * h + e] * scale;
  }
  __syncthreads();
  if (warp == 0)
#pragma unroll
    for (int n = 0; n < Columns; ++n)
      for (int e = 0; e < 4; ++e) {
        f32 sum = 0;
        for (int w = 0; w < Tiling::Split; ++w)
          sum += memory[(w * 16 + lane / 4 + e / 2 * 8) * (8 * Columns) + n * 8 + lane % 4 * 2 + e % 2];
        out[0][n][e] = sum;
      }
}

// s = q kᵀ of the warp's rows and Own keys. Held registers of q: all Steps, or those of the present one.
template <class T, int M, int Own, int Steps, int Held, class QueryTile, class KeyTile>
DTC_FN void dtc_score_products(f32 (*s)[Own / 8][4], u32 (*q)[Held][4], QueryTile queryTile, int row,
                               KeyTile keyTile, int key) {
  constexpr bool stays = Held == Steps;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < Own / 2; ++n) s[m][n / 4][n % 4] = 0;
#pragma unroll(stays ? Steps : 2)
  for (int c = 0; c < Steps; ++c) {
    if constexpr (!stays)
#pragma unroll
      for (int m = 0; m < M; ++m) dtc_left(q[m][0], queryTile, row + 16 * m, c);
#pragma unroll
    for (int n = 0; n < Own / 16; ++n) {
      u32 k[4];
      dtc_right_transposed(k, keyTile, key + 16 * n, c);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        dtc_mma<T>(s[m][2 * n], q[m][stays ? c : 0], k[0], k[1]);
        dtc_mma<T>(s[m][2 * n + 1], q[m][stays ? c : 0], k[2], k[3]);
      }
    }
  }
}
// out += p v of the warp's rows and Own keys, p rounded to T.
template <class T, int M, int Own, int Columns, class ValueTile>
DTC_FN void dtc_value_sums(f32 (*out)[Columns][4], f32 (*s)[Own / 8][4], ValueTile valueTile, int key) {
#pragma unroll
  for (int n = 0; n < Own / 16; ++n) {
    u32 p[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        p[m][e] = dtc_pair<T>(s[m][2 * n + e / 2][e % 2 * 2], s[m][2 * n + e / 2][e % 2 * 2 + 1]);
#pragma unroll
    for (int c = 0; c < Columns / 2; ++c) {
      u32 v[4];
      dtc_right(v, valueTile, key + 16 * n, c);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        dtc_mma<T>(out[m][2 * c], p[m], v[0], v[1]);
        dtc_mma<T>(out[m][2 * c + 1], p[m], v[2], v[3]);
      }
    }
  }
}
// Stores the result's rows and the requested row sums. `none`: there are no keys at all.
template <class T, int M, int Columns, int Width, class Store, class RowSum>
DTC_FN void dtc_store_rows(f32 (*out)[Columns][4], const dtc_softmax_rows<M>& state, i64 row, i64 last,
                           bool none, Store store, RowSum rowSum) {
  const int lane = (i32)threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2 * M; ++h) {
    const i64 i = row + h / 2 * 16 + h % 2 * 8;
    if (i > last) continue;
    const f32 top = state.rowMax[h];
    if constexpr (dtc_asked<RowSum>)
      if (lane % 4 == 0) rowSum(i, dtc_log(state.sum[h]) + (top == -dtc_infinity<f32>() ? 0 : top));
    const f32 inverse = none ? 1 : 1 / state.sum[h]; // 0 / 0 where a row attends to nothing, as in softmax
#pragma unroll
    for (int n = 0; n < Columns; ++n) {
      const int c = n * 8 + lane % 4 * 2;
      const f32 x = out[h / 2][n][h % 2 * 2] * inverse, y = out[h / 2][n][h % 2 * 2 + 1] * inverse;
      if constexpr (dtc_are_rows<Store>) {
        auto* const at = store.p + i * store.stride + c;
        if constexpr (sizeof *at == sizeof(f32)) { // parts of a result are not rounded
          if (c < Width) dtc_store_pack((f32*)at, dtc_pack<f32, 2>{x, y});
        } else if (c < Width) {
          *(u32*)at = dtc_pair<T>(x, y);
        }
      } else {
        if (c < Width) store(i, (i64)c, x);
        if (c + 1 < Width) store(i, (i64)c + 1, y);
      }
    }
  }
}

// See dtc_attention of attention_block.h: query, key and value are dtc_rows<const T>, or functions (i, c) of
// an element; store may be dtc_rows<T>; `shared` is dtc_attention_room::bytes of shared memory.
template <class T, class Tiling, int Depth, int Width, class Query, class Key, class Value, class Begin,
          class End, class Score, class Store, class RowSum>
DTC_FN void dtc_attention_tensor(void* shared, i64 first, i64 rows, i64 keys, Query query, Key key,
                                 Value value, Begin begin, End end, Score score, Store store, RowSum rowSum) {
  constexpr int M = Tiling::M, Keys = Tiling::Keys, Split = Tiling::Split, Own = Keys / Split,
                Threads = Tiling::Threads;
  constexpr int Steps = (Depth + 15) / 16, Columns = (Width + 15) / 16 * 2;
  constexpr bool stays = Tiling::stays;
  typedef dtc_attention_room<T, Tiling, Depth, Width> Room;
  T* const memory = (T*)shared;
  const typename Room::KeyTile keyTile{memory};
  const typename Room::ValueTile valueTile{memory + Room::KeyTile::elements};
  const typename Room::QueryTile queryTile{memory + (stays ? 0 : Room::query)};
  const int lane = (i32)threadIdx.x % 32, warp = (i32)threadIdx.x / 32;
  const int ownRow = warp / Split * 16 * M, ownKey = warp % Split * Own;
  const i64 last = dtc_index_min(first + Tiling::Rows, rows) - 1, row = first + ownRow + lane / 4;
  const i64 seen = end(last); // elements past the end are not read: they may be NaN
  dtc_load_tile<Threads>(queryTile, first, last + 1, query);
  u32 q[M][stays ? Steps : 1][4];
  if constexpr (stays) {
    dtc_copy_commit();
    dtc_copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int c = 0; c < Steps; ++c) dtc_left(q[m][c], queryTile, ownRow + 16 * m, c);
    __syncthreads();
  }
  dtc_softmax_rows<M> state;
  f32 out[M][Columns][4];
#pragma unroll
  for (int h = 0; h < 2 * M; ++h) {
    const i64 i = dtc_index_min(row + h / 2 * 16 + h % 2 * 8, last); // rows past the end are not written
    state.begin[h] = (i32)begin(i), state.end[h] = (i32)end(i);
    state.rowMax[h] = -dtc_infinity<f32>(), state.sum[h] = 0;
#pragma unroll
    for (int n = 0; n < Columns; ++n) out[h / 2][n][h % 2 * 2] = out[h / 2][n][h % 2 * 2 + 1] = 0;
  }
  // All rows of the warp attend to the keys from `allFrom` up to `allTo`.
  const i32 allFrom = (i32)begin(dtc_index_min(first + ownRow + 16 * M - 1, last)),
            allTo = (i32)end(dtc_index_min(first + ownRow, last));
  i64 at = begin(first);
  if (at < seen) dtc_load_tile<Threads>(keyTile, at, seen, key);
  dtc_copy_commit();
#pragma unroll 1
  for (; at < seen; at += Keys) {
    dtc_copy_wait<0>();
    __syncthreads(); // the keys have arrived, and all threads are done with the previous values
    dtc_load_tile<Threads>(valueTile, at, seen, value);
    dtc_copy_commit();
    f32 s[M][Own / 8][4];
    dtc_score_products<T, M, Own, Steps>(s, q, queryTile, ownRow, keyTile, ownKey);
    const i32 own = (i32)at + ownKey;
    if (own >= allFrom && own + Own <= allTo)
      dtc_online_softmax<true, M, Own, Columns>(s, out, state, row, last, own + lane % 4 * 2, score);
    else
      dtc_online_softmax<false, M, Own, Columns>(s, out, state, row, last, own + lane % 4 * 2, score);
    dtc_copy_wait<0>();
    __syncthreads(); // the values have arrived, and all threads are done with these keys
    if (at + Keys < seen) dtc_load_tile<Threads>(keyTile, at + Keys, seen, key);
    dtc_copy_commit();
    dtc_value_sums<T, M, Own, Columns>(out, s, valueTile, ownKey);
  }
#pragma unroll
  for (int h = 0; h < 2 * M; ++h)
    for (i32 lanes = 1; lanes < 4; lanes *= 2) state.sum[h] += dtc_shuffle_xor(state.sum[h], lanes);
  dtc_copy_wait<0>();
  if constexpr (Split > 1) dtc_join_splits<Tiling, Columns>(out, state, (f32*)shared);
  if (warp % Split != 0) return;
  dtc_store_rows<T, M, Columns, Width>(out, state, row, last, keys == 0, store, rowSum);
}
