// Charts of logs as text for a terminal: the first panel, or those that are chosen, and the table.
#include "view/MetricsPanels.h"

#include <algorithm>
#include <cmath>

namespace dtc {
namespace {

constexpr size_t kRows = 16;

// The mark of a curve: of a single run . and o, of several a and A, b and B, ….
char markOf(const ViewMetrics& v, size_t run, bool heldBack) {
  if (v.runs.size() == 1) return heldBack ? 'o' : '.';
  return static_cast<char>((heldBack ? 'A' : 'a') + static_cast<int>(run));
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string blanks(width - std::min(width, text.size()), ' ');
  return right ? blanks + text : text + blanks;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string tableText(const ViewMetrics& v) {
  MetricTable table = metricTable(v);
  const bool heldBack =
      std::ranges::any_of(table.titles, [](const std::string& t) { return t.starts_with("held-back "); });
  table.titles[0] = "   " + table.titles[0];
  for (size_t r = 0; r < table.rows.size(); ++r)
    table.rows[r][0] =
        std::string(1, markOf(v, r, false)) + (heldBack ? markOf(v, r, true) : ' ') + " " + table.rows[r][0];
  std::vector<size_t> widths;
  for (size_t c = 0; c < table.titles.size(); ++c) {
    widths.push_back(table.titles[c].size());
    for (const auto& cells : table.rows) widths[c] = std::max(widths[c], cells[c].size());
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t c = 0; c < cells.size(); ++c) line += (c ? "  " : "") + padded(cells[c], widths[c], c > 0);
    text += trimmed(line);
  };
  add(table.titles);
  for (const auto& cells : table.rows) add(cells);
  return text + (table.means ? "   results are means over 1 % of the steps\n" : "");
}

class TextPlot {
public:
  TextPlot(const ViewMetrics& v, const MetricPanel& panel, size_t columns) : v_(v), panel_(panel) {
    for (const Axis::Tick& t : panel.y.ticks) label_ = std::max(label_, t.label.size());
    width_ = std::max<size_t>(columns > label_ + 4 ? columns - label_ - 4 : 0, 20);
    lines_.assign(kRows, std::string(width_, ' '));
  }

  std::string draw() {
    for (const MetricCurve& c : panel_.curves) put(c);
    std::string text = "\n" + panel_.title + "\n";
    std::vector<std::string> labels(kRows);
    for (const Axis::Tick& t : panel_.y.ticks) labels[rowOf(t.at)] = t.label;
    for (size_t r = 0; r < kRows; ++r)
      text += trimmed(padded(labels[r], label_ + 1, true) + (labels[r].empty() ? " |" : " +") + lines_[r]);
    return text + below();
  }

private:
  static size_t rowOf(double at) { return kRows - 1 - static_cast<size_t>(std::lround(at * (kRows - 1))); }
  [[nodiscard]] size_t columnOf(double at) const {
    return static_cast<size_t>(std::lround(at * static_cast<double>(width_ - 1)));
  }

  void put(const MetricCurve& c) {
    for (const Metric::Point& p : c.best()) {
      const size_t x = columnOf(panel_.x.at(static_cast<double>(p.step)));
      if (std::isfinite(p.value))
        lines_[rowOf(panel_.y.at(p.value))][x] = markOf(v_, c.run, c.heldBack);
      else
        lines_[0][x] = '!'; // NaN or infinite
    }
  }

  // The horizontal axis with its labels.
  [[nodiscard]] std::string below() const {
    std::string line(width_, '-'), labels(width_ + label_ + 8, ' ');
    size_t free = 0;
    for (const Axis::Tick& t : panel_.x.ticks) {
      const size_t x = columnOf(t.at), middle = label_ + 3 + x,
                   begin = middle - std::min(middle, t.label.size() / 2);
      line[x] = '+';
      if (begin < free || begin + t.label.size() > labels.size()) continue;
      labels.replace(begin, t.label.size(), t.label);
      free = begin + t.label.size() + 1;
    }
    return std::string(label_ + 2, ' ') + "+" + line + "\n" + trimmed(labels) +
           std::string(label_ + 3 + width_ / 2 - 2, ' ') + "step\n";
  }

  const ViewMetrics& v_;
  const MetricPanel& panel_;
  size_t label_ = 0, width_ = 0;
  std::vector<std::string> lines_;
};

} // namespace

std::string metricsText(const ViewMetrics& v, size_t columns) {
  const int across = static_cast<int>(std::clamp<size_t>(columns / 10, 2, 12));
  const std::vector<MetricPanel> panels = metricPanels(v, across, 6);
  std::string text = tableText(v);
  const size_t count = v.chosen.empty() ? std::min<size_t>(panels.size(), 1) : panels.size();
  for (size_t i = 0; i < count; ++i) text += TextPlot(v, panels[i], columns).draw();
  return text;
}

} // namespace dtc
