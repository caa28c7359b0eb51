#pragma once
// Reports of a run: a Perfetto trace, and statistics per step.
#include "dtc/Passes/Pass.h"
#include "dtc/Runtime/run/Executable.h"
#include "dtc/Runtime/trace/Roofline.h"
#include "dtc/Runtime/trace/StepText.h"
#include "dtc/Support/Units.h"

namespace dtc {

struct TraceInfo {
  std::string program; // file name
  std::string backend;
  FuncId entry;
  MachineRate rate;                   // of the machine, shared by its devices; zeros if it is not measured
  std::vector<Backend::Phase> phases; // host phases before the run, in order
  // Of each function, in the order of its statements: the text that ran has other names. May be empty.
  std::vector<std::vector<StepText>> steps = {};
};

// Chrome trace-event JSON (cli.md): a process per device, named by its mesh coordinates, a thread per stream,
// flow arrows between the members of a collective, a live-memory counter; bytes, flops and rates in `args`. It
// contains the program that ran, as text; an event's `statement` is the number of its op in the text of its function.
[[nodiscard]] std::string traceJson(const Executable& e, const Module& m, const TraceInfo& info);

// One row per kernel, library call or collective: steps with the same name and op, summed over devices and
// runs.
struct StatsRow {
  std::string name, what, op, where; // where: "gpt.dt:12"
  int64_t calls = 0, totalNs = 0, bytes = 0,
          flops = 0;       // per call, on device 0
  int64_t hostNs = 0;      // sum of StepEvent::hostNs
  bool overlapped = false; // StepInfo::aside
  FuncId function;
  int64_t devices = 0; // that run the function
};

class RunStats {
public:
  void add(const Executable& e); // adds the events of its last run
  [[nodiscard]] std::string text(const Executable& e, const Module& m) const;
  [[nodiscard]] std::string json(const Executable& e, const Module& m) const;
  std::vector<double> runMs;  // by counted run
  std::vector<HostCost> host; // the same, on an asynchronous backend
  std::vector<Backend::Phase> phases;
  MachineRate rate;                // of the machine; zeros: no roofline is shown
  std::string about;               // the device mapping (Backend::describe)
  std::vector<PassRemark> remarks; // from the passes: materialized values, and why

private:
  void addOverlap(const Executable& e);
  std::vector<StatsRow> rows(const Executable& e) const;
  [[nodiscard]] HostCost usualHost() const;  // of the run with the median host time
  std::vector<int64_t> calls_, ns_, hostNs_; // by step
  int64_t timed_ = 0;                        // number of timed runs
  int64_t commNs_ = 0, hiddenNs_ = 0; // collective time on all devices, total and overlapped with other steps
};

// Groups equal remarks, one line each, most expensive first: what, why, count, bytes, first location.
[[nodiscard]] std::string remarksText(std::span<const PassRemark> remarks, const Module& m);
[[nodiscard]] std::string remarksJson(std::span<const PassRemark> remarks, const Module& m); // ungrouped

// The static work of kernels, one row each.
struct WorkRow {
  std::string name;
  int64_t uses = 0, bytes = 0, flops = 0; // bytes and flops per use on one device
};
[[nodiscard]] std::string workText(std::span<const WorkRow> rows);
[[nodiscard]] std::string workJson(std::span<const WorkRow> rows);

} // namespace dtc
