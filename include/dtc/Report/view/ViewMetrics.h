#pragma once
// view of logs: the lines of JSON that `dtc run --log` writes, one per step, as a chart. Logs are untrusted.
#include "dtc/Support/Diagnostics.h"
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc {

// A metric of a run: its values by step; steps in which it was not logged are left out. Values may be NaN or infinite.
struct Metric {
  struct Point {
    int64_t step = 0;
    double value = 0;
  };
  std::string name;
  std::vector<Point> points;
};

struct MetricRun {
  std::string name;            // of its file
  std::vector<Metric> metrics; // in the order in which they appear
  int64_t steps = 0;           // the last one
  bool incomplete = false;     // its last line has no end: the run is being written, or was killed
  [[nodiscard]] const Metric* find(std::string_view metric) const; // null if absent
};

// Whether a text is such a log, by its first line.
[[nodiscard]] bool looksLikeMetrics(std::string_view text);
// Errors, in the diagnostics: a line that is not a JSON object with a "step", steps that do not increase, too many
// metrics, a log without a complete line.
[[nodiscard]] std::optional<MetricRun> readMetrics(const SourceText&, Diagnostics&);

// At most as many runs are drawn in one chart.
inline constexpr size_t kMaxMetricRuns = 8;

// What the runs have in common and how they differ: a panel for the loss, one for each other metric that is chosen,
// and a table. `chosen`: names of metrics; empty: the loss, other results, the rate, and the memory if it changes.
struct ViewMetrics {
  std::span<const MetricRun> runs;
  std::span<const std::string> chosen;
};
// The names of panels to choose from.
[[nodiscard]] std::vector<std::string> metricPanelNames(std::span<const MetricRun>);
[[nodiscard]] std::string metricsText(const ViewMetrics&, size_t columns);
[[nodiscard]] std::string metricsSvg(const ViewMetrics&);

} // namespace dtc
