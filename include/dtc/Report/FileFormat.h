#pragma once
// Detection of files that are not dtc programs, by their first bytes.
#include <string>
#include <string_view>

namespace dtc {

// The format of the content, and what to do with it: "XLA's HLO text: `dtc audit` reads it; …". Empty where
// it may be a program, .dt or StableHLO text.
[[nodiscard]] std::string foreignFormat(std::string_view content);

} // namespace dtc
