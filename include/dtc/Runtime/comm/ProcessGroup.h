#pragma once
// Processes that call the library together: each makes the same calls in the same order, and an error of one is an
// error of all. In place of exits, which end the processes of the command line (tools/dtc/Job.h).
#include "dtc/Runtime/comm/Processes.h"
#include <atomic>
#include <mutex>

namespace dtc {

class ProcessGroup {
public:
  [[nodiscard]] static Result<std::shared_ptr<ProcessGroup>> join(double timeoutSeconds);
  // Leaves, if that is yet to be done.
  ~ProcessGroup();

  [[nodiscard]] Processes& processes() { return *processes_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  // Error (Machine): a process has failed, or this one has left. With the turn.
  [[nodiscard]] Status usable() const;
  // Held during a call. Calls of several threads take turns.
  [[nodiscard]] std::unique_lock<std::mutex> turn() { return std::unique_lock(mutex_); }

  // --- The functions below are called by all processes, with the turn ---

  // All make the call `what` ("the run of gpt.dt") and none has a problem. Else an error on all: (Usage) if their calls
  // differ; (Machine) if a process has failed or left; that of a process with a problem. `mine`: the problem of this one.
  [[nodiscard]] Status agree(const std::string& what, const Status& mine = Ok{});
  // In place of a call that this process cannot make: the call that the others make fails on all, for this reason.
  void refuse(const Error& why);
  // An error of a call that is none of all processes: the problem of this one in the next call of all.
  void owe(const Error& why) { owed_ = why; }
  // The calls in which this process has taken part.
  [[nodiscard]] uint64_t calls() const { return calls_; }
  // The compilation and loading of a program, which all succeed or fail. In between, agreeOnProgram() makes sure that the
  // processes have the same document; loading may then have rounds of all processes (Processes::round).
  void beginLoad(const std::string& name);
  [[nodiscard]] Status agreeOnProgram(const std::string& document);
  [[nodiscard]] Status endLoad(const Status& mine); // the outcome on all
  // After an error in a run, of this process or another: ends the use of all processes, whose runs fail.
  void endRun(const Error& why);
  // Ends MPI when all have come here. Error (Machine): a process has not.
  [[nodiscard]] Status leave();
  // A number for the next program, the same on all processes.
  [[nodiscard]] uint64_t nextProgram() { return ++programs_; }

private:
  explicit ProcessGroup(std::unique_ptr<Processes> processes)
      : processes_(std::move(processes)), rank_(processes_->rank()), size_(processes_->size()) {}
  [[nodiscard]] Status ended(const std::string& why);
  struct Load {
    std::string what;
    // Reading: not yet at agreeOnProgram. Settled: all know the outcome. Rounds: one may fail alone.
    enum Stage : uint8_t { Reading, Settled, Rounds } stage = Reading;
  };

  std::unique_ptr<Processes> processes_;
  int rank_, size_;
  std::mutex mutex_;
  uint64_t programs_ = 0;
  std::atomic<uint64_t> calls_ = 0;
  std::optional<Error> owed_;
  Load load_;
  std::optional<Error> ended_;
};

} // namespace dtc
