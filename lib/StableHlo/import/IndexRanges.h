#pragma once
// The possible values of an integer index, given the loops around it.
#include "dtc/IR/Module.h"
#include <optional>
#include <unordered_map>

namespace dtc {

// Integers in [lo, hi], for each element of a tensor. Where `index` is valid the value is slope * index +
// offset; where lo == hi it is that constant.
struct IndexRange {
  int64_t lo = 0, hi = 0;
  ValueId index; // of a loop
  int64_t slope = 0, offset = 0;
  [[nodiscard]] bool isNumber() const { return lo == hi; }
};

// Interval arithmetic on integers, elementwise, with linear forms. Nothing where a value is unknown, or where
// an intermediate result may wrap around its dtype.
class IndexRanges {
public:
  explicit IndexRanges(const Module& m) : m_(m) {}
  // The index of a `for` with constant bounds.
  void addIndex(OpId loop);
  void set(ValueId v, const IndexRange& r) { known_[v] = r; }
  [[nodiscard]] std::optional<IndexRange> operator()(ValueId v) const;
  // The constant that a value equals.
  [[nodiscard]] std::optional<int64_t> number(ValueId v) const;

  // The operand that a `select` always takes, 1 or 2; 0 where that is unknown.
  [[nodiscard]] size_t taken(OpId select) const;

private:
  struct Query;
  const Module& m_;
  std::unordered_map<ValueId, IndexRange> known_;
};

// The values of `dtype` within int64_t.
[[nodiscard]] IndexRange rangeOf(DType dtype);

} // namespace dtc
