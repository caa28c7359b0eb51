#include "SortRows.h"
#include <limits>

namespace dtc {

ValueId RowSorter::number(int64_t v) {
  return b_.module.makeLiteral(b_.module.attrs.integer(v), DType::I64, b_.loc);
}
ValueId RowSorter::convert(ValueId v, DType to) {
  return b_.value("convert", {v}, {{"dtype", b_.word(dtypeName(to))}});
}
ValueId RowSorter::bits(ValueId v, DType to) {
  return dtypeOf(v) == to ? v : b_.value("bitcast", {v}, {{"dtype", b_.word(dtypeName(to))}});
}

ValueId RowSorter::order(ValueId x) { return dtypeBytes(dtypeOf(x)) > 4 ? longKeys(x) : shortKeys(x); }

// From the least byte of the keys on, each pass leaves elements with the same byte in the order that they came in.
ValueId RowSorter::shortKeys(ValueId x) {
  const int digits = dtypeBytes(dtypeOf(x));
  for (int digit = 0; digit < digits; ++digit) {
    const AttrId number = b_.integer(digit), descending = b_.boolean(descending_ && digit == 0);
    const ValueId counts = b_.value("sort_counts", {x}, {{"digit", number}, {"descending", descending}});
    const ValueId in[] = {counts};
    const ValueId upto = scan_(b_, b_.op("cumsum", in, {{"dim", b_.integer(1)}}));
    x = b_.value("sort_digit", {x, upto},
                 {{"digit", number}, {"descending", descending}, {"last", b_.boolean(digit + 1 == digits)}});
  }
  return x;
}

// Integers that order as the elements do.
ValueId RowSorter::wide(ValueId x) {
  const DType own = dtypeOf(x);
  if (!isFloat(own)) return bits(x, DType::I64);
  const ValueId raw = bits(x, DType::I64);
  const ValueId negative = b_.value("shr", {raw, number(63)});
  const ValueId turned =
      b_.value("xor", {raw, b_.value("and", {negative, number(std::numeric_limits<int64_t>::max())})});
  const ValueId zero = b_.value("eq", {x, b_.literal(0, own)});
  const ValueId key = b_.value("select", {zero, number(0), turned});
  return b_.value("select", {b_.value("is_nan", {x}), number(std::numeric_limits<int64_t>::max()), key});
}

// By the lower half of the keys, then by the upper one.
ValueId RowSorter::longKeys(ValueId x) {
  const bool isUnsigned = dtypeOf(x) == DType::U64;
  const ValueId key = wide(x), upper = convert(b_.value("shr", {key, number(32)}), DType::I32);
  const ValueId first = shortKeys(convert(key, DType::U32));
  auto inOrder = [&](ValueId v, ValueId order) {
    return b_.value("gather", {v, order}, {{"dim", b_.integer(1)}});
  };
  const ValueId second = shortKeys(inOrder(isUnsigned ? bits(upper, DType::U32) : upper, first));
  return inOrder(first, second);
}

} // namespace dtc
