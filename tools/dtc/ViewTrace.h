#pragma once
// dtc view of a trace: a measured run beside the machine model's schedule of its program.
#include "Program.h"
#include "dtc/Report/trace/TraceComparison.h"

namespace dtc {

struct ViewTrace {
  std::string file;
  std::string program, machine; // --program, --machine
  ProgramOptions options;       // of the program
  LoweringFlags lowering;
  std::string format, out; // format: "text", "svg", "html" or "json"
  size_t columns = 80;     // of text
};

// Whether a file is a trace, by its name or content. Error: the standard input cannot be read.
[[nodiscard]] Result<bool> isTrace(Environment&, const std::string& file);
struct LoadedTrace {
  SourceText source;
  MeasuredTrace trace;
};
// A trace of `dtc run --trace`. Problems are reported; the error then has no message.
[[nodiscard]] Result<LoadedTrace> loadTrace(Environment&, const std::string& file);
// The target that its program was compiled for.
[[nodiscard]] Result<std::string> targetOfTrace(const MeasuredTrace&);
[[nodiscard]] Result<int> viewTrace(Environment&, const ViewTrace&);

} // namespace dtc
