// Device header, CUDA and cuda-emu: scans by the threads of a block (lib/Kernel/schedule/ScanSchedule.h). A
// warp's run of a chunk is `steps` times 32 packs, warp after warp; always combined in the same order.

template <class T> DTC_FN T dtc_shuffle_up(T x, i32 lanes) {
  if constexpr (sizeof(T) < 4)
    return (T)__shfl_up_sync(0xffffffffu, (i32)x, lanes);
  else
    return __shfl_up_sync(0xffffffffu, x, lanes);
}
template <class T> DTC_FN T dtc_shuffle_from(T x, i32 lane) {
  if constexpr (sizeof(T) < 4)
    return (T)__shfl_sync(0xffffffffu, (i32)x, lane);
  else
    return __shfl_sync(0xffffffffu, x, lane);
}

#define DTC_ROW_SCAN(name, combine)                                                                                                \
  /* What stands before the lane's x: `run`, and the x of the lanes before. `run` then has those of all lanes, too. */             \
  template <class T> DTC_FN T dtc_lanes_before_##name(T x, T& run) {                                                               \
    const i32 lane = threadIdx.x % 32;                                                                                             \
    for (i32 lanes = 1; lanes < 32; lanes *= 2) {                                                                                  \
      const T y = dtc_shuffle_up(x, lanes);                                                                                        \
      if (lane >= lanes) x = combine(y, x);                                                                                        \
    }                                                                                                                              \
    const T y = dtc_shuffle_up(x, 1);                                                                                              \
    const T before = lane == 0 ? run : combine(run, y);                                                                            \
    run = combine(run, dtc_shuffle_from(x, 31));                                                                                   \
    return before;                                                                                                                 \
  }                                                                                                                                \
  /* What stands before the warp: `carry`, and `all` of the warps before. `carry` then has those of all warps, too. `turn` is    \
     0 and 1 by turns, so that one barrier is enough; `Site` as in rows.h. */ \
  template <int Site, int Threads, class T> DTC_FN T dtc_warps_before_##name(T all, T& carry, i32 turn) {                          \
    T before = carry;                                                                                                              \
    if constexpr (Threads == 32)                                                                                                   \
      carry = combine(carry, all);                                                                                                 \
    else {                                                                                                                         \
      __shared__ T partial[2][Threads / 32];                                                                                       \
      const i32 own = threadIdx.x / 32;                                                                                            \
      if (threadIdx.x % 32 == 0) partial[turn][own] = all;                                                                         \
      __syncthreads();                                                                                                             \
      for (i32 warp = 0; warp < Threads / 32; ++warp) {                                                                            \
        if (warp == own) before = carry;                                                                                           \
        carry = combine(carry, partial[turn][warp]);                                                                               \
      }                                                                                                                            \
    }                                                                                                                              \
    return before;                                                                                                                 \
  }                                                                                                                                \
  /* The same with a row a lane of `Lanes`, and its `Groups` threads in the order of their groups. */                              \
  template <int Site, int Groups, int Lanes, class T>                                                                              \
  DTC_FN T dtc_groups_before_##name(T all, T& carry, i32 turn) {                                                                   \
    __shared__ T partial[2][Groups][Lanes];                                                                                        \
    const i32 own = threadIdx.x / Lanes, lane = threadIdx.x % Lanes;                                                               \
    partial[turn][own][lane] = all;                                                                                                \
    __syncthreads();                                                                                                               \
    T before = carry;                                                                                                              \
    for (i32 group = 0; group < Groups; ++group) {                                                                                 \
      if (group == own) before = carry;                                                                                            \
      carry = combine(carry, partial[turn][group][lane]);                                                                          \
    }                                                                                                                              \
    return before;                                                                                                                 \
  }
DTC_ROW_SCAN(sum, dtc_add)
DTC_ROW_SCAN(prod, dtc_mul)
DTC_ROW_SCAN(max, dtc_max)
DTC_ROW_SCAN(min, dtc_min)
DTC_ROW_SCAN(log_add_exp, dtc_log_add_exp)
DTC_ROW_SCAN(last, dtc_max)
