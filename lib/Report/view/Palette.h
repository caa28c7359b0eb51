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

// Shards are pale, unlike axes, and lighter and darker in turns. More of them cannot be told apart.
inline constexpr int64_t kMostShardColors = 16;
struct ShardTone {
  int saturation = 0, lightness = 0, darkLightness = 0; // in percent; the last one in dark mode
};
inline constexpr std::array<ShardTone, 2> kShardTones = {{{62, 90, 36}, {38, 76, 24}}};

// Of shard `number` of `total`; empty if there are too many.
[[nodiscard]] inline std::string shardColor(int64_t number, int64_t total) {
  if (total < 2 || total > kMostShardColors) return {};
  const ShardTone& tone = kShardTones[static_cast<size_t>(number % 2)];
  return "hsl(" + std::to_string(number * 360 / total) + "," + std::to_string(tone.saturation) + "%," +
         std::to_string(tone.lightness) + "%)";
}

} // namespace dtc
