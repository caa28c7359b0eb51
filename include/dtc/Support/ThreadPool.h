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

  // Calls body(self, worker) once on each worker, the caller being worker 0; returns when all have returned. One at a
  // time: a body must not call it again. Of the exceptions that leave bodies the first is thrown then; a body that others
  // wait for must let them go before it throws.
  void runOnAll(void (*body)(void* self, int worker), void* self);

  // Calls fn(i) for each i in [0, n), each once, on all workers; returns when all are done.
  template <class Fn> void parallelFor(int64_t n, Fn&& fn) {
    Loop<Fn> loop{&fn, n};
    if (n <= 1 || size() == 1) {
      Loop<Fn>::run(&loop, 0);
      return;
    }
    runOnAll(&Loop<Fn>::run, &loop);
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
  void runBody(void (*body)(void*, int), void* self, int worker) noexcept;

  std::mutex callers_; // serialises runOnAll
  std::mutex mutex_;
  std::condition_variable start_, done_;
  void (*body_)(void*, int) = nullptr;
  void* self_ = nullptr;
  uint64_t round_ = 0; // counts runOnAll calls; a worker runs each round once
  int running_ = 0;
  bool stop_ = false;
  std::exception_ptr thrown_; // of this round
  std::vector<std::thread> threads_;
};

} // namespace dtc
