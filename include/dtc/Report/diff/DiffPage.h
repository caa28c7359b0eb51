#pragma once
// diff as a page: the report of `dtc diff`, and the texts of both programs side by side. docs/diff.md documents the data.
#include "dtc/Report/diff/ProgramDiff.h"

namespace dtc {

struct DiffPageInput {
  const ProgramDiff& diff;
  std::span<const DiffBudget> budgets;
  const ProgramSnapshot& a;
  const ProgramSnapshot& b;
  const SourceText* sourceA = nullptr; // null for a saved program, whose statements are shown instead
  const SourceText* sourceB = nullptr;
};

// The report of `dtc diff --json`, with `source` and `rows`.
[[nodiscard]] std::string diffPageJson(const DiffPageInput&);
// One self-contained page with that document in it.
[[nodiscard]] std::string diffPage(const DiffPageInput&);

} // namespace dtc
