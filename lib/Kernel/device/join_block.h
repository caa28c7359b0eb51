// Device header, CUDA and cuda-emu: rows that consist of one run of each part, by the threads of a block.

// A position in a row: the part, the range of elements that the part has, and the next element.
struct dtc_join_position {
  i32 part = 0;
  i64 low = 0, high = 0, row = 0, at = 0;
  __device__ void find(const i64* ends, i32 count) {
    if (at >= low && at < high) return;
    part = 0;
    for (i32 last = count - 1; part < last;) {
      const i32 middle = (part + last) / 2;
      if (ends[middle] > at)
        last = middle;
      else
        part = middle + 1;
    }
    low = part == 0 ? 0 : ends[part - 1], high = ends[part];
  }
  __device__ void next(const i64* ends, i32 count) {
    if (++at < high) return;
    if (++part == count) part = 0, at = 0, ++row;
    low = at, high = ends[part];
  }
};

// out[begin, end), elements of rows of ends[count - 1]. The run of part p ends at ends[p] and begins at the
// end of the previous one; parts[p] holds its runs of all rows. A thread copies 16 bytes at once where they
// are of one run and aligned: all are, if `Whole`. `Index` has room for `end`.
template <class Index, bool Whole, class T>
DTC_FN void dtc_join_block(T* out, const T* const* parts, const i64* ends, i32 count, i64 begin, i64 end) {
  constexpr i32 pack = 16 / (i32)sizeof(T);
  const i64 row = ends[count - 1];
  dtc_join_position position;
  for (i64 first = begin + threadIdx.x * pack; first < end; first += blockDim.x * pack) {
    position.row = first < row ? 0 : (i64)((Index)first / (Index)row);
    position.at = first - position.row * row;
    position.find(ends, count);
    const T* from =
        parts[position.part] + position.row * (position.high - position.low) + (position.at - position.low);
    const bool aligned = ((u64)from | (u64)(out + first)) % 16 == 0;
    if (Whole || (aligned && first + pack <= end && position.at + pack <= position.high)) {
      dtc_store_pack(out + first, dtc_load_pack<pack>(from));
      continue;
    }
    for (i32 i = 0; i < pack && first + i < end; ++i) {
      out[first + i] =
          parts[position.part][position.row * (position.high - position.low) + (position.at - position.low)];
      position.next(ends, count);
    }
  }
}
