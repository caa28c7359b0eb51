#pragma once
// Groups of collectives that are equal except for their layer; reported once.
#include "dtc/Report/explain/ExplainProgram.h"

namespace dtc {

// Fills `groups` and `summary`. Layers are recognized by names: %blocks_0_h, %blocks_1_h; by the user's own
// location where known.
void groupCollectives(ProgramReport&);

// True if every collective is reported separately by default.
[[nodiscard]] inline bool isSmall(const ProgramReport& r) { return r.collectives.size() <= 30; }

// The numbers of the groups, in order of decreasing time.
[[nodiscard]] std::vector<size_t> byTime(const std::vector<ExplainGroup>&);

// A text with every number written as '#', and the numbers.
struct NamePattern {
  std::string text;
  std::vector<int64_t> numbers;
};
[[nodiscard]] NamePattern patternOf(std::string_view name);
// "blocks_{0..125}_h": the pattern with the numbers of all names, which share it.
[[nodiscard]] std::string rangeText(const std::vector<NamePattern>& names);

} // namespace dtc
