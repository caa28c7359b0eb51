#pragma once

namespace dtc {

// In Python's main thread, runs the handlers of signals that have come, such as Ctrl-C: true if one has raised an
// exception. It is raised again by Python when the run has ended, instead of the run's error. Called about once
// per step, by any thread.
[[nodiscard]] bool isInterruptedByPython(void*);

} // namespace dtc
