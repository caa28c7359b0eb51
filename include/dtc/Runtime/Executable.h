#pragma once
// A scheduled function, loaded on a backend and ready to run: flat step lists, one arena per device, one pool of workers
// that executes the steps of all devices.
#include "dtc/IR/Module.h"
#include "dtc/Passes/MemoryReport.h"
#include "dtc/Runtime/Backend.h"
#include "dtc/Runtime/TensorSource.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include "dtc/Support/ThreadPool.h"
#include <memory>
#include <string>

namespace dtc {

// What reports say of one step, on the device at place 0.
struct StepInfo {
  std::string name; // "gelu_1" (a kernel's), "matmul", "all_reduce(tp)", "copy"
  std::string what; // "kernel", "library", "collective", "copy", "host", "control"
  std::string op;   // the statement's result and op: "%h = fused"
  LineCol line;     // in the program's text
  std::string user; // the user's own place and name, where the program says them (IR/UserPlace.h)
  OpId id;
  std::vector<ValueId> results;
  int64_t bytes = 0; // touched (kernels, library), or sent (collectives)
  int64_t flops = 0;
  std::string stream = "compute"; // or a communicator's: "comm tp"
  bool aside = false;             // a collective that runs beside what follows it
};

struct StepEvent {
  uint32_t step = 0; // index into steps()
  int32_t place = 0;
  int64_t beginNs = 0, endNs = 0; // since the run's start
  int64_t workNs = 0;             // of a collective: when all had arrived
  int64_t hostNs = 0;             // that the host took to start it, where steps only start work
  uint64_t meeting = 0;           // events of one meeting have one number (> 0)
};

struct RunHooks {
  bool time = false; // fill events()
  // Called after each step of a device. Setting it makes the run serial, so that the calls come in the same order each time.
  void (*afterStep)(void* self, uint32_t step, int64_t place) = nullptr;
  void* self = nullptr;
  // Where `print` writes.
  void (*print)(void* self, const std::string& text) = nullptr;
  void* printSelf = nullptr;
};

// What the host did in a run on a backend whose steps only start work.
struct HostCost {
  int64_t ns = 0;       // of the host, without the times that it waited
  int64_t waitNs = 0;   // for numbers that it had to read
  int64_t launches = 0; // steps that devices did: kernels, products, copies, shares of collectives
  int64_t graphs = 0;   // launches of graphs among what the host did
  int64_t read = 0;     // predicates of `while` and `cond` that it read
  int64_t decided = 0;  // those that graphs looked at themselves
};

class Executable {
public:
  struct Options {
    bool reuseMemory = true; // false: every value keeps its buffer, so that value() can read it after the run
    // Who does what is decided at load, where the steps' order is known then: no host work between steps. Runs that are
    // timed or logged step by step are scheduled as they go all the same.
    bool fixedSchedule = false;
    // Steps become graphs where the backend has them (and fixedSchedule is asked for).
    bool graphs = true;
    bool hostPredicates = false; // in graphs, too, the host reads the predicates of `while` and `cond`
    bool overlap = true;         // collectives run beside other steps where the backend can
  };
  // `m` (scheduled, symbols bound), `backend` and `pool` must outlive it. Errors name the op and its line: Input for what
  // the text asks for and cannot be, Bug for an op that nothing executes, else the backend's.
  [[nodiscard]] static Result<std::unique_ptr<Executable>> load(Module& m, FuncId f, Backend& backend,
                                                                ThreadPool& pool, const Options& options);
  ~Executable();

  // Gives argument i its global value, cut into pieces. Arguments keep their values from run to run, but for those that say
  // {donate = true} and those that a result with {carry = true} becomes: their buffers may hold anything after a run.
  [[nodiscard]] Status setArgument(size_t i, const Tensor& global);
  // The same, each device's piece read from where the value is.
  [[nodiscard]] Status setArgument(size_t i, const TensorSource& global);
  [[nodiscard]] bool keepsArgument(size_t i) const;
  // Makes carried results the arguments of the next run; the results of the last are gone then.
  [[nodiscard]] Status carryOver();
  // Runs all devices once. Errors name the op and its line.
  [[nodiscard]] Status run(const RunHooks& hooks = {});
  // Result i of the last run as a global tensor. An spmd result without `of` is taken from place 0.
  [[nodiscard]] Result<Tensor> result(size_t i) const;
  // A value as the device at `place` holds it; without reuseMemory right for all values outside loops.
  [[nodiscard]] Result<Tensor> value(ValueId v, int64_t place) const;

  // Which iterations of loops a device is in, the outermost first: within RunHooks::afterStep. A `for` is counted by its index,
  // a `while` from 0.
  struct Iteration {
    OpId loop;
    int64_t number = 0;
  };
  [[nodiscard]] std::vector<Iteration> iterations(int64_t place) const;

  // True where a run that is neither timed nor logged starts graphs.
  [[nodiscard]] bool hasGraphs() const;
  [[nodiscard]] const HostCost& hostCost() const; // of the last run; zeros where steps do not only start work

  [[nodiscard]] const std::vector<StepInfo>& steps() const;
  [[nodiscard]] const std::vector<StepInfo>&
  loadTimeSteps() const; // done once, while loading: constants, a device's indices
  [[nodiscard]] const std::vector<StepEvent>& events() const; // of the last timed run, by place, then time
  [[nodiscard]] const Mesh& mesh() const;
  [[nodiscard]] int64_t arenaBytes() const; // of one device
  [[nodiscard]] int64_t memoryLowerBound() const;
  [[nodiscard]] MemoryReport memoryReport() const;
  // Bytes of live buffers of one device after each step of the top level, by step number; -1 for steps inside regions.
  [[nodiscard]] const std::vector<int64_t>& liveBytes() const;
  // How long loading took, by phase.
  [[nodiscard]] const std::vector<Backend::Phase>& phases() const;

private:
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace dtc
