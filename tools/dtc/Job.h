#pragma once
// A run of several processes (--comm mpi): process 0 speaks, and all end with the same exit code.
#include "Environment.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/IR/Module.h"
#include "dtc/Runtime/comm/Communicator.h"
#include "dtc/Runtime/comm/SameProgram.h"
#include <memory>

namespace dtc {

class Job {
public:
  // From now on, processes other than 0 write nothing. `folders`: a line for each file that they
  // write together. Error (Usage): the processes have other versions, arguments or folders.
  [[nodiscard]] static Result<std::unique_ptr<Job>> open(Environment&, double timeoutSeconds,
                                                         const std::string& comm, const std::string& folders);

  [[nodiscard]] Processes& processes() { return *processes_; }
  [[nodiscard]] bool speaks() const { return processes_->rank() == 0; }
  [[nodiscard]] ReaderShare share() const { return {processes_->rank(), processes_->size()}; }
  // How to start as many processes, before a command line.
  [[nodiscard]] std::string starter() const {
    return "mpirun -n " + std::to_string(processes_->size()) + " ";
  }
  // Cores for each process of this host.
  [[nodiscard]] int threads() const { return threadsOfProcess(*processes_); }

  // Before the first step: all processes are ready and have the same files (lines that describe them) and program (its
  // source, and as it is scheduled); their clocks are compared. Error (Usage): they differ, with the first line that
  // does; or the error of another process.
  [[nodiscard]] Status start(const Module& scheduled, const std::string& files, Communicator& communicator);
  // The status of process 0, which checks something for all, on all.
  [[nodiscard]] Status ofFirst(const Status& mine);
  // All messages of a run have arrived.
  void ran() { phase_ = Phase::Ran; }
  // Before an error of this process is reported: mutes it if another process reports the failure.
  void failed(Environment&);
  // The error of a step of the program: the failure of the processes itself, if this one has waited longest elsewhere.
  [[nodiscard]] Status failureOf(const Status& step, const std::string& source) const;
  // Before another entry of the program.
  void next() { phase_ = Phase::Loading; }
  // The exit code of all processes after an entry that is not the last one. An error that ends the others is not told yet.
  [[nodiscard]] Result<int> codeOfAll(Environment&, int code);
  // The exit code of all processes, given that of this one.
  [[nodiscard]] int finish(Environment&, int code);

private:
  Job(std::unique_ptr<Processes> processes, ProcessTransport by)
      : processes_(std::move(processes)), by_(by) {}
  [[nodiscard]] Status agree(const std::string& document);
  [[nodiscard]] Status different(const std::string& document);
  void tellWhose(Environment&, std::optional<int> without) const;
  [[nodiscard]] int worstOf(Environment&, int code, const std::vector<std::string>& codes) const;
  [[noreturn]] void abort(Environment&, int code);

  std::unique_ptr<Processes> processes_;
  ProcessTransport by_;
  bool failureTold_ = false; // the failure of the processes is reported, by this one or another
  enum class Phase : uint8_t { Loading, Running, Ran } phase_ = Phase::Loading;
};

} // namespace dtc
