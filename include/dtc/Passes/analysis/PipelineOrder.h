#pragma once
// The order in which the devices of a pipeline compute the forward and backward parts of micro-batches.
//
// GPipe: Huang et al. 2019. 1F1B: Narayanan et al. 2019 (PipeDream-Flush). Interleaved 1F1B: Narayanan et al. 2021
// (Megatron-LM), where a device holds several chunks of the model. Zero bubble: Qi et al. 2023, where the gradients
// of weights are separate from those of activations and fill the bubble; a list schedule that is ZB-H1 where
// the three times are equal.
#include "dtc/IR/Phase.h"
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace dtc {

enum class PipelineSchedule : uint8_t { GPipe, OneFOneB, Interleaved, ZeroBubble };
inline constexpr const char* kPipelineWords[] = {"gpipe", "1f1b", "interleaved", "zb"};
[[nodiscard]] std::optional<PipelineSchedule> pipelineScheduleOf(std::string_view word);
[[nodiscard]] constexpr const char* pipelineWordOf(PipelineSchedule s) {
  return kPipelineWords[static_cast<size_t>(s)];
}
inline constexpr const char* kNoPipeline = "none"; // every device computes all stages
// Of a program with stages.
inline constexpr PipelineSchedule kDefaultPipeline = PipelineSchedule::OneFOneB;

// Stage v is on device v % devices. A duration is in seconds, of one micro-batch.
struct PipelineShape {
  int devices = 1;
  int chunks = 1; // stages per device
  int microbatches = 1;
  // By stage and phase; a program without gradients has no time in the last two.
  std::vector<double> seconds[3];
  bool hasBackward = true, splitsWeights = false;
  [[nodiscard]] int stages() const { return devices * chunks; }
};

struct PipelineAction {
  PipelinePhase phase = PipelinePhase::Forward;
  int stage = 0, microbatch = 0;
  double begin = 0, end = 0; // seconds after the first action, if messages take no time
};

// The actions of each device, in its order, with the times of a run in which each begins as early as possible.
// Interleaved: the number of micro-batches is a multiple of the devices.
[[nodiscard]] std::vector<std::vector<PipelineAction>> pipelineOrder(PipelineSchedule, const PipelineShape&);

// Sets the times of actions in a given order. False if that order has devices that wait for each other. An action
// that is missing, such as a backward part without ops of its own, takes no time.
[[nodiscard]] bool setPipelineTimes(const PipelineShape&, std::vector<std::vector<PipelineAction>>&);

// The share of the devices' time in which they wait: 1 - busy / (devices · makespan).
[[nodiscard]] double bubbleOf(const std::vector<std::vector<PipelineAction>>&);
// The same in closed form, for stages of equal times: (p-1)/(m+p-1) for GPipe and 1F1B, with V chunks
// (p-1)/(V·m+p-1), where a backward part takes any multiple of a forward part. Nothing for zero bubble, whose
// value depends on the three times.
[[nodiscard]] std::optional<double> closedFormBubble(PipelineSchedule, const PipelineShape&);

} // namespace dtc
