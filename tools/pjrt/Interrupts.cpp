#include "Interrupts.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include <pthread.h>

// Functions of Python's C API, by name; jax_plugin.py fills it. The plugin is not linked with Python.
struct dtc_python_signals {
  unsigned long main_thread;
  int (*gil_ensure)();
  void (*gil_release)(int);
  int (*check_signals)();
  void (*fetch)(void** type, void** value, void** traceback);
  void (*restore)(void* type, void* value, void* traceback);
  int (*add_pending_call)(int (*)(void*), void*);
};

namespace dtc {

namespace {

std::atomic<const dtc_python_signals*> python = nullptr;

struct Raised {
  void *type = nullptr, *value = nullptr, *traceback = nullptr;
};

// What a callback of the main thread has raised, until its run raises it again.
Raised ofCallback;

// Called by Python's main thread with the interpreter's lock; -1: an exception is set.
int raiseAgain(void* raised) {
  const std::unique_ptr<Raised> r(static_cast<Raised*>(raised));
  python.load()->restore(r->type, r->value, r->traceback);
  return -1;
}

// Python has room for 32 such calls; with none left, the run's error is all that is raised.
void raiseAfterRun(const dtc_python_signals& p, const Raised& raised) {
  auto r = std::make_unique<Raised>(raised);
  Raised* given = r.release(); // to raiseAgain
  if (p.add_pending_call(raiseAgain, given) != 0) delete given;
}

} // namespace

void raiseOfCallback() {
  if (const dtc_python_signals* p = python) raiseAfterRun(*p, std::exchange(ofCallback, {}));
}

bool isInterruptedByPython(void*) {
  using Clock = std::chrono::steady_clock;
  const dtc_python_signals* p = python;
  if (!p || static_cast<unsigned long>(pthread_self()) != p->main_thread) return false;
  constexpr std::chrono::milliseconds kPeriod(50);
  static Clock::time_point asked; // by the main thread alone
  const Clock::time_point now = Clock::now();
  if (now - asked < kPeriod) return false;
  asked = now;
  const int state = p->gil_ensure();
  const bool raised = p->check_signals() != 0;
  if (raised) {
    Raised r;
    p->fetch(&r.type, &r.value, &r.traceback);
    raiseAfterRun(*p, r);
  }
  p->gil_release(state);
  return raised;
}

} // namespace dtc

// For python/dtc/jax_plugin.py. The table must live as long as the process.
extern "C" __attribute__((visibility("default"))) void
dtc_internal_set_python_signals(const dtc_python_signals* signals) {
  dtc::python = signals;
}

// For python/dtc/jax_plugin.py, in the main thread: the references of an exception that raiseOfCallback() takes.
extern "C" __attribute__((visibility("default"))) void dtc_internal_keep_raised(void* type, void* value,
                                                                                void* traceback) {
  dtc::ofCallback = {type, value, traceback};
}
