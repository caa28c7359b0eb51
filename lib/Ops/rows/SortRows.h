#pragma once
// Argsort of long rows, by passes of a radix sort over their tiles.
#include "dtc/Ops/OpFunctions.h"

namespace dtc {

// The argsort of x ([rows, n], n > 0; any dtype but complex) along its last dim. Scans created for it are
// passed to `scan`, which returns their result 0 (they may be long themselves).
class RowSorter {
public:
  using Scan = ValueId (*)(Builder&, OpId);
  RowSorter(Builder& b, bool descending, Scan scan) : b_(b), descending_(descending), scan_(scan) {}
  [[nodiscard]] Expr order(Expr x);

private:
  Expr shortKeys(Expr x);
  Expr longKeys(Expr x);
  static Expr wide(Expr x);
  static Expr bits(Expr v, DType to);

  Builder& b_;
  bool descending_;
  Scan scan_;
};

} // namespace dtc
