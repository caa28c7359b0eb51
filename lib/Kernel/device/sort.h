// Device header, the sorted order of a row's elements on the CPU.

// Bytes of scratch for n elements of T: keys and indices, twice.
template <class T> constexpr i64 dtc_sort_bytes = 2 * (sizeof(dtc_compute<T>) + sizeof(i32));

// order[i * stride]: the index of the i-th of the n elements keys[j * stride] in a stable sort. By digits of
// a byte from the least significant on (LSD radix sort), without those that all keys share; few elements by
// insertion.
template <bool Descending, class T>
static void dtc_sort_order(const T* keys, i32* order, i64 stride, i64 n, void* scratch) {
  typedef decltype(dtc_sort_key<Descending>(keys)) U;
  U *from = (U*)scratch, *to = from + n;
  i32 *at = (i32*)(to + n), *next = at + n;
  for (i64 i = 0; i < n; ++i) from[i] = dtc_sort_key<Descending>(keys + i * stride), at[i] = (i32)i;
  if (n <= 48) {
    for (i64 i = 1; i < n; ++i) {
      const U key = from[i];
      i64 j = i;
      for (; j > 0 && key < from[j - 1]; --j) from[j] = from[j - 1], at[j] = at[j - 1];
      from[j] = key, at[j] = (i32)i;
    }
  } else {
    for (int shift = 0; shift < 8 * (int)sizeof(U); shift += 8) {
      i64 count[257] = {};
      for (i64 i = 0; i < n; ++i) ++count[(from[i] >> shift & 255) + 1];
      if (count[(from[0] >> shift & 255) + 1] == n) continue;
      for (int d = 0; d < 256; ++d) count[d + 1] += count[d];
      for (i64 i = 0; i < n; ++i) {
        const i64 position = count[from[i] >> shift & 255]++;
        to[position] = from[i], next[position] = at[i];
      }
      U* const keysBefore = from;
      from = to, to = keysBefore;
      i32* const indicesBefore = at;
      at = next, next = indicesBefore;
    }
  }
  for (i64 i = 0; i < n; ++i) order[i * stride] = at[i];
}

// --- passes of a radix sort, tile by tile (lib/Ops/scan/SortDigits.cpp) ---

// counts[d]: the number of occurrences of digit d in the tile.
template <bool Descending, int Tile, class T>
static void dtc_sort_counts(const T* row, i32* counts, i64 n, i64 tile, int digit) {
  const i64 end = dtc_index_min((tile + 1) * Tile, n);
  const int shift = 32 + 8 * digit;
  i32 even[256] = {}, odd[256] = {}; // runs of one digit do not stall on themselves
  i64 i = tile * Tile;
  for (; i + 1 < end; i += 2) {
    ++even[dtc_digit_word<Descending>(row, i) >> shift & 255];
    ++odd[dtc_digit_word<Descending>(row, i + 1) >> shift & 255];
  }
  if (i < end) ++even[dtc_digit_word<Descending>(row, i) >> shift & 255];
  for (int d = 0; d < 256; ++d) counts[d] = even[d] + odd[d];
}

// upto[t * 256 + d]: the number of occurrences of digit d in the tiles of the row up to t.
template <bool Descending, int Tile, class T, class Y>
static void dtc_sort_digit(const T* row, const i32* upto, Y* y, i64 n, i64 tile, int digit) {
  const i64 end = dtc_index_min((tile + 1) * Tile, n);
  const int shift = 32 + 8 * digit;
  const i32* const all = upto + ((n + Tile - 1) / Tile - 1) * 256;
  i64 next[256], less = 0;
  for (int d = 0; d < 256; ++d) {
    next[d] = less + (tile == 0 ? 0 : upto[(tile - 1) * 256 + d]);
    less += all[d];
  }
  for (i64 i = tile * Tile; i < end; ++i) {
    const u64 word = dtc_digit_word<Descending>(row, i);
    const i64 position = next[word >> shift & 255]++;
    if ((u64)position < (u64)n) y[position] = (Y)word;
  }
}
