#pragma once
// Which part of a pipeline's run a step belongs to: steps of micro-batches are otherwise equal.
#include "dtc/IR/Module.h"

namespace dtc {

// "F2 stage 0": of the forward part of micro-batch 2 in stage 0 (B: backward; W: gradients of weights). A message
// between stages names its sender and receiver, too: "F2 stage 0, pp 0 to 1". "" outside of a pipeline's micro-batches.
[[nodiscard]] std::string stepPart(const Module&, OpId);
inline constexpr const char* kStepPartLegend =
    "F2 stage 0: forward of micro-batch 2 in stage 0; B: backward; W: gradients of weights; "
    "0 to 1: sender and receiver";

} // namespace dtc
