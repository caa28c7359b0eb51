#include "rows/SortRows.h"
#include <limits>

namespace dtc {

Expr RowSorter::bits(Expr v, DType to) { return v.dtype() == to ? v : ops::bitcast(v, to); }

Expr RowSorter::order(Expr x) { return dtypeBytes(x.dtype()) > 4 ? longKeys(x) : shortKeys(x); }

// From the least significant byte of the keys on, each pass is a stable counting sort.
Expr RowSorter::shortKeys(Expr x) {
  const int digits = dtypeBytes(x.dtype());
  for (int digit = 0; digit < digits; ++digit) {
    const bool descending = descending_ && digit == 0;
    const Expr counts = ops::sort_counts(x, {.digit = digit, .descending = descending});
    const Expr upto(b_, scan_(b_, b_.module.definingOp(ops::cumsum(counts, {.dim = 1}))));
    x = ops::sort_digit(x, upto, {.digit = digit, .descending = descending, .last = digit + 1 == digits});
  }
  return x;
}

// Integer keys with the order of the elements.
Expr RowSorter::wide(Expr x) {
  const Expr raw = bits(x, DType::I64);
  if (!isFloat(x.dtype())) return raw;
  constexpr int64_t largest = std::numeric_limits<int64_t>::max();
  const Expr ordered = raw ^ (ops::shr(raw, 63) & largest);
  const Expr key = ops::select(ops::eq(x, 0), 0, ordered);
  return ops::select(ops::is_nan(x), largest, key);
}

// By the lower half of the keys, then by the upper half.
Expr RowSorter::longKeys(Expr x) {
  const bool isUnsigned = x.dtype() == DType::U64;
  const Expr key = wide(x), upper = ops::convert(ops::shr(key, 32), DType::I32);
  const Expr first = shortKeys(ops::convert(key, DType::U32));
  const Expr second = shortKeys(ops::gather(isUnsigned ? bits(upper, DType::U32) : upper, first, {.dim = 1}));
  return ops::gather(first, second, {.dim = 1});
}

} // namespace dtc
