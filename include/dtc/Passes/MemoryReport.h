#pragma once
// What a memory plan says to people: the peak beside its lower bound, and what is alive at the peak.
#include "dtc/Passes/PlanMemory.h"
#include <string>

namespace dtc {

struct MemoryReport {
  struct Row {
    std::string value, what, type, where; // "%h" "argument" "f32[64, 512]" "mlp.dt:12"
    int64_t bytes = 0;
  };
  int64_t peakBytes = 0, boundBytes = 0; // of one device: the arena, and the most that is alive at once
  std::string at, where;  // the statement during which the most is alive: "%h = fused", "mlp.dt:12"
  std::vector<Row> alive; // then, one row a buffer, largest first
  [[nodiscard]] double ratio() const; // peak by bound; 1 where both are 0
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string
  json() const; // {"peak_bytes", "bound_bytes", "ratio", "at", "where", "alive": [...]}
};

// `arenaBytes`: the plan's, or what a runtime allocates in all (with literals).
[[nodiscard]] MemoryReport memoryReport(const Module& m, FuncId f, const MemoryPlan& plan,
                                        int64_t arenaBytes);

} // namespace dtc
