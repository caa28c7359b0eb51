#pragma once
// Maps rows of the line (Window.h) to devices: formulas that are evaluated twice, over integers for planning,
// and over values of the local program.
#include "window/Window.h"
#include <algorithm>

namespace dtc {

inline int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

struct HostMath {
  using V = int64_t;
  [[nodiscard]] V add(V a, int64_t c) const { return a + c; }
  [[nodiscard]] V from(int64_t c, V a) const { return c - a; }
  [[nodiscard]] V mul(V a, int64_t c) const { return a * c; }
  [[nodiscard]] V floorDiv(V a, int64_t c) const { return floorDivide(a, c); }
  [[nodiscard]] V sub(V a, V b) const { return a - b; }
  [[nodiscard]] V max(V a, V b) const { return std::max(a, b); }
  [[nodiscard]] V atLeast(V a, int64_t c) const { return std::max(a, c); }
  [[nodiscard]] V atMost(V a, int64_t c) const { return std::min(a, c); }
};

struct DeviceMath {
  using V = Expr;
  ShardedOp& op;
  DType type;
  [[nodiscard]] V number(int64_t c) const { return integer(op, c, type); }
  [[nodiscard]] V add(V a, int64_t c) const { return c == 0 ? a : a + c; }
  [[nodiscard]] V from(int64_t c, V a) const { return c - a; }
  [[nodiscard]] V mul(V a, int64_t c) const { return c == 1 ? a : a * c; }
  [[nodiscard]] V floorDiv(V a, int64_t c) const { return c == 1 ? a : floor_div(a, c); }
  [[nodiscard]] V sub(V a, V b) const { return a - b; }
  [[nodiscard]] V max(V a, V b) const { return ops::max(a, b); }
  [[nodiscard]] V atLeast(V a, int64_t c) const { return ops::max(a, c); }
  [[nodiscard]] V atMost(V a, int64_t c) const { return ops::min(a, c); }
};

// The beginning of shard i of n, for any i: negative before the first, at least n after the last.
template <class M> typename M::V shardBegin(const M& m, int64_t n, int64_t devices, typename M::V i) {
  return n % devices == 0 ? m.mul(i, n / devices) : m.floorDiv(m.mul(i, n), devices);
}

template <class M>
typename M::V firstRowOf(const M& m, const WindowRead& r, int64_t devices, typename M::V i) {
  return m.floorDiv(m.add(m.mul(shardBegin(m, r.result, devices, i), r.scale), r.first), r.divide);
}

// The device whose shard of n contains the row.
template <class M> typename M::V ownerOf(const M& m, int64_t n, int64_t devices, typename M::V row) {
  return m.floorDiv(m.add(m.mul(m.add(row, 1), devices), -1), n);
}

// The position on the line of the rows of the source's sender number j; j may be invalid if `isDevice` is
// false.
template <class M>
typename M::V sourceBegin(const M& m, const WindowSource& s, int64_t devices, typename M::V j,
                          bool isDevice = false) {
  typename M::V own;
  if (s.order == SourceOrder::Mirrored) {
    own = m.from(s.offset + 1, shardBegin(m, s.size, devices, m.from(devices, j)));
  } else if (s.order == SourceOrder::Repeated) {
    own = m.mul(m.add(j, -ownerOf(HostMath{}, s.size, devices, s.offset)), s.length);
  } else {
    if (isDevice && s.step == 1 && s.offset == 0) return m.add(shardBegin(m, s.size, devices, j), s.base);
    own = m.floorDiv(m.add(shardBegin(m, s.size, devices, j), s.step - 1 - s.offset), s.step);
  }
  return m.add(m.atMost(m.atLeast(own, 0), s.length), s.base);
}

// The offset in sender j's shard of x (mirrored: reversed, padded to the largest) of the rows that device i
// reads.
template <class M>
typename M::V takenFrom(const M& m, const WindowRead& r, const WindowSource& s, int64_t devices,
                        typename M::V i, typename M::V j) {
  if (s.order == SourceOrder::Repeated) return m.from(s.offset, shardBegin(m, s.size, devices, j));
  const auto at = m.max(firstRowOf(m, r, devices, i), sourceBegin(m, s, devices, j, true));
  if (s.order == SourceOrder::Mirrored) {
    const int64_t last = (s.size + devices - 1) / devices - 1;
    const auto begin = shardBegin(m, s.size, devices, m.from(devices - 1, j));
    return m.sub(at, m.from(s.offset + s.base - last, begin));
  }
  return m.sub(m.add(m.mul(at, s.step), s.offset - s.base * s.step), shardBegin(m, s.size, devices, j));
}

// The offset of these rows in device i's buffer.
template <class M>
typename M::V positionOf(const M& m, const WindowRead& r, const WindowSource& s, int64_t devices,
                         typename M::V i, typename M::V j, bool isDevice = false) {
  return m.atLeast(m.sub(sourceBegin(m, s, devices, j, isDevice), firstRowOf(m, r, devices, i)), 0);
}

// The first device whose rows of the source device i reads, and the first that reads rows of device j; the
// others follow.
template <class M>
typename M::V firstSource(const M& m, const WindowRead& r, const WindowSource& s, int64_t devices,
                          typename M::V i) {
  const auto own = m.add(firstRowOf(m, r, devices, i), -s.base);
  const auto row = m.add(m.mul(m.atMost(m.atLeast(own, 0), s.length - 1), s.step), s.offset);
  return ownerOf(m, s.size, devices, row);
}
template <class M>
typename M::V firstTarget(const M& m, const WindowRead& r, const WindowSource& s, int64_t devices,
                          typename M::V j) {
  const auto begin = m.mul(sourceBegin(m, s, devices, j, true), r.divide);
  // The min end of a shard of the result that reads that far.
  const auto end = m.add(m.floorDiv(m.add(begin, r.scale - 1 - r.last), r.scale), 1);
  return m.add(m.floorDiv(m.add(m.mul(m.atLeast(end, 1), devices), r.result - 1), r.result), -1);
}

} // namespace dtc
