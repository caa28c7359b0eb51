#pragma once
// The table of `--timing`: the duration of each phase.
#include <chrono>
#include <string>
#include <vector>

namespace dtc {

class Timing {
public:
  void add(std::string phase, double milliseconds) { rows_.push_back({std::move(phase), milliseconds}); }
  // "//     0.312 ms   4.1 %  parse", one line per phase in the order added, then the total.
  [[nodiscard]] std::string table() const;

private:
  struct Row {
    std::string phase;
    double milliseconds = 0;
  };
  std::vector<Row> rows_;
};

// Milliseconds between successive calls of lap().
class LapClock {
public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

} // namespace dtc
