#pragma once
// DTC_CHECK failures. In the dtc binary, the driver's handler writes a reproducer, then the process exits with
// code 70. In libdtc they are exceptions, which the C API returns as errors.
#include "dtc/Support/NonCopyable.h"
#include <exception>
#include <string>

namespace dtc {

// What a failing check throws, if the handler says so. Nothing but the C API catches it; whatever the failing
// code was working on must not be used again.
class InternalError : public std::exception {
public:
  InternalError(const char* file, int line, const char* what);
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
  std::string text_;
};

// Called once, on the failing thread, before the process ends. It must not throw and should not allocate
// much.
struct BugHandler {
  void (*run)(void* self, const char* file, int line, const char* what) = nullptr;
  void* self = nullptr;
  // Throw InternalError instead, if the process is not ours to end. `run` is then not called.
  bool throws = false;
};

// Makes failing checks throw for the rest of the process: for libdtc.
void throwAtBugs();

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
