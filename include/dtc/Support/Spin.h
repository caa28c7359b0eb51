#pragma once
// Waiting for another thread without sleeping, where the wait is shorter than the time to wake a thread.
#include <chrono>
#include <thread>

namespace dtc {

// How long a thread spins before it sleeps: about ten times the wake-up latency of a thread, so that all workers
// are awake for the steps of a loop.
inline constexpr auto kSpinTime = std::chrono::microseconds(100);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// False after kSpinTime. Only where each thread has a core of its own: `holds` waits for one that runs.
template <class Fn> bool spinUntil(Fn&& holds) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (holds()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// The same where threads share cores: the others run meanwhile.
template <class Fn> bool yieldUntil(Fn&& holds) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    if (holds()) return true;
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

} // namespace dtc
