#pragma once
// What happens when a DTC_CHECK fails: the driver's handler writes a reproducer, then the process exits 70.

namespace dtc {

// Called once, on the thread that failed, before the process ends. It must not throw and should not allocate much.
struct BugHandler {
  void (*run)(void* self, const char* file, int line, const char* what) = nullptr;
  void* self = nullptr;
};

// Sets the handler for the life of this object and puts the one before it back. The process has one: a check that fails
// deep in a worker thread has no environment to ask. `handler` must outlive the scope.
class BugHandlerScope {
public:
  explicit BugHandlerScope(const BugHandler& handler);
  ~BugHandlerScope();
  BugHandlerScope(const BugHandlerScope&) = delete;
  BugHandlerScope& operator=(const BugHandlerScope&) = delete;

private:
  const BugHandler* before_;
};

inline constexpr int kBugExitCode = 70; // EX_SOFTWARE of sysexits.h

} // namespace dtc
