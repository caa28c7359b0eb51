#pragma once
// DTC_CHECK failures: the driver's handler writes a reproducer, then the process exits with code 70.
#include "dtc/Support/NonCopyable.h"

namespace dtc {

// Called once, on the failing thread, before the process ends. It must not throw and should not allocate
// much.
struct BugHandler {
  void (*run)(void* self, const char* file, int line, const char* what) = nullptr;
  void* self = nullptr;
};

// Installs the handler for the lifetime of this object and then restores the previous one. The handler is
// process-wide, because a check that fails in a worker thread has no access to an environment. `handler` must
// outlive the scope.
class BugHandlerScope : NonCopyable {
public:
  explicit BugHandlerScope(const BugHandler& handler);
  ~BugHandlerScope();

private:
  const BugHandler* before_;
};

inline constexpr int kBugExitCode = 70; // EX_SOFTWARE of sysexits.h

} // namespace dtc
