#pragma once
#include "dtc/Support/Cores.h"
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace dtc {

// `threads`, or the number of cores of this process if it is 0.
inline size_t threadCount(int threads) {
  return static_cast<size_t>(threads > 0 ? threads : availableCores());
}

// Runs work(i) for i in [0, n), in any order, on up to `threads` threads (0: one per core) including the
// caller, or on fewer if the machine provides fewer. Threads are created for the call, which is cheap
// compared to compiles that take milliseconds. The first exception is rethrown when all threads have
// finished.
template <class Work> void parallelFor(size_t n, int threads, const Work& work) {
  const size_t wanted = threadCount(threads);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr thrown;
  auto loop = [&] {
    try {
      for (size_t i = next++; i < n; i = next++) work(i);
    } catch (...) {
      next = n;
      std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  others.reserve(std::min(wanted, n));
  try {
    for (size_t t = 1; t < std::min(wanted, n); ++t) others.emplace_back(loop);
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {}
  loop();
  for (std::thread& other : others) other.join();
  if (thrown) std::rethrow_exception(thrown);
}

} // namespace dtc
