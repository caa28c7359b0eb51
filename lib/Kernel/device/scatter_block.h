// Device header, CUDA and cuda-emu: a list of updates of rows at indices, applied in order by blocks that own a
// range of the rows each. A block collects the updates of its rows in shared memory and sorts them by row; then
// a row is in registers from its first to its last update, and is written once.

// Rows are numbered within a range of less than 2^24, updates of a list are fewer than 2^40: an update is one
// word. Words are different, so that their order does not depend on that of their collection.
constexpr i32 dtc_scatter_room = 2048, dtc_scatter_bits = 40, dtc_scatter_rows = (1 << 24) - 1;
DTC_FN i32 dtc_scatter_row(u64 word) { return (i32)(word >> dtc_scatter_bits); }
DTC_FN i64 dtc_scatter_update(u64 word) { return (i64)(word & ((u64(1) << dtc_scatter_bits) - 1)); }

// The first of the sorted words, from `at` on, that belongs to `row` or a later one.
DTC_FN i32 dtc_scatter_from(const u64* words, i32 at, i32 count, i32 row) {
  while (at < count) {
    const i32 middle = (at + count) / 2;
    if (dtc_scatter_row(words[middle]) < row)
      at = middle + 1;
    else
      count = middle;
  }
  return at;
}

// Collects the updates [first, end) whose target is one of `rows` rows from `row` on, and sorts them. Returns
// their number, or -1 where there are too many.
template <int Threads, class Target>
static __device__ i32 dtc_scatter_collect(u64* words, i32* count, i64 row, i32 rows, i64 first, i64 end,
                                          const Target& target) {
  constexpr i32 each = 4;
  __syncthreads(); // the words of the previous rows have been used
  if (threadIdx.x == 0) *count = 0;
  __syncthreads();
#pragma unroll 1
  for (i64 piece = first + threadIdx.x; piece - threadIdx.x < end; piece += each * Threads) {
    i64 at[each];
    bool over = false;
#pragma unroll
    for (i32 j = 0; j < each; ++j) at[j] = piece + j * Threads < end ? target(piece + j * Threads) - row : -1;
#pragma unroll
    for (i32 j = 0; j < each; ++j) {
      if ((u64)at[j] >= (u64)(u32)rows) continue;
      const i32 slot = atomicAdd(count, 1);
      over |= slot >= dtc_scatter_room;
      if (!over) words[slot] = (u64)at[j] << dtc_scatter_bits | (u64)(piece + j * Threads);
    }
    if (__syncthreads_or(over)) return -1;
  }
  const i32 found = *count;
  for (i32 run = 2; run / 2 < found; run *= 2)
    for (i32 distance = run / 2; distance > 0; distance /= 2) {
      for (i32 k = threadIdx.x; 2 * k - (k & (distance - 1)) < found; k += Threads) {
        i32 low, high;
        dtc_sort_pair(k, distance, distance == run / 2, low, high);
        if (high >= found) continue;
        const u64 a = words[low], b = words[high];
        if (b < a) words[low] = b, words[high] = a;
      }
      __syncthreads();
    }
  return found;
}

// Applies the updates of `row`, the next of which is words[at], several of them read at once. `Last`: the last
// one replaces the row.
template <bool Last, class A, int Pack, class Update, class Combine>
DTC_FN void dtc_scatter_apply(dtc_pack<A, Pack>& sum, const u64* words, i32& at, i32 count, i32 row,
                              const Update& update, const Combine& combine) {
  if (at < count && dtc_scatter_row(words[at]) < row) at = dtc_scatter_from(words, at, count, row);
  if constexpr (Last) {
    if (at == count || dtc_scatter_row(words[at]) != row) return;
    at = dtc_scatter_from(words, at, count, row + 1);
    sum = update(dtc_scatter_update(words[at - 1]));
    return;
  }
  constexpr i32 ahead = 4;
  while (at < count && dtc_scatter_row(words[at]) == row) {
    dtc_pack<A, Pack> x[ahead];
    bool there[ahead];
    i32 taken = 0;
#pragma unroll
    for (i32 j = 0; j < ahead; ++j) {
      const u64 word = words[at + j < count ? at + j : at];
      there[j] = at + j < count && dtc_scatter_row(word) == row;
      if (there[j]) x[j] = update(dtc_scatter_update(word));
    }
#pragma unroll
    for (i32 j = 0; j < ahead; ++j) {
      if (!there[j]) continue;
      ++taken;
#pragma unroll
      for (i32 lane = 0; lane < Pack; ++lane) sum.at[lane] = combine(sum.at[lane], x[j].at[lane]);
    }
    at += taken;
  }
}

// Rows [begin, end) of a result, each `base(row)` with its updates combined in order, and given to `write`.
// `target(update)` is the row of an update, or one that does not exist; `update(u)` its elements. `Across`
// threads share a row, each with a pack; `there`: the thread has one. `kept`: rows without updates are in place.
template <int Threads, int Across, bool Last, class A, int Pack, class Target, class Base, class Update,
          class Combine, class Write>
static __device__ void dtc_block_scatter(i64 begin, i64 end, i64 updates, bool kept, bool there,
                                         const Target& target, const Base& base, const Update& update,
                                         const Combine& combine, const Write& write) {
  constexpr i32 groups = Threads / Across; // a power of two
  constexpr i32 batch = sizeof(A) * Pack <= 16 && Pack <= 4 ? 4 : 2;
  __shared__ u64 words[dtc_scatter_room];
  __shared__ i32 count;
  const i32 group = threadIdx.x / Across;
  i32 step = dtc_scatter_rows;
  while (begin < end) {
    const i32 rows = (i32)dtc_index_min((i64)step, end - begin);
    i32 at = 0, found = dtc_scatter_collect<Threads>(words, &count, begin, rows, 0, updates, target);
    if (found < 0 && rows > groups) { // fewer rows, until each group has only one
      step = rows / 2 > groups ? rows / 2 : groups;
      continue;
    }
    if (found < 0) {
      const bool mine = there && group < rows;
      dtc_pack<A, Pack> sum{};
      if (mine) sum = base(begin + group);
      for (i64 first = 0; first < updates; first += dtc_scatter_room, at = 0) {
        found = dtc_scatter_collect<Threads>(words, &count, begin, rows, first,
                                             dtc_index_min(first + dtc_scatter_room, updates), target);
        if (mine) dtc_scatter_apply<Last>(sum, words, at, found, group, update, combine);
      }
      if (mine) write(begin + group, sum);
    } else if (there && kept) {
      for (i32 row = group; (at = dtc_scatter_from(words, at, found, row)) < found;) {
        const i32 next = dtc_scatter_row(words[at]);
        row = next + ((group - next) & (groups - 1)); // of this group
        if (row != next) continue;
        dtc_pack<A, Pack> sum = base(begin + row);
        dtc_scatter_apply<Last>(sum, words, at, found, row, update, combine);
        write(begin + row, sum);
        row += groups;
      }
    } else if (there) {
      for (i32 row = group; row < rows; row += batch * groups) {
        dtc_pack<A, Pack> sum[batch];
#pragma unroll
        for (i32 j = 0; j < batch; ++j)
          if (row + j * groups < rows) sum[j] = base(begin + row + j * groups);
#pragma unroll
        for (i32 j = 0; j < batch; ++j) {
          if (row + j * groups >= rows) continue;
          dtc_scatter_apply<Last>(sum[j], words, at, found, row + j * groups, update, combine);
          write(begin + row + j * groups, sum[j]);
        }
      }
    }
    begin += rows;
    step = 2 * rows < dtc_scatter_rows ? 2 * rows : dtc_scatter_rows;
  }
}
