#include "Interrupt.h"

#include <atomic>

namespace dtc {

constexpr int kSignals[] = {SIGINT, SIGTERM};

// A signal handler has no other state than that of the process.
static std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free);

static void (*previous[2])(int); // handlers; null: none

static void receive(int number) {
  received = number;
  for (size_t i = 0; i < 2; ++i) {
    if (kSignals[i] == number && previous[i]) previous[i](number);
    std::signal(kSignals[i], SIG_DFL); // the next one ends the process
  }
}

InterruptRequests::InterruptRequests() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = &receive;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < 2; ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    const auto handler = before_[i].sa_handler;
    previous[i] = handler == SIG_DFL || handler == SIG_IGN ? nullptr : handler;
    sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptRequests::~InterruptRequests() {
  for (size_t i = 0; i < 2; ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int InterruptRequests::signal() { return received; }

} // namespace dtc
