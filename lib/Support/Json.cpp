#include "dtc/Support/Json.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace dtc {
namespace {

// Length of the UTF-8 sequence that begins `s`, or 0 where it is none (overlong forms and surrogates included).
size_t sequenceLength(std::string_view s) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  unsigned char b = byte(0);
  size_t n = b < 0x80                ? 1
             : b >= 0xc2 && b < 0xe0 ? 2
             : b >= 0xe0 && b < 0xf0 ? 3
             : b >= 0xf0 && b < 0xf5 ? 4
                                     : 0;
  if (n == 0 || n > s.size()) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if ((b == 0xe0 && byte(1) < 0xa0) || (b == 0xed && byte(1) >= 0xa0)) return 0;
  if ((b == 0xf0 && byte(1) < 0x90) || (b == 0xf4 && byte(1) >= 0x90)) return 0;
  return n;
}

} // namespace

std::string jsonString(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    size_t n = sequenceLength(text.substr(i));
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (n == 0) {
      out += "\xef\xbf\xbd";
      n = 1;
    } else if (c == '"' || c == '\\') {
      (out += '\\') += text[i];
    } else if (c < 0x20 || c == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out.append(text.substr(i, n));
    }
    i += n;
  }
  return out + '"';
}

std::string jsonNumber(double v) {
  if (std::isnan(v)) return "\"nan\"";
  if (std::isinf(v)) return v < 0 ? "\"-inf\"" : "\"inf\"";
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, v).ptr;
  return std::string(text, end);
}

} // namespace dtc
