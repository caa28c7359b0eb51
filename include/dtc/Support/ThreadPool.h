#pragma once
// The one pool of worker threads: made by the driver, handed down, as many workers as the machine has cores.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace dtc {

class ThreadPool {
public:
  // `workers` threads in all, the caller's included; 0: as many as there are cores. Where the machine gives fewer
  // threads, the pool has those.
  explicit ThreadPool(int workers = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(self, 0) here and body(self, worker) on each other worker that is awake before that call returns, once each;
  // returns when all that began have returned. So the bodies must share the work among as many as come: a worker that sleeps is
  // woken, but not waited for. One call at a time: a body must not call it again. Of the exceptions that leave bodies the first
  // is thrown then; a body that others wait for must let them go before it throws.
  void runOnWorkers(void (*body)(void* self, int worker), void* self);

  // Calls fn(i) for each i in [0, n), each once, on all workers; returns when all are done.
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
  [[nodiscard]] bool awaitRound(uint64_t seen); // false: the pool ends
  [[nodiscard]] bool enter(uint64_t round);     // false: the round has ended without this worker
  void leave();
  void runBody(void (*body)(void*, int), void* self, int worker) noexcept;

  // The round's number, whether it is open for workers, and how many are in it: one word, so that a worker enters or finds the
  // round closed, never in between.
  static constexpr uint64_t kInside = (uint64_t(1) << 16) - 1, kOpen = uint64_t(1) << 16,
                            kRound = uint64_t(1) << 17;
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int> asleep_{0}; // workers that wait for start_, or the caller for done_
  std::atomic<bool> stop_{false};
  bool spins_ = true; // each worker has a core of its own
  void (*body_)(void*, int) = nullptr;
  void* self_ = nullptr;
  std::mutex callers_; // serialises runOnWorkers
  std::mutex mutex_;   // for sleeping, and thrown_
  std::condition_variable start_, done_;
  std::exception_ptr thrown_; // of this round
  std::vector<std::thread> threads_;
};

} // namespace dtc
