// Device header, CPU: rows that consist of one run of each part.

template <class T> DTC_FN void dtc_join_run(T* to, const T* from, i64 count) {
  if (count * (i64)sizeof(T) >= 64)
    __builtin_memcpy(to, from, count * sizeof(T));
  else
    for (i64 i = 0; i < count; ++i) to[i] = from[i];
}

// out[begin, end), elements of rows of ends[count - 1]. The run of part p ends at ends[p] and begins at the
// end of the previous one; parts[p] holds its runs of all rows. Short rows are written several at a time,
// part after part.
template <class T>
static void dtc_join(T* out, const T* const* parts, const i64* ends, i64 count, i64 begin, i64 end) {
  const i64 row = ends[count - 1], several = 4096 / row;
  while (begin < end) {
    const i64 o = begin / row;
    i64 at = begin % row;
    if (at == 0 && several > 1 && end - begin >= row) {
      const i64 rows = dtc_index_min((end - begin) / row, several);
      for (i64 p = 0, low = 0; p < count; low = ends[p++]) {
        const i64 run = ends[p] - low;
        const T* from = parts[p] + o * run;
        T* to = out + begin + low;
        if (run == 1)
          for (i64 r = 0; r < rows; ++r) to[r * row] = from[r];
        else
          for (i64 r = 0; r < rows; ++r) dtc_join_run(to + r * row, from + r * run, run);
      }
      begin += rows * row;
      continue;
    }
    i64 p = 0;
    for (i64 last = count - 1; p < last;) {
      const i64 middle = (p + last) / 2;
      if (ends[middle] > at)
        last = middle;
      else
        p = middle + 1;
    }
    for (; p < count && begin < end; ++p) {
      const i64 low = p == 0 ? 0 : ends[p - 1], n = dtc_index_min(ends[p] - at, end - begin);
      dtc_join_run(out + begin, parts[p] + o * (ends[p] - low) + (at - low), n);
      begin += n, at += n;
    }
  }
}
