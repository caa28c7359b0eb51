#pragma once
// A program, compiled from text in memory and ready to run on tensors of the caller. The C API (dtc/dtc.h) and
// the Python package are made of this.
#include "dtc/Api/ApiError.h"
#include "dtc/Api/CompileOptions.h"
#include "dtc/Api/Describe.h"
#include "dtc/Files/Package.h"
#include "dtc/Runtime/run/BorrowedTensor.h"
#include <atomic>

namespace dtc {

// What one call runs on.
struct RunRequest {
  Borrowing tensors;
  // For the cuda backend: a CUstream. The run waits for what is enqueued there; results are complete when the
  // call returns.
  void* stream = nullptr;
  bool timed = false; // record the times of steps
  // Why the caller could not make the request, else Ok: the error of this call, of which other processes learn.
  Status made = Ok{};
};

// The kind of the record of an error that is only that symbolic sizes have no values: with shapes of arguments the
// program compiles.
inline constexpr const char* kUnboundSizesKind = "unbound-sizes";

// Where `print` statements go; by default to standard output.
struct PrintTarget {
  void (*print)(void* self, const std::string& text) = nullptr;
  void* self = nullptr;
};

// Asked between the steps of runs by their callers' threads: true ends the run.
struct InterruptQuery {
  bool (*interrupted)(void* self) = nullptr;
  void* self = nullptr;
};

// Parses a program and finds its entry, whose sizes may be symbolic. `source`: what diagnostics refer to.
[[nodiscard]] Status readEntry(SourceText, const CompileOptions&, ReadOptions&, Module&, FuncId& entry,
                               SourceText& source, Diagnostics&);

// The symbolic sizes of a function that the given shapes of arguments bind. Error (Input): an argument cannot have its
// shape; (Usage): a shape is given for an argument that is not there.
[[nodiscard]] Result<std::vector<std::pair<std::string, int64_t>>> sizesOf(const Module&, FuncId,
                                                                           const CompileOptions&);

// Thread-safe: calls of run() on one program take turns, and programs of one machine share its workers.
class CompiledProgram {
public:
  // Parses, lowers and loads a program: .dt or StableHLO text. Null: see `error`. Throws nothing.
  [[nodiscard]] static std::unique_ptr<CompiledProgram>
  compile(SourceText, const CompileOptions&, std::shared_ptr<Machine>, ApiError& error) noexcept;
  // Loads a package (Files/Package.h), whose kernels are compiled. The emulator compiles the text of one for a GPU.
  // `backend`: null for that of its compilation. Null: see `error`. Throws nothing.
  [[nodiscard]] static std::unique_ptr<CompiledProgram>
  loadPackage(const std::string& path, std::shared_ptr<Machine>, ApiError& error,
              const BackendChoice* backend = nullptr) noexcept;
  ~CompiledProgram();

  [[nodiscard]] const std::vector<TensorInfo>& arguments() const { return info_.arguments; }
  [[nodiscard]] const std::vector<TensorInfo>& results() const { return info_.results; }
  [[nodiscard]] const MeshInfo& mesh() const { return info_.mesh; }
  // The shape of a device's shard.
  [[nodiscard]] std::span<const int64_t> argumentShape(size_t i, int64_t device) const;
  [[nodiscard]] std::span<const int64_t> resultShape(size_t i, int64_t device) const;
  [[nodiscard]] const std::vector<DiagnosticRecord>& warnings() const { return warnings_; }
  [[nodiscard]] const std::string& warningText() const { return warningText_; }

  [[nodiscard]] DeviceSlice devices() const { return executable_->devices(); } // of this process

  // Sets the arguments, runs and writes the results. In several processes, all of them call it. False: see `error`. Throws nothing.
  [[nodiscard]] bool run(const RunRequest&, ApiError& error) noexcept;
  // Sets each argument of which a file of tensors has one by its name, or by its name in the imported program, and
  // returns for each argument whether it did: next runs may skip those. In several processes, all of them call it.
  // False: see `error`.
  [[nodiscard]] bool bindFile(const char* path, std::vector<bool>& bound, ApiError& error) noexcept;
  // Which arguments have a value that the next run may skip: weights of a package or a file, kept tensors.
  [[nodiscard]] std::vector<bool> setArguments();
  // Turns carried results into arguments of the next run, which then skips those. Other processes learn of an error in
  // their next call.
  [[nodiscard]] bool carryOver(ApiError& error) noexcept;
  void setPrint(PrintTarget target);
  void setInterrupt(InterruptQuery query);
  // Copied by the last run between the caller's memory and the program's.
  [[nodiscard]] int64_t copiedBytes() const noexcept { return copiedBytes_; }

  // The compiled program: the scheduled text, and its runtime. Not to be used during a run.
  [[nodiscard]] const Module& module() const { return *module_; }
  [[nodiscard]] FuncId entry() const { return entry_; }
  [[nodiscard]] Executable& executable() { return *executable_; }
  [[nodiscard]] const std::vector<Backend::Phase>& phases() const { return phases_; } // of the compilation

private:
  CompiledProgram(std::shared_ptr<Machine> machine) : machine_(std::move(machine)) {}
  [[nodiscard]] Status load(SourceText, const CompileOptions&, Diagnostics&);
  [[nodiscard]] Status read(SourceText, const CompileOptions&, Module&, FuncId& entry, Diagnostics&);
  [[nodiscard]] Status loadPackage(const std::string& path, const BackendChoice*, Diagnostics&);
  [[nodiscard]] Status makePackagedBackend(const Package&, const std::string& path, const BackendChoice*);
  [[nodiscard]] Status setWeight(const PackageWeight&, const std::string& path);
  void describe();
  template <class Fn> bool locked(ApiError& error, Fn&& fn) noexcept;
  [[nodiscard]] Status bindLocked(const char* path, std::vector<bool>& bound);
  [[nodiscard]] Status runLocked(const RunRequest&);
  [[nodiscard]] Status runTogether(const RunRequest&, const RunHooks&, const Status& ready);
  [[nodiscard]] Status prepare(const RunRequest&);
  [[nodiscard]] Status checkSkipped(const RunRequest&) const;
  [[nodiscard]] Status take(const RunRequest&);
  [[nodiscard]] Status bindTogether(const char* path, std::vector<bool>& bound);
  [[nodiscard]] Status carryOverLocked();
  [[nodiscard]] Status carryOverTogether();

  std::shared_ptr<Machine> machine_;
  std::optional<Module> module_;
  FuncId entry_;
  std::unique_ptr<CpuJit> packaged_;           // of a package for the CPU
  std::unique_ptr<Nvrtc> packagedCuda_;        // of one for a GPU
  std::shared_ptr<const FileMapping> mapping_; // likewise, if it has weights
  SourceText source_;                          // of the text, for diagnostics of a failed compilation
  bool unboundSizes_ = false;                  // why the compilation failed
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executable> executable_;
  ProgramInfo info_;
  std::vector<DiagnosticRecord> warnings_;
  std::string warningText_;
  std::vector<Backend::Phase> phases_;
  std::atomic<int64_t> copiedBytes_ = 0; // may be read during a run, also by the program's callbacks
  std::mutex mutex_;                     // guards all members below, and the executable
  std::vector<bool> set_;                // by argument: its buffer holds a value
  std::vector<bool> kept_;
  uint64_t number_ = 0; // among the programs of several processes, which all of them number alike
  PrintTarget print_;
  InterruptQuery interrupt_;
  bool hasResults_ = false; // of the last run, not carried over yet
  bool broken_ = false;     // a bug of dtc was reported: its state is unknown
};

} // namespace dtc
