#pragma once
// Collectives that are equal but for the layer that they belong to, told once; private to lib/Report.
#include "dtc/Report/ExplainProgram.h"

namespace dtc {

// Fills `groups` and `summary`. Layers are told by names: %blocks_0_h, %blocks_1_h; where a user's own place is known, by that.
void groupCollectives(ProgramReport&);

// Is every collective told by itself, where nothing else is asked for?
[[nodiscard]] inline bool isSmall(const ProgramReport& r) { return r.collectives.size() <= 30; }

// The numbers of the groups, those that take longest first.
[[nodiscard]] std::vector<size_t> byTime(const std::vector<CollectiveGroup>&);

// A text with every number written as '#', and the numbers.
struct NamePattern {
  std::string text;
  std::vector<int64_t> numbers;
};
[[nodiscard]] NamePattern patternOf(std::string_view name);
// "blocks_{0..125}_h": the pattern with what its numbers are in all of the names, which share it.
[[nodiscard]] std::string rangeText(const std::vector<NamePattern>& names);

} // namespace dtc
