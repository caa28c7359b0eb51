#pragma once
// Lowers, loads and runs a program. Shared by `dtc run`, `compile`, `explain`, `view` and the checks.
#include "dtc/IR/LocalShape.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Passes/pipeline/StandardPipeline.h"
#include "dtc/Runtime/backend/cuda/CudaBackend.h"
#include "dtc/Runtime/comm/ProcessGroup.h"
#include "dtc/Runtime/run/Executable.h"
#include "dtc/Support/ThreadPool.h"
#include <memory>
#include <mutex>
#include <vector>

namespace dtc {

// Stages of the pipeline. A text may begin at any level; passes that it does not need are skipped.
enum class Stage : uint8_t {
  Text,
  Reference,  // unsharded, gradients and complex numbers rewritten: the input of the reference evaluator
  Closed,     // ready for propagate
  Propagated, // every value has a sharding that its op accepts
  Local,      // the per-device program, still independent of the target
  Placed      // scheduled, with memory offsets: ready to be loaded
};

// One entry function of a module and its callees.
class Session {
public:
  // Removes functions that the entry does not reach.
  Session(Module m, FuncId entry, StandardPipelineOptions options = {});

  // Runs the remaining passes up to `to`. Errors in the program are reported as diagnostics, with an empty
  // error message. Error (Input): a fixed reduction order needs a global program, or one that was compiled
  // with it.
  [[nodiscard]] Status lower(Stage to, Diagnostics&);
  // Requires Stage::Placed.
  [[nodiscard]] Result<std::unique_ptr<Executable>> load(Backend&, ThreadPool&,
                                                         const Executable::Options& = {});

  [[nodiscard]] Module& module() { return m_; }
  [[nodiscard]] const Module& module() const { return m_; }
  [[nodiscard]] FuncId entry() const { return entry_; }
  [[nodiscard]] int64_t numDevices() const { return meshValueOf(m_, entry_).numDevices(); }

  PipelineHooks hooks; // `state` is set by the session
  // Selects passes to skip; empty: none.
  std::function<bool(const PassStep&)> skips;

private:
  [[nodiscard]] bool hasFixedOrder() const;
  struct Step {
    PassStep step;
    Stage produces;
  };
  Module m_;
  FuncId entry_;
  std::string name_;
  bool fixedOrderOfLocal_;  // fixed reduction order requested for a program that is already propagated
  std::vector<Step> steps_; // the passes needed from the text's level
  size_t next_ = 0;         // index into steps_
  PipelineState state_;
};

struct BackendChoice {
  std::string name = "cpu"; // or "cuda-emu", "cuda"
  int optLevel = 1;
  bool emulatorChecks = true;
  CudaOptions cuda = {};
  // --comm mpi, with the backend cpu: the processes of the run, which share the devices of the mesh equally.
  Processes* processes = nullptr;
  bool fixedReductionOrder = false;
};

// The JIT, thread pool and libraries of this machine; must outlive the backends that it creates.
class Machine {
public:
  explicit Machine(int threads = 0, JitConfig config = {}) : pool(threads), jit(config), config_(config) {}
  // `numDevices`: number of devices of the mesh. Thread-safe. Error (Machine): no GPU, or a requested library
  // is missing.
  [[nodiscard]] Result<std::unique_ptr<Backend>> backend(const BackendChoice&, int64_t numDevices);
  ThreadPool pool;
  CpuJit jit;
  std::shared_ptr<ProcessGroup> group; // null: programs run in this process alone

private:
  JitConfig config_;
  std::mutex mutex_;             // for nvrtc_
  std::unique_ptr<Nvrtc> nvrtc_; // opened for the cuda backend
};

// Sets the arguments, runs the program and returns its results. `again`: not the first run, sets only
// arguments that the last run may have overwritten.
[[nodiscard]] Result<std::vector<Tensor>> runOnce(Executable&, std::span<const Tensor> arguments, bool again);

} // namespace dtc
