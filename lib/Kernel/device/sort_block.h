// Device header, the sorted order of a row's elements by the threads of one CUDA block: a bitonic network
// (Batcher 1968) whose merges begin with a mirrored step, so that all comparisons have one direction and
// those past n are skipped. Elements are key and index, and the index breaks ties: the network itself need
// not be stable.

// Key over index, in one word if they fit.
template <class U> struct dtc_sorted_word {
  u64 word;
  static __device__ dtc_sorted_word of(U key, u32 index) { return {(u64)key << 32 | index}; }
  __device__ i32 index() const { return (i32)(u32)word; }
  __device__ bool before(const dtc_sorted_word& other) const { return word < other.word; }
};
struct dtc_sorted_pair {
  u64 key;
  u32 at;
  static __device__ dtc_sorted_pair of(u64 key, u32 index) { return {key, index}; }
  __device__ i32 index() const { return (i32)at; }
  __device__ bool before(const dtc_sorted_pair& other) const {
    return key < other.key || (key == other.key && at < other.at);
  }
};
template <class U> struct dtc_sorted_of {
  typedef dtc_sorted_word<U> type;
};
template <> struct dtc_sorted_of<u64> {
  typedef dtc_sorted_pair type;
};

// The positions that the k-th comparison of a step compares: `distance` (a power of two) apart, or mirrored
// about the middle of a run.
template <class I> DTC_FN void dtc_sort_pair(I k, I distance, bool mirrored, I& low, I& high) {
  const I within = k & (distance - 1);
  low = 2 * k - within;
  high = mirrored ? 2 * (k - within) + 2 * distance - 1 - within : low + distance;
}

// A step of the network over the `count` elements of a tile in shared memory. 64 neighbors belong to one
// warp: steps within them need no block barrier.
template <int Threads, int Room, class E>
DTC_FN void dtc_tile_step(E* tile, i32 count, i32 run, i32 distance, bool mirrored) {
  for (i32 k = threadIdx.x; k < Room / 2; k += Threads) {
    i32 low, high;
    dtc_sort_pair(k, distance, mirrored, low, high);
    if (high >= count) continue;
    const E a = tile[low], b = tile[high];
    if (b.before(a)) tile[low] = b, tile[high] = a;
  }
  if (distance > 32 || (distance == 1 && run >= 64))
    __syncthreads();
  else
    __syncwarp();
}

// A step of the network between positions that are further apart than a tile, in global memory, by all
// threads of the row's blocks: each has four comparisons in flight.
template <bool Descending, class E, class T>
DTC_FN void dtc_far_step(const T* keys, i32* order, i64 stride, i64 n, i64 size, i64 distance, bool mirrored,
                         i64 thread, i64 threads) {
  constexpr i32 batch = 4;
  for (i64 first = thread; first < size / 2; first += batch * threads) {
    i64 low[batch], high[batch];
    i32 a[batch], b[batch];
    bool there[batch], swap[batch];
#pragma unroll
    for (i32 j = 0; j < batch; ++j) {
      dtc_sort_pair(first + j * threads, distance, mirrored, low[j], high[j]);
      there[j] = first + j * threads < size / 2 && high[j] < n;
      a[j] = there[j] ? order[low[j] * stride] : 0;
      b[j] = there[j] ? order[high[j] * stride] : 0;
    }
#pragma unroll
    for (i32 j = 0; j < batch; ++j) {
      const E before = E::of(dtc_sort_key<Descending>(keys + a[j] * stride), a[j]);
      swap[j] = there[j] && E::of(dtc_sort_key<Descending>(keys + b[j] * stride), b[j]).before(before);
    }
#pragma unroll
    for (i32 j = 0; j < batch; ++j)
      if (swap[j]) order[low[j] * stride] = b[j], order[high[j] * stride] = a[j];
  }
}

// order[i * stride]: the index of the i-th of the n elements keys[j * stride] in a stable sort. `Room`, a
// power of two of 64 at least: the number of elements sorted in shared memory; longer rows do the steps
// between tiles in global memory. `Blocks`: the blocks of the cluster that share the row.
template <bool Descending, int Threads, int Room, int Blocks, class T>
static __device__ void dtc_block_sort_order(const T* keys, i32* order, i64 stride, i64 n) {
  typedef decltype(dtc_sort_key<Descending>(keys)) U;
  typedef typename dtc_sorted_of<U>::type E;
  __shared__ u64 words[Room * sizeof(E) / 8];
  E* const tile = (E*)words;
  i64 rank = 0, size = Room;
  if constexpr (Blocks > 1) rank = dtc_cluster_rank();
  const auto wait = [] {
    if constexpr (Blocks > 1)
      dtc_cluster_sync();
    else
      __syncthreads();
  };
  while (size < n) size *= 2;
  for (i64 run = Room; run <= size; run *= 2) {
    for (i64 distance = run / 2; distance >= Room; distance /= 2) {
      dtc_far_step<Descending, E>(keys, order, stride, n, size, distance, distance == run / 2,
                                  rank * Threads + threadIdx.x, Blocks * Threads);
      wait();
    }
    for (i64 begin = rank * Room; begin < n; begin += Blocks * Room) {
      const i32 count = (i32)dtc_index_min(n - begin, (i64)Room);
      for (i32 i = threadIdx.x; i < count; i += Threads) {
        const i32 at = run == Room ? (i32)(begin + i) : order[(begin + i) * stride];
        tile[i] = E::of(dtc_sort_key<Descending>(keys + at * stride), at);
      }
      __syncthreads();
      for (i32 merged = run == Room ? 2 : Room; merged <= Room; merged *= 2)
        for (i32 distance = merged / 2; distance > 0; distance /= 2)
          dtc_tile_step<Threads, Room>(tile, count, merged, distance, run == Room && distance == merged / 2);
      for (i32 i = threadIdx.x; i < count; i += Threads) order[(begin + i) * stride] = tile[i].index();
      __syncthreads();
    }
    if constexpr (Blocks > 1) wait();
  }
}

// --- passes of a radix sort, one tile per block (lib/Ops/scan/SortDigits.cpp) ---

// counts[d]: the number of occurrences of digit d in the tile.
template <bool Descending, int Tile, class T>
static __device__ void dtc_block_sort_counts(const T* row, i32* counts, i64 n, i64 tile, int digit) {
  __shared__ i32 count[256];
  count[threadIdx.x] = 0;
  __syncthreads();
  const i64 begin = tile * Tile;
  const i32 here = (i32)dtc_index_min(n - begin, (i64)Tile), shift = 32 + 8 * digit;
#pragma unroll 8
  for (i32 i = threadIdx.x; i < here; i += 256)
    atomicAdd(&count[dtc_digit_word<Descending>(row, begin + i) >> shift & 255], 1);
  __syncthreads();
  counts[threadIdx.x] = count[threadIdx.x];
}

// The lanes of the warp that are active and have this lane's digit (Ashkiani et al. 2016, GPU Multisplit).
DTC_FN u32 dtc_lanes_of_digit(u32 digit, bool there) {
  u32 lanes = __ballot_sync(0xffffffffu, there);
#pragma unroll
  for (i32 bit = 0; bit < 8; ++bit) {
    const bool set = digit >> bit & 1;
    const u32 with = __ballot_sync(0xffffffffu, set);
    lanes &= set ? with : ~with;
  }
  return lanes;
}

// upto[t * 256 + d]: the number of occurrences of digit d in the tiles of the row up to t. Each warp has a
// contiguous part, and counts its digits as it goes; the tile is sorted in shared memory, so that its
// neighbors are stored contiguously.
template <bool Descending, int Tile, class T, class Y>
static __device__ void dtc_block_sort_digit(const T* row, const i32* upto, Y* y, i64 n, i64 tile, int digit) {
  constexpr i32 each = Tile / 256, digits = 256;
  __shared__ u64 words[Tile];
  __shared__ u32 counts[8][digits];
  __shared__ i32 positions[digits];
  __shared__ u64 sums[8];
  const i32 thread = threadIdx.x, warp = thread / 32, lane = thread % 32, shift = 32 + 8 * digit;
  const i64 begin = tile * Tile;
  const i32 here = (i32)dtc_index_min(n - begin, (i64)Tile), first = warp * 32 * each + lane;
  u64 word[each];
  u32 rank[each];
#pragma unroll
  for (i32 i = 0; i < each; ++i)
    word[i] = first + i * 32 < here ? dtc_digit_word<Descending>(row, begin + first + i * 32) : 0;
  for (i32 w = 0; w < 8; ++w) counts[w][thread] = 0;
  __syncthreads();
#pragma unroll
  for (i32 i = 0; i < each; ++i) {
    const u32 d = word[i] >> shift & 255;
    const bool there = first + i * 32 < here;
    const u32 same = dtc_lanes_of_digit(d, there);
    const u32 below = __popc(same & ((1u << lane) - 1)), before = counts[warp][d];
    __syncwarp();
    if (there && below == 0) counts[warp][d] = before + __popc(same);
    __syncwarp();
    rank[i] = before + below;
  }
  __syncthreads();
  // From here on one digit per thread. The row's lower digits and the tile's are scanned together.
  const i32 before = tile == 0 ? 0 : upto[(tile - 1) * digits + thread];
  u64 total = (u64)(u32)upto[((n + Tile - 1) / Tile - 1) * digits + thread] << 32;
  u32 own = 0;
  for (i32 w = 0; w < 8; ++w) {
    const u32 count = counts[w][thread];
    counts[w][thread] = own;
    own += count;
  }
  total |= own;
  u64 less = 0, all = 0;
  less = dtc_lanes_before_sum(total, all);
  if (lane == 31) sums[warp] = all;
  __syncthreads();
  for (i32 w = 0; w < warp; ++w) less += sums[w];
  positions[thread] = (i32)(less >> 32) + before - (i32)(u32)less;
  for (i32 w = 0; w < 8; ++w) counts[w][thread] += (u32)less;
  __syncthreads();
#pragma unroll
  for (i32 i = 0; i < each; ++i)
    if (first + i * 32 < here) words[counts[warp][word[i] >> shift & 255] + rank[i]] = word[i];
  __syncthreads();
#pragma unroll 4
  for (i32 i = thread; i < here; i += 256) {
    const u64 moved = words[i];
    const i32 position = positions[moved >> shift & 255] + i;
    if ((u32)position < (u32)n) y[position] = (Y)moved;
  }
}
