#pragma once
// What `dtc run` tells `dtc launch` about its exit code. That of mpirun does not say whether it is that of a process.
#include "dtc/Support/NonCopyable.h"
#include <string>
#include <vector>

namespace dtc {

// In place of a code: a signal has stopped a training run, and its checkpoint is complete.
inline constexpr int kReportStopped = -1;

// Called at the end of `dtc run`. Does nothing unless `dtc launch` on this host has started it.
void reportExit(int code);

// The reports of the processes that this one starts, in a temporary file. One object at a time.
class ExitReports : NonCopyable {
public:
  ExitReports(); // if the file cannot be created, nothing is reported
  ~ExitReports();
  [[nodiscard]] std::vector<int> take(); // codes since the last call

private:
  std::string path_;
};

} // namespace dtc
