#pragma once
// The symbolic sizes of a program (ir.md: `f32[B, 512]`), which are bound before compilation.
#include "dtc/IR/Module.h"

namespace dtc {

struct SymbolUse {
  StrId name;
  SourceRange where; // the value or op that first names it
  OpId op;           // invalid: an argument or a result of the function
};

// The symbols named by a function's signature, values, operands and attributes, each once, in program order.
[[nodiscard]] std::vector<SymbolUse> symbolsOf(const Module&, FuncId);

} // namespace dtc
