#pragma once
// What a run did, for people: a trace that Perfetto opens, and sums over its steps.
#include "dtc/Passes/Pass.h"
#include "dtc/Runtime/Executable.h"
#include "dtc/Runtime/Floor.h"
#include "dtc/Support/Units.h"

namespace dtc {

struct TraceInfo {
  std::string program; // the file's name
  std::string backend;
  std::vector<Backend::Phase> phases; // of the host, before the run, in order
};

// Chrome trace-event JSON (cli.md): a process per device, named by its mesh coordinates, a thread per stream, flow arrows
// between the members of a collective, a counter of live memory; bytes, flops and rates in `args`.
[[nodiscard]] std::string traceJson(const Executable& e, const Module& m, const TraceInfo& info);

// One row per kernel, library call or collective: steps of one name and op are one row, devices and runs added up.
struct StatsRow {
  std::string name, what, op, where; // where: "gpt.dt:12"
  int64_t calls = 0, totalNs = 0, bytes = 0,
          flops = 0;  // bytes and flops of one call on the device at place 0
  int64_t hostNs = 0; // of all calls: StepEvent::hostNs
  bool aside = false; // StepInfo::aside
};

class RunStats {
public:
  void add(const Executable& e); // the events of its last run
  [[nodiscard]] std::string text(const Executable& e, const Module& m) const;
  [[nodiscard]] std::string json(const Executable& e, const Module& m) const;
  std::vector<double> runMs;  // of each run that counts
  std::vector<HostCost> host; // of the same, where the backend only starts work
  std::vector<Backend::Phase> phases;
  MachineRate rate;                // of the machine that ran it; zeros: no floor is shown
  std::string about;               // where the devices were (Backend::describe)
  std::vector<PassRemark> remarks; // of the passes: what was kept apart, and why

private:
  void addOverlap(const Executable& e);
  std::vector<StatsRow> rows(const Executable& e, const Module& m) const;
  [[nodiscard]] HostCost usualHost() const;  // of the run whose host time is the median
  std::vector<int64_t> calls_, ns_, hostNs_; // by step
  int64_t timed_ = 0;                        // runs that these are of
  int64_t commNs_ = 0, hiddenNs_ = 0; // of collectives on all devices; while their device did something else
};

// Like remarks as one line each, the costliest first: what, why, how often, bytes, where the first is.
[[nodiscard]] std::string remarksText(std::span<const PassRemark> remarks, const Module& m);
[[nodiscard]] std::string remarksJson(std::span<const PassRemark> remarks, const Module& m); // each by itself

// What kernels do, without a run: a row each.
struct WorkRow {
  std::string name;
  int64_t uses = 0, bytes = 0, flops = 0; // of one use on one device
};
[[nodiscard]] std::string workText(std::span<const WorkRow> rows);
[[nodiscard]] std::string workJson(std::span<const WorkRow> rows);

} // namespace dtc
