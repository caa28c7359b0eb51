#pragma once
// What charts of logs show, as text and as SVG: panels with their axes and curves, and a table of the runs.
#include "dtc/Report/view/ViewMetrics.h"
#include "view/Axis.h"

namespace dtc {

// A line of one run in a panel.
struct MetricCurve {
  size_t run = 0;
  bool heldBack = false; // evaluated on held-back data
  std::vector<Metric::Point> raw, mean;
  [[nodiscard]] const std::vector<Metric::Point>& best() const { return mean.empty() ? raw : mean; }
};

struct MetricPanel {
  std::string metric, title; // "rate", "learning rate"
  Axis x = {}, y = {};
  std::vector<MetricCurve> curves = {};
};

// The first is the largest: the loss, if there is one. `count`: the ticks of a large panel, across and up.
[[nodiscard]] std::vector<MetricPanel> metricPanels(const ViewMetrics&, int across, int up);

// The table: a title line and one for each run.
struct MetricTable {
  std::vector<std::string> titles;
  std::vector<std::vector<std::string>> rows;
  size_t results = 0; // the first column of results, as opposed to measurements
  bool means = false; // training results are means over a hundredth of the steps
};
[[nodiscard]] MetricTable metricTable(const ViewMetrics&);

} // namespace dtc
