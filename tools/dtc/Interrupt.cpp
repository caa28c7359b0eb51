#include "Interrupt.h"

#include <atomic>
#include <iterator>

namespace dtc {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// A signal handler has no other state than that of the process.
static std::atomic<int> received = 0;
static std::atomic<bool> checkpointWanted = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

static void (*previous[std::size(kSignals)])(int); // handlers; null: none

static void receive(int number) {
  received = number;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    if (kSignals[i] == number && previous[i]) previous[i](number);
    struct sigaction now = {};
    sigaction(kSignals[i], nullptr, &now);
    if (now.sa_handler == &receive) std::signal(kSignals[i], SIG_DFL); // the next one ends the process
  }
}

InterruptRequests::InterruptRequests() {
  received = 0;
  struct sigaction action = {};
  action.sa_handler = &receive;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    const auto handler = before_[i].sa_handler;
    previous[i] = handler == SIG_DFL || handler == SIG_IGN ? nullptr : handler;
    const bool ignored = kSignals[i] == SIGHUP && handler == SIG_IGN;
    if (!ignored) sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptRequests::~InterruptRequests() {
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int InterruptRequests::signal() { return received; }

CheckpointRequests::CheckpointRequests() {
  checkpointWanted = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { checkpointWanted = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, &before_);
}

CheckpointRequests::~CheckpointRequests() { sigaction(SIGUSR1, &before_, nullptr); }

bool CheckpointRequests::take() { return checkpointWanted.exchange(false); }

} // namespace dtc
