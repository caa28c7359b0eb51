#include "dtc/Support/Utf8.h"

namespace dtc {

size_t utf8Length(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  unsigned lead = byte(at);
  if (lead < 0x80) return 1;
  size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  unsigned second = byte(at + 1);
  bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  bool surrogate = lead == 0xed && second >= 0xa0;
  bool tooLarge = lead == 0xf4 && second >= 0x90;
  return overlong || surrogate || tooLarge ? 0 : length;
}

bool isUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8Length(text, i);
    if (!length) return false;
    i += length;
  }
  return true;
}

} // namespace dtc
