#pragma once
// UTF-8, the encoding of all text (docs/ir.md).
#include <cstddef>
#include <string_view>

namespace dtc {

// The length of the UTF-8 sequence at `at`, or 0 if it is invalid (including overlong forms, surrogates and
// code points above U+10FFFF).
[[nodiscard]] size_t utf8Length(std::string_view text, size_t at);

[[nodiscard]] bool isUtf8(std::string_view text);

} // namespace dtc
