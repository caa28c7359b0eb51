#pragma once
// Writes checkpoints while the run goes on: one at a time, on a thread of its own. The threads of several processes
// write one together.
#include "dtc/Files/Checkpoint.h"
#include <condition_variable>
#include <mutex>
#include <thread>

namespace dtc {

class CheckpointWriter : NonCopyable {
public:
  CheckpointWriter(std::unique_ptr<CheckpointFolder> folder, std::unique_ptr<WriterGroup> group, size_t keep)
      : folder_(std::move(folder)), group_(std::move(group)), keep_(keep) {}
  ~CheckpointWriter(); // completes what has been submitted

  // Takes a copy of the state. Waits for the one before; its error, if it failed.
  [[nodiscard]] Status submit(CheckpointManifest manifest, std::vector<PiecedTensor> tensors);
  // Waits for the last one. Error: why it failed.
  [[nodiscard]] Status finish();
  // The error of one that has failed, without waiting.
  [[nodiscard]] Status failed();
  [[nodiscard]] const CheckpointFolder& folder() const { return *folder_; }

private:
  void loop();
  std::unique_ptr<CheckpointFolder> folder_;
  std::unique_ptr<WriterGroup> group_;
  size_t keep_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool waiting_ = false, end_ = false; // one is being written; no more will come
  CheckpointManifest manifest_;
  std::vector<PiecedTensor> tensors_;
  Status status_ = Ok{};
  std::thread thread_; // started by the first submit()
};

} // namespace dtc
