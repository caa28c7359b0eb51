#pragma once
// A measured run beside the schedule that the machine model gives for the same program.
#include "dtc/IR/Module.h"
#include "dtc/Report/trace/MeasuredTrace.h"
#include "dtc/Sharding/Machine.h"
#include "dtc/Support/Result.h"
#include <optional>

namespace dtc {

// Where the time of a device goes. The parts add up to `seconds`.
struct DeviceTime {
  double seconds = 0; // of the run
  double computing = 0;
  double exposed = 0; // messages during which it computes nothing; with the wait for other devices
  double waiting = 0; // of `exposed`: until the other devices have come
  [[nodiscard]] double idle() const; // neither
};

struct TraceBar {
  uint32_t stream = 0; // of TraceComparison::streams
  int op = -1;         // of TraceComparison::ops; -1: a copy of a carried result
  double begin = 0, seconds = 0;
  double exposed = 0, waited = 0;
  double repeats = 0; // the further iterations of a loop, which the bar stands for
};

// An op of a function over one run of a device: the mean of the devices that run it.
struct TraceOp {
  size_t function = 0;
  OpId id;
  std::string name;  // "matmul + k_gelu", "all_reduce(tp)"
  std::string value; // "%a"
  std::string part;  // of a pipeline: "F2 stage 0, pp 0 to 1"
  std::string place; // "mlp.dt:8"
  bool message = false;
  double runs = 0; // measured executions
  double measured = 0, modelled = 0;
  double exposed = 0, modelledExposed = 0; // of a message
  // What the measurement adds to the model's step: of a message, the part that is exposed.
  [[nodiscard]] double added() const { return message ? exposed - modelledExposed : measured - modelled; }
};

struct TraceComparison {
  std::string program, backend, mesh;
  NominalMachine machine;
  enum class Of : uint8_t { Measured, Given, Nominal } machineOf = Of::Nominal;
  std::vector<std::string> streams;                // "compute", "tp"
  std::vector<std::string> functions;              // "@main"
  std::vector<std::string> devices;                // by coordinate
  std::vector<uint32_t> functionOf;                // by coordinate
  std::vector<TraceOp> ops;                        // by what they add, the largest first
  std::vector<DeviceTime> measured;                // by coordinate
  std::vector<DeviceTime> modelled;                // by function
  std::vector<std::vector<TraceBar>> measuredBars; // by coordinate, in the order of time
  std::vector<std::vector<TraceBar>> modelledBars; // by function, in the order of the text
  double seconds = 0, modelledSeconds = 0;
  bool complete = true; // false: the model does not know a size, or the iterations of a loop
  // What an op adds to the mean of all devices, of which only those of its function run it.
  [[nodiscard]] double addedToRun(const TraceOp&) const;
  [[nodiscard]] DeviceTime meanMeasured() const;
  [[nodiscard]] DeviceTime meanModelled() const; // of the devices
};

// What a machine is like: --machine, or what the trace has measured, or the nominal one.
struct TraceMachine {
  std::optional<double> flops, memory, link, latency,
      launch;           // given: of one device, per second and in seconds
  bool nominal = false; // nothing that the trace has measured
};
// "flops=1e12,memory=5e10,link=1e10,latency=1e-6,launch=2e-6", "nominal". Error (Usage): another text.
[[nodiscard]] Result<TraceMachine> parseTraceMachine(std::string_view text);

// `m` is placed. Nothing, with a diagnostic in `problems`, located in the trace: it is of another program.
[[nodiscard]] std::optional<TraceComparison> compareTrace(Module& m, FuncId entry, const MeasuredTrace&,
                                                          const TraceMachine&, Diagnostics& problems);
// Whether a placed program is the one that ran. If not, `problems` says, at the line in the program's text, which op is
// the first that differs. True for a trace that does not have its program: compareTrace then compares the ops that ran.
[[nodiscard]] bool isProgramOf(const Module& m, FuncId entry, const MeasuredTrace&, Diagnostics& problems);

// What a trace of this scheduled program says of its steps (MeasuredTrace::steps).
[[nodiscard]] std::vector<std::vector<StepText>> stepTextsOf(const Module&, FuncId entry);

[[nodiscard]] std::string comparisonText(const TraceComparison&, size_t columns);
[[nodiscard]] std::string comparisonSvg(const TraceComparison&);
[[nodiscard]] std::string comparisonJson(const TraceComparison&);

} // namespace dtc
