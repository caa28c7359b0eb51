#pragma once
// Which integers an index can be, given the loops around it. Private to lib/Import.
#include "dtc/IR/Module.h"
#include <optional>
#include <unordered_map>

namespace dtc {

// Integers in [lo, hi], each element of a tensor. Where `index` is valid it is slope * index + offset; where lo == hi it is that number.
struct IndexRange {
  int64_t lo = 0, hi = 0;
  ValueId index; // of a loop
  int64_t slope = 0, offset = 0;
  [[nodiscard]] bool isNumber() const { return lo == hi; }
};

// Interval arithmetic on integers, elementwise, linear forms kept. Nothing where a value is not known, or where an intermediate
// result may wrap around its dtype.
class IndexRanges {
public:
  explicit IndexRanges(const Module& m) : m_(m) {}
  // The index of a `for` whose bounds are numbers.
  void knowIndex(OpId loop);
  void set(ValueId v, const IndexRange& r) { known_[v] = r; }
  [[nodiscard]] std::optional<IndexRange> operator()(ValueId v) const;
  // The number that a value is.
  [[nodiscard]] std::optional<int64_t> number(ValueId v) const;

  // The operand that a `select` always takes, 1 or 2; 0 where that is not known.
  [[nodiscard]] size_t taken(OpId select) const;

private:
  struct Query;
  const Module& m_;
  std::unordered_map<ValueId, IndexRange> known_;
};

// The values of `dtype` as far as int64_t has them.
[[nodiscard]] IndexRange rangeOf(DType dtype);

} // namespace dtc
