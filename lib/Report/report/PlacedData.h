#pragma once
// What the scheduled program says: its steps over time, its buffers in memory, its kernels.
#include "dtc/IR/Module.h"
#include "dtc/Passes/analysis/PipelineText.h"
#include "dtc/Report/trace/MeasuredTrace.h"
#include "report/GlobalData.h"

#include <map>

namespace dtc {

struct PlacedData {
  ReportValue schedule; // [{"devices", "streams", "steps", …}], one for each function of the program
  ReportValue memory;   // likewise
  ReportValue kernels;
  std::map<int, std::string> messages; // by collective of GlobalData: what its steps are called
  double idleShare = 0;                // of the devices' time, with messages
  std::string error;                   // why a part is missing, or ""
};

struct LineMap {
  const SourceIndex& index;
  const std::vector<int>& of; // by line; empty: all lines stand for themselves
  // The line itself.
  [[nodiscard]] int own(SourceRange r) const { return index.at(r); }
  // The line that stands for it, where equal layers are shown once.
  [[nodiscard]] int operator()(SourceRange r) const {
    const int line = own(r);
    return line < 0 || of.empty() ? line : of[static_cast<size_t>(line)];
  }
};

// `m` is placed. `trace`: of a run of the same program, or null. `error` says if it is of another one.
[[nodiscard]] PlacedData placedData(Module& m, FuncId entry, const LineMap&, const GlobalData*,
                                    const MeasuredTrace* trace);

[[nodiscard]] ReportValue pipelineData(const PipelineRun&);

} // namespace dtc
