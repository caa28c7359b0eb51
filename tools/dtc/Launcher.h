#pragma once
// One attempt of a command that `dtc launch` runs: a process group of its own, to which signals are passed on.
#include "dtc/Support/Result.h"
#include <string>
#include <vector>

namespace dtc {

struct Attempt {
  int code = 0; // exit code; 128 + the signal that ended it
  double seconds = 0;
  bool stopped = false; // SIGTERM, SIGINT or SIGHUP was passed on: no further attempt
};

class Launcher {
public:
  Launcher();
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  // Runs a command and waits for it. What it leaves behind is ended, too: its process group, and on Linux all
  // descendants. If this process is killed, the process group is ended. Error (Machine): it cannot be started.
  [[nodiscard]] Result<Attempt> run(const std::vector<std::string>& words);
  // Waits; false if a signal asks to stop.
  [[nodiscard]] bool pause(double seconds);
};

// Whether a shell command succeeds.
[[nodiscard]] bool succeeds(const std::string& shellCommand);

} // namespace dtc
