// Device header, CUDA and cuda-emu: reductions of kernels that keep rows (lib/Kernel/RowSchedule.h). All threads of the row get the
// result, combined in one order always. `Site` numbers the calls of a kernel: each has shared memory of its own, and is
// reached once, so that one barrier is enough.

#define DTC_ROW_REDUCE(name, combine)                                                                        \
  /* of `Lanes` neighbours of a warp; `present`: the warp's lanes that come */                               \
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

// Of the elements so far: the greatest, and the sum of exp(element - greatest), which is 0 where the greatest is -infinity.
template <class T> DTC_FN void dtc_online(T& greatest, T& sum, T x) {
  if (x > greatest || x != x) {
    if (sum != 0) sum *= dtc_exp(greatest - x);
    greatest = x;
  }
  if (greatest != -dtc_infinity<T>()) sum += dtc_exp(x - greatest);
}
// The sum of exp(element - c) of a thread's elements; `present`: the row has some.
template <class T> DTC_FN T dtc_online_part(T greatest, T sum, T c, bool present) {
  const T scale = dtc_exp(greatest - c);
  if (greatest == -dtc_infinity<T>()) return present ? scale : (T)0;
  return sum * scale;
}
