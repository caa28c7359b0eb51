#pragma once
// dtc view of the logs of training runs.
#include "Environment.h"

namespace dtc {

struct ViewLogs {
  std::vector<std::string> files, metrics; // metrics: those to draw; empty: the usual ones
  std::string format, out;
  size_t columns = 80; // of text
};

// Whether a file is a log, by its name or content. Error: the standard input cannot be read.
[[nodiscard]] Result<bool> isLog(Environment&, const std::string& file);
[[nodiscard]] Result<int> viewLogs(Environment&, const ViewLogs&);

} // namespace dtc
