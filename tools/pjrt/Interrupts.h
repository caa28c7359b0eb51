#pragma once

namespace dtc {

// In Python's main thread, runs the handlers of signals that have come, such as Ctrl-C: true if one has raised an
// exception. It is raised again by Python when the run has ended, instead of the run's error. Called about once
// per step, by any thread.
[[nodiscard]] bool isInterruptedByPython(void*);

// A callback in Python's main thread has ended with an exception that is not an error of the program, such as
// KeyboardInterrupt. Python raises it again when the run has ended. Called when the callback has returned.
void raiseOfCallback();

} // namespace dtc
