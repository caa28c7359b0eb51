#pragma once
// Shared by the evaluator: runs of contiguous elements of a strided shard, and how two values of a pending
// axis or a reduction combine.
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/DType.h"

namespace dtc {

// a ⊕ b in f64. max and min propagate NaN, and order -0.0 before +0.0, so that the order of devices does not
// matter; Avg adds.
[[nodiscard]] double combineFloat(PendingKind kind, double a, double b);
// The same on integers and bool, wrapped to `dtype`.
[[nodiscard]] int64_t combineInt(DType dtype, PendingKind kind, int64_t a, int64_t b);

// Calls fn(globalOffset, localOffset, length), in elements, for each contiguous run of the block that
// `intervals` (one list per dim, in local order) selects from a row-major tensor of `shape`.
template <class Fn>
void forEachRun(std::span<const int64_t> shape, const std::vector<std::vector<Interval>>& intervals,
                Fn&& fn) {
  size_t rank = shape.size();
  if (rank == 0) return fn(0, 0, 1);
  for (const auto& list : intervals) {
    int64_t total = 0;
    for (Interval i : list) total += i.size();
    if (total == 0) return;
  }
  std::vector<int64_t> stride(rank, 1);
  for (size_t d = rank - 1; d > 0; --d) stride[d - 1] = stride[d] * shape[d];
  struct Position {
    size_t interval = 0;
    int64_t at = 0;
  };
  std::vector<Position> position(rank);
  auto skipEmpty = [&](size_t d) {
    while (position[d].interval < intervals[d].size() && intervals[d][position[d].interval].size() == 0)
      ++position[d].interval;
    if (position[d].interval < intervals[d].size()) position[d].at = intervals[d][position[d].interval].begin;
  };
  for (size_t d = 0; d < rank; ++d) skipEmpty(d);
  int64_t local = 0;
  while (true) {
    int64_t base = 0;
    for (size_t d = 0; d + 1 < rank; ++d) base += position[d].at * stride[d];
    for (Interval run : intervals[rank - 1]) {
      if (run.size() == 0) continue;
      fn(base + run.begin, local, run.size());
      local += run.size();
    }
    size_t d = rank - 1;
    while (true) {
      if (d == 0) return;
      --d;
      Position& p = position[d];
      if (++p.at < intervals[d][p.interval].end) break;
      ++p.interval;
      skipEmpty(d);
      if (p.interval < intervals[d].size()) break;
      p = {};
      skipEmpty(d);
    }
  }
}

} // namespace dtc
