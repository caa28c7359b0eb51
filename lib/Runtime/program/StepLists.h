#pragma once
// Functions over the steps of a program.
#include "program/Program.h"

#include <optional>

namespace dtc {

// By device: the device whose predicate or bound decides for it, the first of those that it communicates with.
using Leaders = std::vector<int64_t>;

// In these steps, at any depth.
[[nodiscard]] Leaders leadersIn(const Program& program, std::span<const StepList* const> lists);
[[nodiscard]] inline Leaders leadersIn(const Program& program, std::initializer_list<const StepList*> lists) {
  return leadersIn(program, std::span(lists.begin(), lists.size()));
}

// Devices that communicate in `lists`, those of a control step, must take the same decision. If some are in several
// processes (each has as many as `here`), the broadcast of a number of one of them; its place is to be set.
[[nodiscard]] std::optional<RendezvousStep> agreementIn(const Program& program, DeviceSlice here,
                                                        std::initializer_list<const StepList*> lists,
                                                        DType dtype);

// A graph must not end with a collective in flight.
void joinBeforeGraphsEnd(Program& program, const GraphBackend& graphs, StepList& steps);

} // namespace dtc
