#pragma once
// report: one self-contained page of a program: its source with shardings and costs, its graph, shards, schedule,
// memory, communication and kernels. docs/report.md documents the data and the page.
#include "dtc/Passes/propagate/Propagate.h"
#include "dtc/Report/trace/MeasuredTrace.h"
#include "dtc/Session/ProgramText.h"
#include "dtc/Support/Progress.h"

namespace dtc {

struct ReportOptions {
  ReadOptions read;
  std::string entry; // as --entry
  LoweringFlags lowering;
  std::string target = "sm_90a";        // of text that does not state one
  Progress progress;                    // may be empty
  const MeasuredTrace* trace = nullptr; // of a run of the program, shown with its schedule
};

// What is known of one program, as far as it compiles.
struct ProgramData {
  std::string json;     // an element of `programs` (docs/report.md)
  Diagnostics problems; // errors and warnings, located in `source`
  SourceText source;
  std::string error;     // an error without a location, or ""
  bool complete = false; // it compiles
};

// Error (Usage): options that do not fit the program.
[[nodiscard]] Result<ProgramData> programData(SourceText, const ReportOptions&);

// {"format": 1, "dtc": "0.1.0", "programs": […]}
[[nodiscard]] std::string reportJson(std::span<const ProgramData>);
// The page with that document in it.
[[nodiscard]] std::string reportPage(std::span<const ProgramData>);

// The graph of the page as one SVG, of a global or propagated program: with propagated shardings, collectives and
// folded layers. Errors of the program are in `diags`; the message is then empty.
[[nodiscard]] Result<std::string> programGraphSvg(const Module&, FuncId entry, const PropagateOptions&,
                                                  Diagnostics& diags);

} // namespace dtc
