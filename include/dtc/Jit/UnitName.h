#pragma once
#include <string>
#include <string_view>

namespace dtc {

// A unit's name in the form used in #line directives and messages: names come from programs.
[[nodiscard]] inline std::string safeUnitName(std::string_view name) {
  std::string out(name.substr(0, 80));
  for (char& c : out)
    if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '.' && c != '-')
      c = '_';
  return out.empty() ? "kernel" : out;
}

} // namespace dtc
