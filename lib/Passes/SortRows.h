#pragma once
// Part of fuse (private to lib/Passes): the order of long rows, by passes of a radix sort over their tiles.
#include "dtc/IR/Builder.h"

namespace dtc {

// The order of x ([rows, n], n > 0; of any dtype but complex ones) along its last dim, as argsort gives it. Scans that are made of it
// are handed to `scan`, which gives their result 0 (they may be long themselves).
class RowSorter {
public:
  using Scan = ValueId (*)(Builder&, OpId);
  RowSorter(Builder& b, bool descending, Scan scan) : b_(b), descending_(descending), scan_(scan) {}
  [[nodiscard]] ValueId order(ValueId x);

private:
  ValueId shortKeys(ValueId x);
  ValueId longKeys(ValueId x);
  ValueId wide(ValueId x);
  ValueId number(int64_t v);
  ValueId convert(ValueId v, DType to);
  ValueId bits(ValueId v, DType to);
  [[nodiscard]] DType dtypeOf(ValueId v) const { return b_.module.typeOf(v).dtype; }

  Builder& b_;
  bool descending_;
  Scan scan_;
};

} // namespace dtc
