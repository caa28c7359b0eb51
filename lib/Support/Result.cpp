#include "dtc/Support/Result.h"
#include "dtc/Support/Bug.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace dtc {
namespace {
// The only mutable global of dtc (see Bug.h for the reason).
std::atomic<const BugHandler*> bugHandler = nullptr;
} // namespace

// Where failing checks throw, they keep doing so: the process is not the driver's.
BugHandlerScope::BugHandlerScope(const BugHandler& handler) : before_(bugHandler.load()) {
  if (!before_ || !before_->throws) bugHandler = &handler;
}
BugHandlerScope::~BugHandlerScope() { bugHandler.store(before_); }

InternalError::InternalError(const char* file, int line, const char* what)
    : text_(std::string("internal error: ") + what + " (" + file + ":" + std::to_string(line) +
            "); this is a bug of dtc, not of your program") {}

void throwAtBugs() {
  static const BugHandler handler{.throws = true};
  bugHandler = &handler;
}

void bugAt(const char* file, int line, const char* what) {
  if (const BugHandler* h = bugHandler.load(); h && h->throws) throw InternalError(file, line, what);
  endAtBug(file, line, what);
}

void endAtBug(const char* file, int line, const char* what) noexcept {
  std::fflush(stdout);
  std::fprintf(stderr, "dtc: internal error: %s (%s:%d)\nThis is a bug of dtc, not of your program.\n", what,
               file, line);
  // Cleared first, so that a check that fails inside the handler ends the process instead of recursing.
  if (const BugHandler* h = bugHandler.exchange(nullptr); h && h->run) h->run(h->self, file, line, what);
  std::fflush(stderr);
  std::_Exit(kBugExitCode); // other threads may still run: no destructors
}

} // namespace dtc
