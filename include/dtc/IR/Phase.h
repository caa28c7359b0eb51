#pragma once
// The words of an op's attribute `phase`: the part of a stage that the op belongs to.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

namespace dtc {

enum class PipelinePhase : uint8_t { Forward, Backward, Weights };
inline constexpr std::string_view kPhaseWords[] = {"forward", "backward", "weights"};

[[nodiscard]] constexpr std::string_view phaseWord(PipelinePhase p) {
  return kPhaseWords[static_cast<size_t>(p)];
}
[[nodiscard]] constexpr std::optional<PipelinePhase> parsePhase(std::string_view word) {
  for (size_t i = 0; i < std::size(kPhaseWords); ++i)
    if (word == kPhaseWords[i]) return static_cast<PipelinePhase>(i);
  return std::nullopt;
}

} // namespace dtc
