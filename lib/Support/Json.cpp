#include "dtc/Support/Json.h"
#include "dtc/Support/Utf8.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace dtc {
std::string jsonString(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    size_t n = utf8Length(text, i);
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
