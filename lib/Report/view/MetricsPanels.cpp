#include "view/MetricsPanels.h"

#include "dtc/Support/Units.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace dtc {
namespace {

using Points = std::vector<Metric::Point>;
constexpr std::string_view kHeldBack = "eval_", kMemory = "peak_bytes", kSeconds = "seconds";
constexpr std::string_view kRates[] = {"tokens_per_s", "samples_per_s"};
constexpr size_t kMostPanels = 9, kMostColumns = 2;

// How metrics with a meaning of their own are drawn; all others are results of the program.
struct KnownMetric {
  std::string_view name;
  const char* title;
  bool result; // of the program, as opposed to a measurement of dtc
};
constexpr KnownMetric kKnown[] = {
    {"rate", "learning rate", true},          {"lr", "learning rate", true},
    {"learning_rate", "learning rate", true}, {kRates[0], "tokens per second", false},
    {kRates[1], "samples per second", false}, {kMemory, "memory of a device", false},
    {kSeconds, "seconds per step", false},
};

const KnownMetric* knownMetric(std::string_view name) {
  const auto found = std::ranges::find(kKnown, name, &KnownMetric::name);
  return found == std::end(kKnown) ? nullptr : found;
}

// The metric that a held-back one belongs to.
std::string_view baseOf(std::string_view name) {
  return name.starts_with(kHeldBack) && name.size() > kHeldBack.size() ? name.substr(kHeldBack.size()) : name;
}

bool constant(const Metric& m) {
  return std::ranges::all_of(m.points, [&](const Metric::Point& p) { return p.value == m.points[0].value; });
}

// The panels' metrics: the loss, other results, the learning rate, then measurements.
std::vector<std::string> allPanels(std::span<const MetricRun> runs) {
  std::vector<std::string> results, rates, measured;
  for (const MetricRun& run : runs)
    for (const Metric& m : run.metrics) {
      const std::string base(baseOf(m.name));
      const KnownMetric* known = knownMetric(base);
      auto& list = !known ? results : known->result ? rates : measured;
      if (std::ranges::find(list, base) == list.end()) list.push_back(base);
    }
  const auto loss = std::ranges::find(results, "loss");
  if (loss != results.end()) std::rotate(results.begin(), loss, loss + 1);
  for (const auto* list : {&rates, &measured}) results.insert(results.end(), list->begin(), list->end());
  return results;
}

std::vector<std::string> chosenPanels(const ViewMetrics& v) {
  std::vector<std::string> all = allPanels(v.runs);
  if (!v.chosen.empty()) {
    const bool every = std::ranges::find(v.chosen, "*") != v.chosen.end();
    std::erase_if(all, [&](const std::string& name) {
      return !every && std::ranges::find(v.chosen, name) == v.chosen.end();
    });
    return all;
  }
  const auto idle = [&](const std::string& name) {
    if (name != kMemory && name != kSeconds) return false;
    const auto flat = [&](const MetricRun& r) { return !r.find(name) || constant(*r.find(name)); };
    const auto rated = [](const MetricRun& r) { return r.find(kRates[0]) || r.find(kRates[1]); };
    return name == kMemory ? std::ranges::all_of(v.runs, flat) : std::ranges::all_of(v.runs, rated);
  };
  std::erase_if(all, idle);
  if (all.size() > kMostPanels) all.resize(kMostPanels);
  return all;
}

// Over how many steps a mean is taken: a hundredth of them.
size_t meanSteps(size_t points) { return std::max<size_t>((points + 50) / 100, 1); }

// Means around each point of so many points; of fewer at the ends, symmetrically. Values that are not finite are left out.
Points meansOf(const Points& points, size_t steps) {
  const size_t n = points.size(), half = steps / 2;
  std::vector<double> sums(n + 1, 0), counts(n + 1, 0);
  for (size_t i = 0; i < n; ++i) {
    const bool finite = std::isfinite(points[i].value);
    sums[i + 1] = sums[i] + (finite ? points[i].value : 0);
    counts[i + 1] = counts[i] + (finite ? 1 : 0);
  }
  Points means;
  for (size_t i = 0; i < n; ++i) {
    const size_t reach = std::min({half, i, n - 1 - i});
    const double count = counts[i + reach + 1] - counts[i - reach],
                 sum = sums[i + reach + 1] - sums[i - reach];
    means.push_back({points[i].step, std::isfinite(points[i].value) ? sum / count : points[i].value});
  }
  return means;
}

// The finite values of a panel.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double v) {
    if (!std::isfinite(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  [[nodiscard]] bool empty() const { return low > high; }
};

// All panels have the same steps.
Axis stepAxis(const ViewMetrics& v, int ticks) {
  Range range;
  for (const MetricRun& run : v.runs)
    for (const Metric& m : run.metrics)
      for (const Metric::Point& p : {m.points.front(), m.points.back()})
        range.add(static_cast<double>(p.step));
  if (range.empty()) range = {0, 1};
  if (range.low <= 0.05 * range.high || range.low == range.high) range.low = 0;
  range.high = std::max(range.high, range.low + 1);
  const double most = std::min(range.high - range.low, static_cast<double>(ticks)); // steps are whole numbers
  return linearAxis(range.low, range.high, static_cast<int>(most), AxisEnds::Exact);
}

// The unit of a panel, by which its values are divided: of memory, by the largest value.
struct PanelUnit {
  double size = 1;
  const char* name = "";
};
PanelUnit unitOfPanel(const ViewMetrics& v, const std::string& name) {
  if (name != kMemory) return {};
  Range range;
  for (const MetricRun& run : v.runs)
    if (const Metric* m = run.find(name))
      for (const Metric::Point& p : m->points) range.add(p.value);
  constexpr PanelUnit kUnits[] = {{1 << 30, " (GiB)"}, {1 << 20, " (MiB)"}};
  for (const PanelUnit& u : kUnits)
    if (range.high >= 10 * u.size) return u;
  return {1 << 10, " (KiB)"};
}

Axis valueAxis(const MetricPanel& panel, int ticks) {
  constexpr double kManyTimes = 50; // between the ends of a logarithmic axis
  Range range;
  for (const MetricCurve& c : panel.curves)
    for (const Metric::Point& p : c.raw) range.add(p.value);
  if (range.empty()) range = {0, 1};
  const bool known = knownMetric(panel.metric);
  if (known) range.add(0);
  const bool usual = range.low >= 1e-100 && range.high <= 1e100; // denormals have no neighbors in log space
  if (!known && usual && range.high / range.low >= kManyTimes) return logAxis(range.low, range.high, ticks);
  return linearAxis(range.low, range.high, ticks, AxisEnds::Round);
}

MetricPanel panelOf(const ViewMetrics& v, const std::string& name, int across, int up) {
  const KnownMetric* known = knownMetric(name);
  const PanelUnit unit = unitOfPanel(v, name);
  MetricPanel panel{.metric = name, .title = known ? known->title + std::string(unit.name) : name};
  for (const bool heldBack : {false, true})
    for (size_t r = 0; r < v.runs.size(); ++r) {
      const Metric* m = v.runs[r].find((heldBack ? std::string(kHeldBack) : "") + name);
      if (!m) continue;
      MetricCurve curve{.run = r, .heldBack = heldBack, .raw = m->points, .mean = {}};
      for (Metric::Point& p : curve.raw) p.value /= unit.size;
      const size_t steps = meanSteps(curve.raw.size());
      if (!heldBack && steps > 1) curve.mean = meansOf(curve.raw, steps);
      panel.curves.push_back(std::move(curve));
    }
  panel.x = stepAxis(v, across);
  panel.y = valueAxis(panel, up);
  return panel;
}

// --- the table ---

std::string durationText(double seconds) {
  if (seconds < 120) return significant(seconds, 3) + " s";
  if (seconds < 7200) return significant(seconds / 60, 3) + " min";
  return significant(seconds / 3600, 3) + " h";
}

std::string timeCell(const MetricRun& run) {
  const Metric* seconds = run.find(kSeconds);
  if (!seconds) return "";
  double total = 0;
  for (const Metric::Point& p : seconds->points) total += std::isfinite(p.value) ? p.value : 0;
  return durationText(total);
}

// The median.
std::string rateCell(const MetricRun& run, std::string_view name) {
  const Metric* rate = run.find(name);
  std::vector<double> values;
  for (const Metric::Point& p : rate ? rate->points : Points())
    if (std::isfinite(p.value)) values.push_back(p.value);
  if (values.empty()) return "";
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return shortCount(*middle);
}

std::string memoryCell(const MetricRun& run) {
  const Metric* peak = run.find(kMemory);
  double most = 0;
  for (const Metric::Point& p : peak ? peak->points : Points())
    if (std::isfinite(p.value)) most = std::max(most, p.value);
  return most > 0 && most < 9e18 ? bytesText(static_cast<int64_t>(most)) : "";
}

// The mean of the last steps; NaN, if the last one is.
std::string lastCell(const MetricRun& run, const std::string& name, bool heldBack) {
  const Metric* m = run.find((heldBack ? std::string(kHeldBack) : "") + name);
  if (!m) return "";
  const Points& points = m->points;
  const size_t steps = heldBack ? 1 : meanSteps(points.size());
  double sum = 0;
  for (size_t i = points.size() - steps; i < points.size(); ++i) sum += points[i].value;
  const double mean =
      std::isfinite(points.back().value) ? sum / static_cast<double>(steps) : points.back().value;
  char text[32];
  const double size = std::abs(mean);
  std::snprintf(text, sizeof text, size >= 0.1 && size < 10 ? "%.3f" : "%.4g", mean);
  return std::isfinite(mean) ? text : std::isnan(mean) ? "nan" : mean > 0 ? "inf" : "-inf";
}

// The file's name without its extension.
std::string nameOf(const MetricRun& run) {
  constexpr std::string_view kExtension = ".jsonl";
  const bool plain = run.name.ends_with(kExtension) && run.name.size() > kExtension.size();
  return plain ? run.name.substr(0, run.name.size() - kExtension.size()) : run.name;
}

size_t mostPoints(const ViewMetrics& v, const std::string& name) {
  size_t most = 0;
  for (const MetricRun& run : v.runs)
    if (const Metric* m = run.find(name)) most = std::max(most, m->points.size());
  return most;
}

} // namespace

std::vector<std::string> metricPanelNames(std::span<const MetricRun> runs) { return allPanels(runs); }

std::vector<MetricPanel> metricPanels(const ViewMetrics& v, int across, int up) {
  std::vector<MetricPanel> panels;
  for (const std::string& name : chosenPanels(v)) {
    const int part = panels.empty() ? 1 : 2;
    panels.push_back(panelOf(v, name, across / part, up / part));
  }
  return panels;
}

MetricTable metricTable(const ViewMetrics& v) {
  MetricTable table{.titles = {"run"}, .rows = {}};
  for (const MetricRun& run : v.runs) table.rows.push_back({nameOf(run)});
  const auto column = [&](const std::string& title, const auto& cell) {
    std::vector<std::string> cells;
    for (const MetricRun& run : v.runs) cells.push_back(cell(run));
    if (std::ranges::all_of(cells, &std::string::empty)) return;
    table.titles.push_back(title);
    for (size_t r = 0; r < cells.size(); ++r) table.rows[r].push_back(cells[r].empty() ? "-" : cells[r]);
  };
  column("steps", [](const MetricRun& r) { return std::to_string(r.steps); });
  column("time", timeCell);
  column("tokens/s", [](const MetricRun& r) { return rateCell(r, kRates[0]); });
  column("samples/s", [](const MetricRun& r) { return rateCell(r, kRates[1]); });
  column("memory", memoryCell);
  table.results = table.titles.size();
  std::vector<std::string> results = chosenPanels(v);
  std::erase_if(results, [](const std::string& name) { return knownMetric(name); });
  if (results.size() > kMostColumns) results.resize(kMostColumns);
  size_t points = 0;
  for (const std::string& name : results) {
    points = std::max(points, mostPoints(v, name));
    column(name, [&](const MetricRun& r) { return lastCell(r, name, false); });
    column("held-back " + name, [&](const MetricRun& r) { return lastCell(r, name, true); });
  }
  table.means = meanSteps(points) > 1;
  return table;
}

} // namespace dtc
