#pragma once
// UTF-8, which all text is in (docs/ir.md).
#include <cstddef>
#include <string_view>

namespace dtc {

// The length of the UTF-8 sequence at `at`, or 0 where there is none (overlong forms, surrogates and numbers past U+10FFFF are
// none).
[[nodiscard]] size_t utf8Length(std::string_view text, size_t at);

} // namespace dtc
