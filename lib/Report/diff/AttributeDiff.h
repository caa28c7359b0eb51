#pragma once
// The attributes of two matched statements that differ.
#include "dtc/Report/diff/ProgramSnapshot.h"

#include <span>
#include <utility>

namespace dtc {

struct AttributeDiff {
  std::string before, after; // those that differ, as in the text: `{approximate = "tanh"}`, `@f`, `(_, 0.5)`
  bool constants = false;    // literal operands differ
  bool attributes = false;   // the callee or attributes differ
  [[nodiscard]] bool empty() const { return before.empty() && after.empty(); }
};

// The types of an operand in both programs.
using OperandTypes = std::vector<std::pair<std::string, std::string>>;

// Attributes that follow from other changes are left out: sizes (AttrType::Size, Sizes) where each number that
// differs changes as the sizes of the operands do, and `wrt` of a call that `gainsOrLosesOperands`. Of different ops,
// only attributes that both have are compared.
[[nodiscard]] AttributeDiff diffAttributes(const SnapshotStatement& a, const SnapshotStatement& b,
                                           const OperandTypes&, bool gainsOrLosesOperands);

// Whether the op runs its block a number of times, or as long as a condition holds.
[[nodiscard]] bool isForLoop(const std::string& op);
[[nodiscard]] bool isLoop(const std::string& op);

} // namespace dtc
