#pragma once
// The report of a memory plan: the peak, its lower bound, and the values that are live at the peak.
#include "dtc/Passes/memory/PlanMemory.h"
#include <string>

namespace dtc {

struct MemoryReport {
  struct Row {
    std::string value, what, type, where; // "%h" "argument" "f32[64, 512]" "mlp.dt:12"
    int64_t bytes = 0;
    ValueId id; // of `value`
  };
  std::string of;                        // "@main on devices [0, 1]", if the devices of the program differ
  int64_t peakBytes = 0, boundBytes = 0; // per device: the arena, and the max live bytes
  std::string at, where;                 // the statement with the most live bytes: "%h = fused", "mlp.dt:12"
  std::vector<Row> alive;                // at that statement, one row per buffer, largest first
  [[nodiscard]] double ratio() const;    // peak / bound; 1 if both are 0
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string
  json() const; // {"peak_bytes", "bound_bytes", "ratio", "at", "where", "alive": [...]}
};

// The reports of the functions of one program; JSON is a list if there are several.
[[nodiscard]] std::string memoryText(std::span<const MemoryReport>);
[[nodiscard]] std::string memoryJson(std::span<const MemoryReport>);

// `arenaBytes`: the plan's arena, or the total that a runtime allocates (with literals).
[[nodiscard]] MemoryReport memoryReport(const Module& m, FuncId f, const MemoryPlan& plan,
                                        int64_t arenaBytes);

} // namespace dtc
