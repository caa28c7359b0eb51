#pragma once
// A literal operand has no dtype in the text: its position implies it (ir.md). If a value is replaced by
// a literal, or an op is built from literals, the position may no longer imply it; the literal then becomes a
// `constant`.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Whether the op's text implies the dtype of operand `i`, a literal or a size. True for all other operands.
[[nodiscard]] bool saysDType(const Module&, OpId, size_t i);

// Replaces literals whose dtype the text does not imply by constants before their op, for ops `from` … of the
// list and their regions.
void sayLiterals(Module&, BlockId parent, std::vector<OpId>& ops, size_t from);

} // namespace dtc
