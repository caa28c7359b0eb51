#pragma once
// The cost of one run of a compiled program: the numbers that report, diff, explain and view state for it.
#include "dtc/Report/explain/ExplainProgram.h"
#include "dtc/Session/ProgramText.h"

namespace dtc {

// What report, diff, explain and view compile for, unless the text or --target says otherwise.
inline constexpr const char* kReportTarget = "sm_90a";

struct StepCost {
  std::string target;        // that the schedule is for
  double seconds = 0;        // of the schedule of all devices on the nominal machine, with messages and waits
  int64_t bytesReceived = 0; // by the device that receives most
  int64_t memoryBytes = 0;   // the arena of the device that needs most
  bool complete = true;      // false: an unknown size counts as nothing, an unknown loop as one iteration
  // Messages of the device that receives most, in order of decreasing time: by axis and by kind.
  std::vector<SummaryRow> axes, kinds;
};

// Of a placed program. Nothing if it has no memory plan.
[[nodiscard]] std::optional<StepCost> stepCostOf(Module& placed, FuncId entry);
// Of a program that is first compiled for `target`, or for the one that its text states. Nothing if it does not
// compile. The collectives of the report, which is of the trace of the program, get their names in the schedule.
[[nodiscard]] std::optional<StepCost> stepCostOf(const Module& program, FuncId entry, const LoweringFlags&,
                                                 const std::string& target, const CollectiveTrace&,
                                                 ProgramReport&);

// The time and the memory of its schedule alone.
[[nodiscard]] std::optional<ScheduleCost> scheduleCostOf(const Module& program, FuncId entry,
                                                         const LoweringFlags&, const std::string& target);

// "a step takes 24.5 us, receives 850 KiB and needs 875 KiB: the schedule for sm_90a, of the device with most"
[[nodiscard]] std::string stepCostText(const StepCost&);
// "its messages: 16 p2p, 96.0 KiB; 1 all_reduce, 181 KiB", if they are not those of the program before the schedule:
// rings and stages send others, recomputation repeats some. Otherwise "".
[[nodiscard]] std::string stepMessagesText(const StepCost&, const ProgramReport&);

} // namespace dtc
