#pragma once
// Where a local program rounds what it sends between devices, and which values that reaches.
#include "dtc/Check/Compare.h"
#include "dtc/IR/Module.h"

namespace dtc {

class WireRounding {
public:
  // Of all collectives of an spmd function; `runs`: how often it runs, each on what the one before it gave.
  WireRounding(Module& m, FuncId f, int64_t runs = 1);
  // The hops of the collectives that the value depends on: each partial sum of a reduction once, and once what is sent in a narrower
  // dtype.
  [[nodiscard]] CompareOptions of(ValueId v) const;
  [[nodiscard]] std::vector<CompareOptions> ofResults() const;
  // The hops of one run of this op, or null.
  [[nodiscard]] const WireHops* hopsOf(OpId op) const;

private:
  const Module& m_;
  FuncId func_;
  int64_t runs_;
  std::unordered_map<OpId, WireHops> at_; // of one run
};

} // namespace dtc
