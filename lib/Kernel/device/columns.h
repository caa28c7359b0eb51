// Device header, CUDA and cuda-emu: reductions of columns (lib/Kernel/schedule/ColumnSchedule.h). Each of
// `Down` groups of `Across` threads has partial results of the same columns, `Pack` per thread; the first
// group gets the totals, always combined in the same order. All threads of the block call it.
#define DTC_COLUMNS_REDUCE(name, combine)                                                                    \
  template <int Across, int Down, int Pack, class T> DTC_FN void dtc_columns_##name(T(&x)[Pack]) {           \
    __shared__ T partial[Down / 2 * Across * Pack];                                                          \
    const i32 down = threadIdx.x / Across, column = threadIdx.x % Across;                                    \
    for (i32 half = Down / 2; half > 0; half /= 2) {                                                         \
      if (down >= half && down < 2 * half)                                                                   \
        for (i32 lane = 0; lane < Pack; ++lane)                                                              \
          partial[((down - half) * Pack + lane) * Across + column] = x[lane];                                \
      __syncthreads();                                                                                       \
      if (down < half)                                                                                       \
        for (i32 lane = 0; lane < Pack; ++lane)                                                              \
          x[lane] = combine(x[lane], partial[(down * Pack + lane) * Across + column]);                       \
      __syncthreads();                                                                                       \
    }                                                                                                        \
  }
DTC_COLUMNS_REDUCE(sum, dtc_add)
DTC_COLUMNS_REDUCE(prod, dtc_mul)
DTC_COLUMNS_REDUCE(max, dtc_max)
DTC_COLUMNS_REDUCE(min, dtc_min)
DTC_COLUMNS_REDUCE(any, dtc_or)
DTC_COLUMNS_REDUCE(all, dtc_and)
