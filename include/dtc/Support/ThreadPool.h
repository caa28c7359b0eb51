#pragma once
// The pool of worker threads: created by the driver and passed down, by default with one worker per core.
#include "dtc/Support/NonCopyable.h"
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace dtc {

class ThreadPool : NonCopyable {
public:
  // `workers` threads in total, including the caller; 0: one per core. Has fewer if the machine provides
  // fewer.
  explicit ThreadPool(int workers = 0);
  ~ThreadPool();

  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(self, 0) on this thread and body(self, worker) on each other worker that wakes up before that
  // call returns, once each; returns when all of them have returned. Bodies must therefore share the work
  // dynamically: a sleeping worker is woken, but not waited for. Not reentrant. The first exception of a body
  // is rethrown at the end; a body that others wait for must release them before it throws.
  void runOnWorkers(void (*body)(void* self, int worker), void* self);

  // Calls fn(i) once for each i in [0, n), on all workers; returns when all are done.
  template <class Fn> void parallelFor(int64_t n, Fn&& fn) {
    Loop<Fn> loop{&fn, n};
    if (n <= 1 || size() == 1) {
      Loop<Fn>::run(&loop, 0);
      return;
    }
    runOnWorkers(&Loop<Fn>::run, &loop);
  }

private:
  template <class Fn> struct Loop {
    std::remove_reference_t<Fn>* fn;
    int64_t count;
    std::atomic<int64_t> next{0};
    static void run(void* self, int) {
      auto& loop = *static_cast<Loop*>(self);
      for (int64_t i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.count;) (*loop.fn)(i);
    }
  };
  void workerMain(int worker);
  [[nodiscard]] bool awaitRound(uint64_t seen); // false: the pool is shutting down
  [[nodiscard]] bool enter(uint64_t round);     // false: the round has ended without this worker
  void leave();
  void runBody(void (*body)(void*, int), void* self, int worker) noexcept;

  // The round's number, whether it accepts workers, and how many are in it: one atomic word, so that a worker
  // either enters or finds the round closed.
  static constexpr uint64_t kInside = (uint64_t(1) << 16) - 1, kOpen = uint64_t(1) << 16,
                            kRound = uint64_t(1) << 17;
  alignas(64) std::atomic<uint64_t> state_{0};
  // workers that wait for start_, and the caller if it waits for done_
  alignas(64) std::atomic<int> asleep_{0};
  std::atomic<bool> stop_{false};
  bool spins_ = true; // each worker has a core of its own
  void (*body_)(void*, int) = nullptr;
  void* self_ = nullptr;
  std::mutex callers_; // serializes runOnWorkers
  std::mutex mutex_;   // for sleeping, and thrown_
  std::condition_variable start_, done_;
  std::exception_ptr thrown_; // of this round
  std::vector<std::thread> threads_;
};

} // namespace dtc
