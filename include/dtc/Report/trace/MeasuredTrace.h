#pragma once
// A trace of `dtc run --trace` (docs/cli.md), read again. Traces are untrusted.
#include "dtc/Runtime/trace/StepText.h"
#include "dtc/Support/Diagnostics.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

struct TraceEvent {
  size_t device = 0;                    // coordinate
  uint32_t stream = 0;                  // of MeasuredTrace::streams
  uint32_t name = 0, op = 0, place = 0; // of MeasuredTrace::words: "matmul", "%h = fused", "mlp.dt:8"
  bool message = false;                 // a collective
  int64_t statement = -1;               // the number of its op in its function; -1: not written
  double begin = 0, seconds = 0;        // from the begin of the run
  double waited = 0;                    // of a message: until all members have come
  SourceRange range;                    // in the trace's text
};

struct MeasuredTrace {
  // Of one device, where the run measured it: its share of the machine.
  struct Machine {
    double flopsPerSecond = 0, memoryBytesPerSecond = 0;
  };
  std::string program, entry, backend, mesh; // "mlp.dt", "mlp", "cpu", "dp=2 tp=4"
  std::string scheduled;                     // the text that ran; empty if the trace does not have it
  std::optional<Machine> machine;
  std::vector<std::string> devices; // by coordinate: "dp=0 tp=1"
  std::vector<std::string> streams; // "compute", "comm tp"
  std::vector<std::string> words;
  std::vector<std::vector<StepText>> steps; // by function and statement; empty in traces of older versions
  std::vector<TraceEvent> events;           // by device, then time
  double seconds = 0;                       // from the first event's begin to the last one's end
};

// Whether a text, or its beginning, is a trace in the format of Chrome or Perfetto, of any tool.
[[nodiscard]] bool looksLikeTrace(std::string_view text);
// Errors, in the diagnostics: text that is not JSON or ends in the middle, a trace of another tool, or without steps.
[[nodiscard]] std::optional<MeasuredTrace> readTrace(const SourceText&, Diagnostics&);

} // namespace dtc
