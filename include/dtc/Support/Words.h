#pragma once
// Reads words and numbers from short texts, and writes lists of them.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace dtc {

// The text without these characters at its ends.
[[nodiscard]] inline std::string_view trimmed(std::string_view text, std::string_view spaces = " ") {
  const size_t begin = text.find_first_not_of(spaces);
  return begin == text.npos ? text.substr(0, 0)
                            : text.substr(begin, text.find_last_not_of(spaces) + 1 - begin);
}

// Removes the number at the beginning of the text.
template <class Number> [[nodiscard]] std::optional<Number> takeNumber(std::string_view& text) {
  Number n = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (bad != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return n;
}

// The number at the beginning of the text.
template <class Number> [[nodiscard]] std::optional<Number> leadingNumber(std::string_view text) {
  return takeNumber<Number>(text);
}

// The number that is the whole text.
template <class Number> [[nodiscard]] std::optional<Number> parseNumber(std::string_view text) {
  const std::optional<Number> n = takeNumber<Number>(text);
  return text.empty() ? n : std::nullopt;
}

// The lines of a text, without their ends.
[[nodiscard]] inline std::vector<std::string_view> linesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), lines.back().size() + 1));
  }
  return lines;
}

// "a, b, c": what `text` returns for each element.
template <class Range, class Text>
[[nodiscard]] std::string joined(const Range& range, std::string_view separator, const Text& text) {
  std::string out;
  bool first = true;
  for (const auto& element : range) {
    if (!first) out += separator;
    first = false;
    out += text(element);
  }
  return out;
}

// The same for strings and numbers.
template <class Range>
[[nodiscard]] std::string joined(const Range& range, std::string_view separator = ", ") {
  return joined(range, separator, [](const auto& element) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(element)>>)
      return std::to_string(element);
    else
      return std::string_view(element);
  });
}

} // namespace dtc
