#pragma once
// The symbolic sizes of a program (ir.md §2.3: `f32[B, 512]`), which are bound before it is compiled.
#include "dtc/IR/Module.h"

namespace dtc {

struct SymbolUse {
  StrId name;
  SourceRange where; // the value or op that names it first
  OpId op;           // invalid: an argument or a result of the function
};

// Those that a function's signature, values, operands and attributes name, each once, in the order of the text.
[[nodiscard]] std::vector<SymbolUse> symbolsOf(const Module&, FuncId);

} // namespace dtc
