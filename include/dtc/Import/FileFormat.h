#pragma once
// Files that are no programs of dtc's, told by how they begin.
#include <string>
#include <string_view>

namespace dtc {

// What the content is, and what to do with it: "XLA's HLO text: `dtc audit` reads it; …". Empty where it may be a program,
// .dt or StableHLO text.
[[nodiscard]] std::string foreignFormat(std::string_view content);

} // namespace dtc
