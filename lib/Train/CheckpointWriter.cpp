#include "CheckpointWriter.h"

#include <new>
#include <system_error>

namespace dtc {

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return waiting_ || end_; });
    if (!waiting_) return;
    lock.unlock();
    Status s = machineError("not enough memory to write a checkpoint");
    try {
      s = folder_->write(manifest_, tensors_, keep_, *group_);
    } catch (const std::bad_alloc&) {} // leaves a temporary folder, which the next run removes
    tensors_.clear();
    lock.lock();
    waiting_ = false;
    if (!s && status_) status_ = std::move(s);
    changed_.notify_all();
  }
}

Status CheckpointWriter::submit(CheckpointManifest manifest, std::vector<PiecedTensor> tensors) {
  if (Status s = finish(); !s) return s;
  const std::lock_guard lock(mutex_);
  manifest_ = std::move(manifest);
  tensors_ = std::move(tensors);
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error&) { // no thread is available: write now
    return status_ = folder_->write(manifest_, tensors_, keep_, *group_);
  }
  waiting_ = true;
  changed_.notify_all();
  return Ok{};
}

Status CheckpointWriter::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !waiting_; });
  return status_;
}

Status CheckpointWriter::failed() {
  const std::lock_guard lock(mutex_);
  return status_;
}

} // namespace dtc
