#include "dtc/Support/ThreadPool.h"

#include "dtc/Support/Cores.h"
#include "dtc/Support/Spin.h"

#include <algorithm>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

namespace dtc {

ThreadPool::ThreadPool(int workers) {
  const int cores = availableCores();
  if (workers <= 0) workers = cores;
  spins_ = workers <= cores;
  // If the machine provides no more threads, the existing ones do the work. (An exception from this
  // constructor would leave threads unjoined.)
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

void ThreadPool::runOnWorkers(void (*body)(void*, int), void* self) {
  std::lock_guard one(callers_);
  body_ = body;
  self_ = self;
  state_ = (state_.load(std::memory_order_relaxed) / kRound + 1) * kRound | kOpen;
  if (asleep_ > 0) { // a worker counts itself before it reads state_ for the last time
    std::lock_guard lock(mutex_);
    start_.notify_all();
  }
  runBody(body, self, 0);
  state_ &= ~kOpen;
  const auto left = [this] { return (state_.load() & kInside) == 0; };
  if (!(spins_ && spinUntil(left))) {
    std::unique_lock lock(mutex_);
    done_.wait(lock, left);
  }
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

bool ThreadPool::awaitRound(uint64_t seen) {
  const auto begun = [this, seen] { return stop_ || state_.load() / kRound != seen; };
  if (!(spins_ && spinUntil(begun))) {
    std::unique_lock lock(mutex_);
    ++asleep_;
    start_.wait(lock, begun);
    --asleep_;
  }
  return !stop_;
}

bool ThreadPool::enter(uint64_t round) {
  uint64_t now = state_.load();
  while (now / kRound == round && (now & kOpen))
    if (state_.compare_exchange_weak(now, now + 1)) return true;
  return false;
}

void ThreadPool::leave() {
  const uint64_t now = --state_;
  if ((now & (kInside | kOpen)) != 0) return;
  { std::lock_guard lock(mutex_); } // the caller checks again, or sleeps and is woken
  done_.notify_one();
}

void ThreadPool::workerMain(int worker) {
  uint64_t seen = 0;
  while (awaitRound(seen)) {
    seen = state_.load() / kRound;
    if (!enter(seen)) continue;
    runBody(body_, self_, worker);
    leave();
  }
}

} // namespace dtc
