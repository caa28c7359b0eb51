#include "explain/ShortNames.h"

#include <string_view>

namespace dtc {

static constexpr std::string_view kLeftOut = "...";

// In UTF-8: a byte that goes on with a letter.
static bool isWithinLetter(const std::string& text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

// The first `front` and the last `back` letters.
static std::string withoutMiddle(const std::string& text, size_t front, size_t back) {
  while (front > 0 && isWithinLetter(text, front)) --front;
  size_t rest = text.size() - back;
  while (isWithinLetter(text, rest)) ++rest;
  return text.substr(0, front) + std::string(kLeftOut) + text.substr(rest);
}

std::string shortened(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  return withoutMiddle(text, width > kLeftOut.size() ? width - kLeftOut.size() : 0, 0);
}

std::string shortenedMiddle(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  const size_t kept = width > kLeftOut.size() ? width - kLeftOut.size() : 0;
  return withoutMiddle(text, kept / 2, kept - kept / 2);
}

} // namespace dtc
