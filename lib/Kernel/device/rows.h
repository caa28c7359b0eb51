// Device header, CUDA and cuda-emu: reductions of row kernels (lib/Kernel/schedule/RowSchedule.h). All
// threads of the row get the result, always combined in the same order. `Site` numbers the calls of a kernel:
// each has its own shared memory, and is executed once, so that one barrier is enough.

#define DTC_ROW_REDUCE(name, combine)                                                                        \
  /* of `Lanes` neighbors of a warp; `present`: the warp's lanes that come */                                \
  template <int Lanes, class T> DTC_FN T dtc_part_##name(T x, u32 present) {                                 \
    for (i32 lanes = Lanes / 2; lanes > 0; lanes >>= 1) x = combine(x, dtc_shuffle_xor(x, lanes, present));  \
    return x;                                                                                                \
  }                                                                                                          \
  template <int Site, int Threads, class T> DTC_FN T dtc_row_##name(T x) {                                   \
    __shared__ T partial[Threads / 32];                                                                      \
    x = dtc_part_##name<32>(x, 0xffffffffu);                                                                 \
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;                                                \
    __syncthreads();                                                                                         \
    x = partial[0];                                                                                          \
    for (i32 warp = 1; warp < Threads / 32; ++warp) x = combine(x, partial[warp]);                           \
    return x;                                                                                                \
  }                                                                                                          \
  /* of all blocks of the cluster, which end together (another dtc_cluster_sync) */                          \
  template <int Site, int Threads, int Blocks, class T> DTC_FN T dtc_cluster_##name(T x) {                   \
    __shared__ T partial[Threads / 32];                                                                      \
    x = dtc_part_##name<32>(x, 0xffffffffu);                                                                 \
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;                                                \
    dtc_cluster_sync();                                                                                      \
    constexpr i32 warps = Threads / 32, all = warps * Blocks;                                                \
    const i32 lane = threadIdx.x % 32;                                                                       \
    x = dtc_map_shared(partial, lane % all / warps)[lane % warps]; /* more lanes than parts: some twice */   \
    for (i32 part = lane + 32; part < all; part += 32)                                                       \
      x = combine(x, dtc_map_shared(partial, part / warps)[part % warps]);                                   \
    return dtc_part_##name<(all < 32 ? all : 32)>(x, 0xffffffffu);                                           \
  }
DTC_ROW_REDUCE(sum, dtc_add)
DTC_ROW_REDUCE(prod, dtc_mul)
DTC_ROW_REDUCE(max, dtc_max)
DTC_ROW_REDUCE(min, dtc_min)
DTC_ROW_REDUCE(any, dtc_or)
DTC_ROW_REDUCE(all, dtc_and)

// The shared-memory index of a column for rows with unaligned starts: columns of the same remainder are
// contiguous, and these runs begin `Stride` apart, so that neighboring threads, each at the same element of
// its pack, are in neighboring banks.
template <int Pack, int Stride> DTC_FN i32 dtc_column(i64 at) {
  const u32 i = (u32)at;
  return (i32)(i % Pack * Stride + i / Pack);
}

// Of the elements so far: the max, and the sum of exp(element - max), which is 0 where the max is -infinity.
template <class T> DTC_FN void dtc_online(T& largest, T& sum, T x) {
  if (x > largest || x != x) {
    if (sum != 0) sum *= dtc_exp(largest - x);
    largest = x;
  }
  // for infinity too
  if (largest != -dtc_infinity<T>()) sum += x == largest ? (T)1 : dtc_exp(x - largest);
}
// Of the elements so far: their number, their mean, and the sum of squares about it.
template <class T> struct dtc_squares {
  T count = 0, mean = 0, sum = 0;
};
template <class T> DTC_FN void dtc_add_square(dtc_squares<T>& s, T x) {
  const T off = x - s.mean;
  s.count += 1;
  s.mean += dtc_divide_fast(off, s.count);
  s.sum += off * (x - s.mean);
}
// Their sum of squares about c.
template <class T> DTC_FN T dtc_squares_about(const dtc_squares<T>& s, T c) {
  const T off = s.mean - c;
  return s.count > 0 ? s.sum + s.count * (off * off) : (T)0;
}
// The sum of exp(element - c) of a thread's elements; `present`: the row has some.
template <class T> DTC_FN T dtc_online_part(T largest, T sum, T c, bool present) {
  const T scale = dtc_exp(largest - c);
  if (largest == -dtc_infinity<T>()) return present ? scale : (T)0;
  return sum * scale;
}
