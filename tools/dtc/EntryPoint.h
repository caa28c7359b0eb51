#pragma once
// What the program dtc does, apart from what must be in its own binary (main.cpp).

namespace dtc {

// Runs the command line on the streams of the process; returns the exit code. Changes how the process handles
// signals, closed streams and freed memory.
[[nodiscard]] int mainOfDtc(int argc, char** argv);

} // namespace dtc
