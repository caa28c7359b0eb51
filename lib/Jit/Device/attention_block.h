// Device header, attention in CUDA and cuda-emu: softmax(score(q kᵀ)) v of Rows query rows by a block of 128 threads, without ever
// writing the scores of more than a tile of keys (online softmax: T. Dao et al., "FlashAttention", 2022). Thread (x, y) of
// 16 by 8 holds rows y * Rows / 8 and on, and of each every 16th key of a tile, then every 16th element of the result; so the
// maximum and the sum of a row stay within half a warp.

DTC_FN i64 dtc_greatest(i64 a, i64 b) { return a > b ? a : b; }

struct dtc_none {}; // in the place of what is not asked for
template <class F> constexpr bool dtc_asked = true;
template <> inline constexpr bool dtc_asked<dtc_none> = false;

//   query(i, c), key(j, c), value(j, c): elements.  begin(i), end(i): the keys that row i sees; neither falls as i grows.
//   score(s, i, j): what becomes of the product s of row i and key j.  store(i, c, x): writes an element of the result.
//   rowSum(i, x): the log of row i's sum of exponentials; or dtc_none.
template <class A, int Rows, int Keys, int Depth, int Width, class Query, class Key, class Value, class Begin,
          class End, class Score, class Store, class RowSum>
DTC_FN void dtc_attention(i64 first, i64 rows, i64 keys, Query query, Key key, Value value, Begin begin,
                          End end, Score score, Store store, RowSum rowSum) {
  constexpr int kThreads = 128, kWide = 16, R = Rows / (kThreads / kWide), K = Keys / kWide,
                E = (Width + kWide - 1) / kWide;
  __shared__ A q[Rows * (Depth + 1)];
  __shared__ A kv[Keys * (Depth + 1 > Width ? Depth + 1 : Width)]; // the keys of a tile, then its values
  __shared__ A p[Rows * (Keys + 1)];
  const i32 thread = (i32)threadIdx.x, x = thread % kWide, y = thread / kWide * R;
  const i64 last = dtc_least(first + Rows, rows) - 1;
  for (i32 n = thread; n < Rows * Depth; n += kThreads)
    q[n / Depth * (Depth + 1) + n % Depth] = query(dtc_least(first + n / Depth, last), n % Depth);
  A greatest[R], sum[R], out[R][E];
  i64 from[R], to[R];
  for (int r = 0; r < R; ++r) {
    const i64 row =
        dtc_least(first + y + r, last); // rows past the end repeat the last one, and are not written
    from[r] = begin(row), to[r] = end(row);
    greatest[r] = -dtc_infinity<A>(), sum[r] = 0;
    for (int e = 0; e < E; ++e) out[r][e] = 0;
  }
  const i64 seen = end(last);
  for (i64 at = begin(first); at < seen; at += Keys) {
    __syncthreads();
    for (i32 n = thread; n < Keys * Depth; n += kThreads)
      kv[n / Depth * (Depth + 1) + n % Depth] = at + n / Depth < keys ? key(at + n / Depth, n % Depth) : A(0);
    __syncthreads();
    A s[R][K];
    for (int r = 0; r < R; ++r)
      for (int j = 0; j < K; ++j) s[r][j] = 0;
    for (int c = 0; c < Depth; ++c)
      for (int j = 0; j < K; ++j) {
        const A b = kv[(x + j * kWide) * (Depth + 1) + c];
        for (int r = 0; r < R; ++r) s[r][j] += q[(y + r) * (Depth + 1) + c] * b;
      }
    for (int r = 0; r < R; ++r) {
      A top = greatest[r];
      for (int j = 0; j < K; ++j) {
        const i64 k = at + x + j * kWide;
        s[r][j] = k >= from[r] && k < to[r] ? score(s[r][j], dtc_least(first + y + r, last), k)
                                            : -dtc_infinity<A>();
        top = s[r][j] > top ? s[r][j] : top; // NaN may fall out: it stays in the sum
      }
      for (i32 lanes = kWide / 2; lanes > 0; lanes >>= 1) {
        const A other = dtc_shuffle_xor(top, lanes);
        top = other > top ? other : top;
      }
      const A base = top == -dtc_infinity<A>() ? A(0) : top; // a row that has seen no key yet
      const A scale = dtc_exp(greatest[r] - base);
      A total = 0;
      for (int j = 0; j < K; ++j) {
        const A weight = dtc_exp(s[r][j] - base);
        p[(y + r) * (Keys + 1) + x + j * kWide] = weight;
        total += weight;
      }
      for (i32 lanes = kWide / 2; lanes > 0; lanes >>= 1) total += dtc_shuffle_xor(total, lanes);
      greatest[r] = top;
      sum[r] = sum[r] * scale + total;
      for (int e = 0; e < E; ++e) out[r][e] *= scale;
    }
    __syncthreads();
    for (i32 n = thread; n < Keys * Width; n += kThreads)
      kv[n] = at + n / Width < keys ? value(at + n / Width, n % Width) : A(0);
    __syncthreads();
    for (int j = 0; j < Keys; ++j)
      for (int e = 0; e < E; ++e) {
        const A b = x + e * kWide < Width ? kv[j * Width + x + e * kWide] : A(0);
        for (int r = 0; r < R; ++r) out[r][e] += p[(y + r) * (Keys + 1) + j] * b;
      }
  }
  if constexpr (dtc_asked<RowSum>)
    for (int r = 0; r < R; ++r)
      if (first + y + r <= last && x == 0)
        rowSum(first + y + r, dtc_log(sum[r]) + (greatest[r] == -dtc_infinity<A>() ? A(0) : greatest[r]));
  for (int r = 0; r < R; ++r)
    for (int e = 0; e < E; ++e)
      if (first + y + r <= last && x + e * kWide < Width) // 0 / 0 where a row sees nothing, as softmax has it
        store(first + y + r, x + e * kWide, keys == 0 ? A(0) : out[r][e] / sum[r]);
}
