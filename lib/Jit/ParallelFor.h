#pragma once
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace dtc {

// `threads`, or as many as there are cores where it is 0.
inline size_t threadCount(int threads) {
  return threads > 0 ? static_cast<size_t>(threads) : std::max(1u, std::thread::hardware_concurrency());
}

// work(i) for i in [0, n), in any order, on up to `threads` threads (0: one per core), this one among them. Compiles are
// milliseconds long, so threads are made for the call.
template <class Work> void parallelFor(size_t n, int threads, const Work& work) {
  const size_t wanted = threadCount(threads);
  std::atomic<size_t> next{0};
  auto loop = [&] {
    for (size_t i = next++; i < n; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < std::min(wanted, n); ++t) others.emplace_back(loop);
  loop();
  for (std::thread& other : others) other.join();
}

} // namespace dtc
