#pragma once
#include <string>

namespace dtc {

// Text of at most `width` letters, with "..." for what is left out: its end, or its middle. Names of layers differ at both
// ends.
[[nodiscard]] std::string shortened(const std::string& text, size_t width);
[[nodiscard]] std::string shortenedMiddle(const std::string& text, size_t width);

} // namespace dtc
