#pragma once
// A scheduled program, loaded on a backend and ready to run: flat step lists, one arena per device, and one
// worker pool that executes the steps of all devices.
#include "dtc/Eval/Eval.h"
#include "dtc/Files/TensorPieces.h"
#include "dtc/Files/TensorSource.h"
#include "dtc/IR/Module.h"
#include "dtc/Passes/memory/MemoryReport.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Runtime/program/StepInfo.h"
#include "dtc/Runtime/run/BorrowedTensor.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include "dtc/Support/ThreadPool.h"
#include <memory>
#include <string>

namespace dtc {

struct StepEvent {
  uint32_t step = 0; // index into steps()
  int32_t coordinate = 0;
  int64_t beginNs = 0, endNs = 0; // since the run's start
  int64_t workNs = 0;             // for a collective: when all members had arrived
  int64_t hostNs = 0;             // host time to enqueue the step, on an asynchronous backend
  uint64_t rendezvous = 0;        // number (> 0) shared by the events of one rendezvous
};

// Host statistics of a run on an asynchronous backend.
struct HostCost {
  int64_t ns = 0;       // host time, without waits
  int64_t waitNs = 0;   // waiting for predicates and bounds read from devices
  int64_t launches = 0; // device steps: kernels, matmuls, copies, per-device parts of collectives
  int64_t graphs = 0;   // graph launches
  int64_t read = 0;     // predicates of `while` and `cond` read by the host
  int64_t decided = 0;  // predicates evaluated by conditional graph nodes
};

// For each argument of an entry function, whether a run keeps its value.
[[nodiscard]] std::vector<bool> keptArgumentsOf(const Module&, FuncId entry);

class Executable {
public:
  struct Options {
    // Assign tasks to workers at load time if the order of steps is static: no host work between steps. Runs
    // that are timed or logged per step are still scheduled dynamically.
    bool fixedSchedule = false;
    // Capture steps in graphs if the backend supports them (requires fixedSchedule).
    bool graphs = true;
    bool hostPredicates = false; // the host reads predicates of `while` and `cond`, even with graphs
  };
  // `f`: the entry of a program. `m` (placed, symbols bound), `backend` and `pool` must outlive the executable. Errors name the op and its
  // line: Input for an unsupported request in the text, Bug for an op without an implementation, else the
  // backend's error.
  [[nodiscard]] static Result<std::unique_ptr<Executable>> load(Module& m, FuncId f, Backend& backend,
                                                                ThreadPool& pool, const Options& options);
  ~Executable();

  // Sets argument i from its global value, which is sharded. Arguments keep their values between runs, except
  // those with {donate = true} and those updated by a {carry = true} result: their buffers are undefined
  // after a run.
  [[nodiscard]] Status setArgument(size_t i, const Tensor& global);
  // The same; reads each device's shard from the source.
  [[nodiscard]] Status setArgument(size_t i, const TensorSource& global);
  // Sets it to a result of the last run of another program on the same mesh. All processes call it.
  [[nodiscard]] Status setArgument(size_t i, Executable& from, size_t result);
  // Argument i does not change until it is set again: steps may use a copy in a layout of their own, such as packed
  // weights, whose kernels may round differently.
  [[nodiscard]] Status keepArgument(size_t i);
  [[nodiscard]] std::vector<bool> keptArguments() const; // for each argument, whether a run keeps its value
  // Turns carried results into arguments of the next run, which invalidates the last results.
  [[nodiscard]] Status carryOver();
  // Runs all devices once. Errors name the op and its line.
  [[nodiscard]] Status run(const RunHooks& hooks = {});
  // Runs on tensors of the caller: `checkTensors` changes nothing, `borrow` sets the arguments, `runBorrowed` runs and
  // writes the results. On the CPU, contiguous tensors are used in place where possible; nothing is allocated then. The results must not overlap each
  // other. In several processes, shards are those of devices(), and a whole tensor is one of which they hold all
  // elements. Errors (Input): another dtype or shape; (Usage): memory that the backend cannot access, or a whole
  // result of which this process has only some shards.
  [[nodiscard]] Status checkTensors(const Borrowing& tensors) const;
  [[nodiscard]] Status borrow(const Borrowing& tensors);
  [[nodiscard]] Status runBorrowed(const Borrowing& tensors, const RunHooks& hooks = {});
  [[nodiscard]] Status runOn(const Borrowing& tensors, const RunHooks& hooks = {}) {
    if (Status s = checkTensors(tensors); !s) return s;
    if (Status s = borrow(tensors); !s) return s;
    return runBorrowed(tensors, hooks);
  }
  [[nodiscard]] DeviceSlice devices() const; // of this process
  // The value of an argument for all runs of runOn that skip it, in memory that must outlive the executable and that
  // nothing writes. False: this memory cannot be used in place.
  [[nodiscard]] bool lendArgument(size_t i, const std::byte* tensor);
  [[nodiscard]] bool lendsArgument(size_t i) const; // until a run keeps another tensor
  // Copied by the last runOn between the caller's tensors and buffers.
  [[nodiscard]] int64_t copiedBytes() const;
  // Later work waits for what the caller has enqueued on its stream (a CUstream).
  [[nodiscard]] Status waitForStream(void* stream);
  // In a run of several processes: brings results of the last run to process 0, or all their `replicas`. All processes
  // call it before that asks for results that it does not hold.
  [[nodiscard]] Status gatherResults(const std::vector<bool>& which, bool replicas = false);
  // The same for the events of the last timed run; their times are by the clock of process 0.
  [[nodiscard]] Status gatherEvents();
  // Names the process that runs a device, "rank 2 on node7"; empty if there is one process.
  [[nodiscard]] std::string processOf(int64_t coordinate) const;
  // " of rank 2 on node7", to follow the name of a device.
  [[nodiscard]] std::string ofProcess(int64_t coordinate) const;
  // Result i of the last run as a global tensor. The first replica of each shard.
  [[nodiscard]] size_t numResults() const;
  [[nodiscard]] Result<Tensor> result(size_t i) const;
  // The shape of a device's shard.
  [[nodiscard]] std::span<const int64_t> argumentShape(size_t i, int64_t coordinate) const;
  [[nodiscard]] std::span<const int64_t> resultShape(size_t i, int64_t coordinate) const;
  // The same from all devices: each further value differs in some bit.
  [[nodiscard]] Result<std::vector<Replica>> replicas(size_t i) const;
  // The same as pieces that tile it, of which this process has the values that it writes. All processes call it.
  // `written`: bytes by process, so that those with replicas share the work; empty at first.
  [[nodiscard]] Result<std::vector<TensorPiece>> pieces(size_t i, std::vector<int64_t>& written);
  // The local value of device `coordinate`. With plan-memory{reuse=false} valid for all values outside loops.
  [[nodiscard]] Result<Tensor> value(ValueId v, int64_t coordinate) const;

  // The current iteration of each enclosing loop of a device, outermost first; valid within
  // RunHooks::afterStep. A `for` is numbered by its index, a `while` from 0.
  struct Iteration {
    OpId loop;
    int64_t number = 0;
  };
  [[nodiscard]] std::vector<Iteration> iterations(int64_t coordinate) const;

  // Whether runs that are neither timed nor logged launch graphs.
  [[nodiscard]] bool hasGraphs() const;
  [[nodiscard]] const HostCost& hostCost() const; // of the last run; zeros on a synchronous backend

  [[nodiscard]] const std::vector<StepInfo>& steps() const;
  [[nodiscard]] const std::vector<StepInfo>&
  loadTimeSteps() const; // evaluated once at load time: constants, device indices
  [[nodiscard]] const std::vector<StepEvent>& events() const; // of the last timed run, by device, then time
  [[nodiscard]] const Mesh& mesh() const;
  [[nodiscard]] FuncId functionAt(int64_t coordinate) const; // that the device runs
  [[nodiscard]] int64_t arenaBytes() const; // per device: the max over the functions of the program
  [[nodiscard]] int64_t memoryLowerBound() const;
  [[nodiscard]] std::vector<MemoryReport> memoryReports() const; // by function of the program
  // Bytes of live buffers per device after each top-level step, by step number; -1 for steps inside regions.
  [[nodiscard]] const std::vector<int64_t>& liveBytes() const;
  // Load time by phase.
  [[nodiscard]] const std::vector<Backend::Phase>& phases() const;

private:
  [[nodiscard]] Status gather(const std::vector<bool>& which, bool replicas, bool toAll);
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace dtc
