#pragma once
// Signals as requests to a training run, while an object exists.
#include "dtc/Support/NonCopyable.h"
#include <csignal>

namespace dtc {

// SIGINT, SIGTERM and SIGHUP ask it to end: the first one is recorded, a second one has its usual effect. A SIGHUP that
// is ignored, as by nohup, stays so. One object at a time.
class InterruptRequests : NonCopyable {
public:
  InterruptRequests();
  ~InterruptRequests();
  [[nodiscard]] static int signal(); // that was received; 0: none

private:
  struct sigaction before_[3];
};

// SIGUSR1 asks for a checkpoint, any number of times. One object at a time.
class CheckpointRequests : NonCopyable {
public:
  CheckpointRequests();
  ~CheckpointRequests();
  [[nodiscard]] static bool take(); // whether there was a signal since the last call

private:
  struct sigaction before_;
};

} // namespace dtc
