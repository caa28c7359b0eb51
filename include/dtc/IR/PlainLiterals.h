#pragma once
// A literal operand has no dtype in the text: its place says it (ir.md §2.4). Where a value is replaced by a literal, or an op
// is made of literals, the place may not say it any more; a `constant` does then.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Does the text of the op give operand `i`, a literal or a size, the dtype that it has? True for all other operands.
[[nodiscard]] bool saysDType(const Module&, OpId, size_t i);

// Ops `from` … of the list, and of the regions in them: what they do not say the dtype of becomes a constant before them.
void sayLiterals(Module&, BlockId parent, std::vector<OpId>& ops, size_t from);

} // namespace dtc
