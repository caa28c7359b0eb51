#pragma once
// The rounding of values sent between devices in a local program, and the values it affects.
#include "dtc/Check/run/Compare.h"
#include "dtc/IR/Module.h"

namespace dtc {

class CommRounding {
public:
  // For all collectives of an spmd function; `runs`: the number of runs, each on the results of the previous
  // one.
  CommRounding(Module& m, FuncId f, int64_t runs = 1);
  // The hops of the collectives that the value depends on: one per partial sum of a reduction, and one per
  // narrower communication dtype.
  [[nodiscard]] CompareOptions of(ValueId v) const;
  [[nodiscard]] std::vector<CompareOptions> ofResults() const;
  // The hops of one run of this op, or null.
  [[nodiscard]] const CommHops* hopsOf(OpId op) const;

private:
  const Module& m_;
  FuncId func_;
  int64_t runs_;
  std::unordered_map<OpId, CommHops> at_; // of one run
};

} // namespace dtc
