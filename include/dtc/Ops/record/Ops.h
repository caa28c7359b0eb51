#pragma once
// The ops: one file per family in lib/Ops, one record per op (OpRecord.h).
#include "dtc/IR/OpRecord.h"

namespace dtc {

// All ops, built on first use, in the order of the families and their files.
[[nodiscard]] const OpRegistry& standardOps();

struct OpFamily {
  const char* name;    // "unary": the file lib/Ops/elementwise/Unary.cpp, OpRecord::family
  const char* summary; // a line of docs/ops.md
  void (*add)(OpRegistry&);
};
[[nodiscard]] std::span<const OpFamily> opFamilies();

// docs/ops.md: every op with its operands, attributes, rule, homomorphism rows, gradient and lowering.
[[nodiscard]] std::string opsMarkdown(const OpRegistry&);
// include/dtc/Ops/OpFunctions.h: ops as C++ functions.
[[nodiscard]] std::string opFunctions(const OpRegistry&);

} // namespace dtc
