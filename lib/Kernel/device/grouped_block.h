// Device header, grouped matrix products in CUDA and cuda-emu: rows that belong to groups, each with its own
// matrix. The groups are read on the device, so nothing waits for the host. A block of 256 threads computes a
// tile of 64 rows by 128 columns. The host knows an upper bound of the number of tiles: each group's rows
// begin a tile of their own. bf16 and f16 use tensor cores; for other floats thread (x, y) of 16 by 16 holds
// rows y, y + 16, … and columns x, x + 16, … and reads both factors from shared memory.

constexpr i64 dtc_grouped_rows = 64, dtc_grouped_columns = 128;
constexpr i32 dtc_grouped_ends = 1024; // the maximum number of groups

// The ends in increasing order, in shared memory; all threads of the block call it.
DTC_FN void dtc_sort_ends(i32* sorted, const i32* ends, i32 n) {
  for (i32 e = (i32)threadIdx.x; e < n; e += 256) {
    const i32 end = ends[e];
    i32 rank = 0;
    for (i32 other = 0; other < n; ++other) rank += ends[other] < end || (ends[other] == end && other < e);
    sorted[rank] = end;
  }
  __syncthreads();
}
// The first row of group g of n among `rows` rows from `firstRow` on; for group n + 1: the end.
DTC_FN i64 dtc_group_begin(const i32* sorted, i64 g, i64 n, i64 firstRow, i64 rows) {
  if (g == 0) return 0;
  if (g > n) return rows;
  const i64 begin = sorted[g - 1] - firstRow;
  return begin < 0 ? 0 : dtc_index_min(begin, rows);
}

// store(i, j, the sum of left(i, l) * right(l, j) over begin <= l < end) for i below `rows` and j below
// `columns`, at most a tile's.
template <class A, class Left, class Right, class Store>
DTC_FN void dtc_tile_sums(i64 rows, i64 columns, i64 begin, i64 end, Left left, Right right, Store store) {
  constexpr i32 R = (i32)dtc_grouped_rows, C = (i32)dtc_grouped_columns, D = 16;
  __shared__ A a[D * (R + 1)];
  __shared__ A b[D * C];
  A out[4][8];
  const i32 thread = (i32)threadIdx.x, x = thread % 16, y = thread / 16;
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 8; ++c) out[r][c] = 0;
  for (i64 at = begin; at < end; at += D) {
    __syncthreads();
    for (i32 n = thread; n < R * D; n += 256)
      a[n % D * (R + 1) + n / D] =
          n / D < rows && at + n % D < end ? (A)dtc_load(left(n / D, at + n % D)) : A(0);
    for (i32 n = thread; n < C * D; n += 256)
      b[n] = n % C < columns && at + n / C < end ? (A)dtc_load(right(at + n / C, n % C)) : A(0);
    __syncthreads();
    for (int l = 0; l < D; ++l) {
      A row[4];
      for (int r = 0; r < 4; ++r) row[r] = a[l * (R + 1) + y + 16 * r];
      for (int c = 0; c < 8; ++c) {
        const A column = b[l * C + x + 16 * c];
        for (int r = 0; r < 4; ++r) out[r][c] += row[r] * column;
      }
    }
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 8; ++c)
      if (y + 16 * r < rows && x + 16 * c < columns) store(y + 16 * r, x + 16 * c, out[r][c]);
}

// Copies rows [first, last) of a tile whose columns are `wide` elements from `p` on, with row stride
// `stride`; zeros past both. Complete rows at multiples of 16 bytes are copied asynchronously.
template <int Rows, int Columns, class T>
DTC_FN void dtc_load_part(dtc_tile<T, Rows, Columns> tile, const T* p, i64 stride, i64 rows, i64 wide) {
  if (wide >= Columns && stride % 8 == 0 && (u64)p % 16 == 0)
    dtc_load_tile<256>(tile, 0, rows, dtc_rows<const T>{p, stride});
  else
    dtc_load_tile<256>(tile, 0, rows,
                       [=](i64 i, i64 c) { return c < wide ? (f32)dtc_load(p + i * stride + c) : 0.0f; });
}

// The same for bf16 and f16 on tensor cores: a warp computes 32 rows by 32 columns; the next factors are
// copied while these are multiplied. left(0, l) and right(l, 0) have row strides `leftStride` and
// `rightStride`, with contiguous columns.
template <class T, class Store>
DTC_FN void dtc_tile_tensor(i64 rows, i64 columns, i64 begin, i64 end, const T* left, i64 leftStride,
                            const T* right, i64 rightStride, Store store) {
  constexpr int R = (int)dtc_grouped_rows, C = (int)dtc_grouped_columns, D = 32;
  using Left = dtc_tile<T, R, D>;
  using Right = dtc_tile<T, D, C>;
  __shared__ __align__(16) u16 shared[2 * (Left::elements + Right::elements)];
  const i32 lane = (i32)threadIdx.x % 32, warp = (i32)threadIdx.x / 32, row = warp / 4 * 32,
            column = warp % 4 * 32;
  const auto load = [&](i64 at, int half) {
    T* const p = (T*)shared + half * (Left::elements + Right::elements);
    dtc_load_part(Left{p}, left + at, leftStride, rows, end - at);
    dtc_load_part(Right{p + Left::elements}, right + at * rightStride, rightStride, end - at, columns);
  };
  f32 out[2][4][4];
  for (int m = 0; m < 2; ++m)
    for (int n = 0; n < 4; ++n)
      for (int e = 0; e < 4; ++e) out[m][n][e] = 0;
  if (begin < end) load(begin, 0);
  dtc_copy_commit();
  int half = 0;
  for (i64 at = begin; at < end; at += D, half ^= 1) {
    if (at + D < end) load(at + D, half ^ 1);
    dtc_copy_commit();
    dtc_copy_wait<1>();
    __syncthreads();
    T* const p = (T*)shared + half * (Left::elements + Right::elements);
    for (int k = 0; k < D / 16; ++k) {
      u32 a[2][4], b[2][4];
      for (int m = 0; m < 2; ++m) dtc_left(a[m], Left{p}, row + 16 * m, k);
      for (int n = 0; n < 2; ++n) dtc_right(b[n], Right{p + Left::elements}, 16 * k, column / 16 + n);
      for (int m = 0; m < 2; ++m)
        for (int n = 0; n < 4; ++n) dtc_mma<T>(out[m][n], a[m], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]);
    }
    __syncthreads();
  }
  for (int m = 0; m < 2; ++m)
    for (int n = 0; n < 4; ++n)
      for (int e = 0; e < 4; ++e) {
        const i64 i = row + 16 * m + lane / 4 + e / 2 * 8, j = column + 8 * n + lane % 4 * 2 + e % 2;
        if (i < rows && j < columns) store(i, j, out[m][n][e]);
      }
}

// store(i, j, x) for the tile of left [.., end) times right [end, ..] that begins at row 0 of `left` and
// column 0 of `right`, from `begin` on.
template <class T, class A, class Store>
DTC_FN void dtc_tile_product(i64 rows, i64 columns, i64 begin, i64 end, const T* left, i64 leftStride,
                             const T* right, i64 rightStride, Store store) {
  rows = dtc_index_min(rows, dtc_grouped_rows), columns = dtc_index_min(columns, dtc_grouped_columns);
  if constexpr (dtc_same<T, bf16> || dtc_same<T, f16>)
    dtc_tile_tensor(rows, columns, begin, end, left, leftStride, right, rightStride, store);
  else
    dtc_tile_sums<A>(
        rows, columns, begin, end, [=](i64 i, i64 l) { return left + i * leftStride + l; },
        [=](i64 l, i64 j) { return right + l * rightStride + j; }, store);
}

// Tile `tile` of y [rows, width] = x [rows, depth] times the matrix of the row's group, of w [groups, depth,
// width]; 0 for rows without a group. The shard begins at row `firstRow` of the global rows and has the
// groups from `firstGroup` on.
template <class T, class A>
DTC_FN void dtc_grouped_spread(i64 tile, T* y, const T* x, const T* w, const i32* ends, i64 n, i64 firstRow,
                               i64 firstGroup, i64 rows, i64 groups, i64 depth, i64 width) {
  __shared__ i32 sorted[dtc_grouped_ends];
  dtc_sort_ends(sorted, ends, (i32)n);
  const i64 across = dtc_blocks(width, dtc_grouped_columns), column = tile % across * dtc_grouped_columns;
  i64 skip = tile / across, g = 0, begin = 0, end = 0;
  for (; g <= n; ++g) { // the last one represents the rows without a group
    begin = dtc_group_begin(sorted, g, n, firstRow, rows);
    end = dtc_group_begin(sorted, g + 1, n, firstRow, rows);
    const i64 tiles = end > begin ? dtc_blocks(end - begin, dtc_grouped_rows) : 0;
    if (skip < tiles) break;
    skip -= tiles;
  }
  if (g > n) return; // there are fewer tiles
  begin += skip * dtc_grouped_rows;
  const i64 own = g - firstGroup;
  const bool valid = g < n && own >= 0 && own < groups;
  T* const to = y + begin * width + column;
  dtc_tile_product<T, A>(end - begin, width - column, 0, valid ? depth : 0, x + begin * depth, depth,
                         w + (valid ? own * depth * width : 0) + column, width,
                         [=](i64 i, i64 j, A sum) { dtc_store(to + i * width + j, sum); });
}

// Tile `tile` of y [groups, depth, width]: x [depth, rows] times w [rows, width], over the rows of each
// group.
template <class T, class A>
DTC_FN void dtc_grouped_gathered(i64 tile, T* y, const T* x, const T* w, const i32* ends, i64 n, i64 firstRow,
                                 i64 firstGroup, i64 rows, i64 groups, i64 depth, i64 width) {
  __shared__ i32 sorted[dtc_grouped_ends];
  dtc_sort_ends(sorted, ends, (i32)n);
  const i64 across = dtc_blocks(width, dtc_grouped_columns), down = dtc_blocks(depth, dtc_grouped_rows);
  const i64 column = tile % across * dtc_grouped_columns, row = tile / across % down * dtc_grouped_rows;
  const i64 own = tile / across / down, g = own + firstGroup;
  const bool valid = g >= 0 && g < n;
  const i64 begin = valid ? dtc_group_begin(sorted, g, n, firstRow, rows) : 0;
  const i64 end = valid ? dtc_group_begin(sorted, g + 1, n, firstRow, rows) : 0;
  T* const to = y + (own * depth + row) * width + column;
  dtc_tile_product<T, A>(depth - row, width - column, begin, end, x + row * rows, rows, w + column, width,
                         [=](i64 i, i64 j, A sum) { dtc_store(to + i * width + j, sum); });
}
