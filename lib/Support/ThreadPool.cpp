#include "dtc/Support/ThreadPool.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

namespace dtc {

ThreadPool::ThreadPool(int workers) {
  if (workers <= 0) workers = static_cast<int>(std::thread::hardware_concurrency());
  // Where the machine gives no more threads the work is done by those that there are. (An exception that left this
  // constructor would find threads that nobody joins.)
  try {
    threads_.reserve(static_cast<size_t>(std::max(workers, 1)));
    for (int i = 1; i < workers; ++i) threads_.emplace_back([this, i] { workerMain(i); });
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {}
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::runBody(void (*body)(void*, int), void* self, int worker) noexcept {
  try {
    body(self, worker);
  } catch (...) {
    std::lock_guard lock(mutex_);
    if (!thrown_) thrown_ = std::current_exception();
  }
}

void ThreadPool::runOnAll(void (*body)(void*, int), void* self) {
  std::lock_guard one(callers_);
  {
    std::lock_guard lock(mutex_);
    body_ = body;
    self_ = self;
    running_ = static_cast<int>(threads_.size());
    ++round_;
  }
  start_.notify_all();
  runBody(body, self, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::workerMain(int worker) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    auto* body = body_;
    void* self = self_;
    lock.unlock();
    runBody(body, self, worker);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

} // namespace dtc
