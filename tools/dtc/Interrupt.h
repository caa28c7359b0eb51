#pragma once
// SIGINT and SIGTERM as a request to end, while an object exists.
#include "dtc/Support/NonCopyable.h"
#include <csignal>

namespace dtc {

// The first signal is recorded; a second one has its usual effect. One object at a time.
class InterruptRequests : NonCopyable {
public:
  InterruptRequests();
  ~InterruptRequests();
  [[nodiscard]] static int signal(); // that was received; 0: none

private:
  struct sigaction before_[2];
};

} // namespace dtc
