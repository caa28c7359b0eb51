#pragma once
// The colors of all drawings, of text, SVG and the report's page: those of Okabe and Ito ("Color Universal Design", 2008),
// which people with color blindness can tell apart, and two more.
#include <array>
#include <cstdint>
#include <string>

namespace dtc {

// Of mesh axes, in the order of the mesh; the last one is for an axis that is not of the mesh.
inline constexpr std::array<const char*, 8> kAxisColors = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                           "#e69f00", "#56b4e9", "#8c6d31", "#999999"};

// Of shard `number` of `total`: pale, unlike axes, and lighter and darker in turns. Empty for more than 16, which cannot be
// told apart.
[[nodiscard]] inline std::string shardColor(int64_t number, int64_t total) {
  constexpr int64_t kMostColors = 16;
  if (total < 2 || total > kMostColors) return {};
  return "hsl(" + std::to_string(number * 360 / total) + (number % 2 ? ",38%,76%)" : ",62%,90%)");
}

} // namespace dtc
