#pragma once
// A training run (docs/training.md): the data of each step, its log and progress, evaluation, and
// checkpoints from which it resumes. Its caller runs the steps.
#include "dtc/Files/Checkpoint.h"
#include "dtc/Files/SampleData.h"
#include "dtc/Runtime/run/Executable.h"
#include "dtc/Train/MetricLog.h"
#include "dtc/Train/TrainProgram.h"
#include <chrono>
#include <functional>
#include <memory>

namespace dtc {

class CheckpointWriter;
using NamedNumbers = std::vector<std::pair<std::string, double>>;

struct TrainOptions {
  int64_t steps = 1;
  std::vector<DataSpec> data;
  int64_t evalEvery = 0;       // 0: after the last step only
  std::string checkpoints;     // folder; empty: none
  int64_t checkpointEvery = 0; // 0: after the last step only
  size_t keep = 2;             // checkpoints
  bool resume = false;
  std::string log;                  // file, - for `print`; empty: none
  std::vector<std::string> command; // recorded in checkpoints
  MetricLog::Print print = {};
  std::function<void(std::string_view)> progress = {}; // empty: not shown
  std::function<bool()> interrupted = [] { return false; };
  std::function<bool()> checkpointWanted = [] { return false; }; // after this step, too
  // The mean of each scalar over held-back data, with the state after the last step; empty: no evaluation.
  std::function<Result<NamedNumbers>(Executable&)> evaluate = {};
  // Of a run of several processes, which all call the functions of Training; null: one. Process 0 logs, and leads
  // the writing of checkpoints.
  Processes* processes = nullptr;
};

class Training : NonCopyable {
public:
  // Everything that can fail before the first step: opens the data, the folder of checkpoints, the log, and
  // the checkpoint to resume from. Errors: (Usage) a folder that has checkpoints, without `resume`; (Input)
  // data that do not fit, a damaged checkpoint, or one of another program or data, with the differences.
  [[nodiscard]] static Result<std::unique_ptr<Training>> open(TrainOptions, TrainProgram);
  ~Training();

  [[nodiscard]] int64_t firstStep() const { return first_; } // steps that were taken before
  [[nodiscard]] bool resumed() const { return first_ > 0; }
  // Lines about the folder of checkpoints and the one to resume from.
  [[nodiscard]] const std::string& warnings() const { return warnings_; }
  // The step after which the last checkpoint was submitted because one was asked for; 0: none.
  [[nodiscard]] int64_t wantedCheckpoint() const { return wanted_; }
  // Whether an argument is set for each step (data).
  [[nodiscard]] bool feeds(size_t argument) const;
  [[nodiscard]] const SampleFeed& feed() const { return feed_; }
  // Replaces the values of state that was read from a checkpoint, and sets the data of the first step.
  [[nodiscard]] Status bind(std::vector<TensorSource>& sources);
  // Sets the data of step `step` (from 0).
  [[nodiscard]] Status setData(Executable&, int64_t step) const;

  enum class Verdict : uint8_t { Continue, Interrupted, NotANumber, Failed };
  // After step `step`: reads its scalars, evaluates, logs, and submits a checkpoint where one is due. The verdict is that
  // of all processes. Failed: a checkpoint could not be written, for the reason that finish() returns.
  [[nodiscard]] Result<Verdict> after(Executable&, int64_t step, double seconds);
  // After the last step: waits for the last checkpoint, and closes the log.
  [[nodiscard]] Status finish();

  // --- after a NaN in step `step` --- The newest state before it as the values of arguments: a checkpoint
  // of this run, else `sources` unchanged. Returns the number of steps taken there.
  [[nodiscard]] Result<int64_t> rewind(std::vector<TensorSource>& sources, int64_t step);
  // Whether the loss or the state after a step has a NaN.
  [[nodiscard]] Result<bool> hasNan(Executable&);
  // Writes the state after `steps` steps, unless it exists: that of the last call of hasNan(), or `sources` if there was
  // none. Returns the folder; empty without checkpoints.
  [[nodiscard]] Result<std::string> keepState(int64_t steps, const std::vector<TensorSource>& sources);
  [[nodiscard]] const TrainProgram& program() const { return program_; }

private:
  Training(TrainOptions, TrainProgram);
  [[nodiscard]] bool leads() const { return !o_.processes || o_.processes->rank() == 0; }
  [[nodiscard]] ReaderShare share() const;
  [[nodiscard]] Result<bool> any(bool here) const;                          // of the processes
  [[nodiscard]] Result<std::string> ofFirst(const std::string& here) const; // what process 0 has
  [[nodiscard]] Result<NamedNumbers> scalarsOf(Executable&) const;
  [[nodiscard]] Status openFolder();
  [[nodiscard]] bool wantsCheckpoint(int64_t steps);
  [[nodiscard]] Result<std::string> leadFolder(std::unique_ptr<CheckpointFolder>& folder);
  [[nodiscard]] Status resumeFrom(const std::string& folder);
  [[nodiscard]] std::string differences(const CheckpointManifest&) const;
  [[nodiscard]] int64_t positionAt(int64_t steps) const;
  [[nodiscard]] CheckpointManifest manifestAt(int64_t steps) const;
  [[nodiscard]] Result<std::vector<PiecedTensor>> stateOf(Executable&) const;
  [[nodiscard]] Status logStep(const Executable&, int64_t steps, double seconds, const NamedNumbers& scalars,
                               const NamedNumbers& evaluated);
  void showProgress(const Executable&, int64_t steps, const NamedNumbers& scalars);

  TrainOptions o_;
  TrainProgram program_;
  SampleFeed feed_;
  int64_t first_ = 0, firstPosition_ = 0, wanted_ = 0;
  std::string warnings_;
  // A checkpoint was wanted by another process: the signal that this one gets for it, up to this time and step, is no
  // further request.
  std::chrono::steady_clock::time_point sameWishUntil_;
  int64_t sameWishStep_ = 0;
  std::vector<std::pair<size_t, TensorSource>> restored_; // by argument
  std::vector<PiecedTensor> lastState_;                   // without NaN, of hasNan()
  std::unique_ptr<MetricLog> log_;
  Status logged_ = Ok{}; // of several processes: the error of one is told to all after the next step
  std::unique_ptr<CheckpointWriter> writer_;
  std::chrono::steady_clock::time_point begin_; // of the second step that was shown
  int64_t timed_ = 0;                           // steps that were shown
};

} // namespace dtc
