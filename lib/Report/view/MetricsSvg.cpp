// Charts of logs as SVG, for light and dark pages.
#include "dtc/Support/Units.h"
#include "view/MetricsPanels.h"
#include "view/Svg.h"

#include <algorithm>
#include <cmath>

namespace dtc {
namespace {

constexpr size_t kWidth = 860, kMargin = 20, kRow = 22; // of the drawing, around it, of the table
constexpr size_t kTickWidth = 52;                       // of the labels of a vertical axis
constexpr size_t kTall = 300, kShort = 120;             // heights of plots
constexpr size_t kAbove = 30, kBelow = 46;              // a plot: its title; labels and the name of its axis

// The colors of runs, told apart by people who are color-blind, too: on white and on black.
struct Color {
  const char *light, *dark;
};
constexpr Color kColors[kMaxMetricRuns] = {
    {"#0969da", "#58a6ff"}, {"#c2410c", "#f78b4a"}, {"#1a7f37", "#3fb950"}, {"#8250df", "#c297ff"},
    {"#9a6700", "#d9b441"}, {"#0e7c86", "#39c5cf"}, {"#bf3989", "#f778ba"}, {"#57606a", "#9ea7b3"}};

std::string colorRules(bool dark) {
  std::string rules;
  for (size_t i = 0; i < kMaxMetricRuns; ++i)
    rules += ".c" + std::to_string(i) + "{stroke:" + (dark ? kColors[i].dark : kColors[i].light) + "}";
  return rules;
}

// Of a page around the drawing, too.
std::string style() {
  return "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2328}"
         ".title{font-weight:600}.fact{fill:#59636e;font-size:12px}.end{text-anchor:end}.mid{text-anchor:"
         "middle}"
         "path{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
         ".raw{stroke-width:1;opacity:.3}.grid{stroke:#e4e7eb}.axis{stroke:#8c959f}"
         "circle{fill:#fff;stroke-width:1.6}.bad{stroke:#d1242f;stroke-width:1.5}.page{fill:#fff}" +
         colorRules(false) +
         "@media(prefers-color-scheme:dark){body{background:#0d1117}text{fill:#e6edf3}.fact{fill:#9198a1}"
         ".grid{stroke:#2a313c}.axis{stroke:#6e7681}circle,.page{fill:#0d1117}.bad{stroke:#ff7b72}" +
         colorRules(true) + "}";
}

// A plot: its panel, and the corners of its area.
class Plot {
public:
  Plot(Svg& svg, const ViewMetrics& v, const MetricPanel& panel, size_t left, size_t top, size_t right,
       size_t bottom)
      : svg_(svg), v_(v), panel_(panel), left_(left), top_(top), right_(right), bottom_(bottom) {}

  void draw() {
    svg_.text(left_ - kTickWidth, top_ - 14, panel_.title, "title");
    axes();
    for (const MetricCurve& c : panel_.curves) {
      if (!c.mean.empty()) curve(c.raw, true, classOf(c) + " raw", "");
      curve(c.best(), c.mean.empty(), classOf(c),
            v_.runs[c.run].name + (c.heldBack ? ", held-back data" : ""));
    }
    for (const MetricCurve& c : panel_.curves) marks(c);
  }

private:
  // A single run shows its held-back data in a color of their own.
  [[nodiscard]] std::string classOf(const MetricCurve& c) const {
    return "c" + std::to_string(c.run + (c.heldBack && v_.runs.size() == 1));
  }

  [[nodiscard]] Svg::Point at(const Metric::Point& p) const {
    const double x = panel_.x.at(static_cast<double>(p.step)), y = panel_.y.at(p.value);
    return {static_cast<double>(left_) + x * static_cast<double>(right_ - left_),
            static_cast<double>(bottom_) - y * static_cast<double>(bottom_ - top_)};
  }

  void axes() {
    const auto along = [](double at, size_t from, size_t to) {
      return static_cast<size_t>(std::lround(static_cast<double>(from) +
                                             at * (static_cast<double>(to) - static_cast<double>(from))));
    };
    for (const Axis::Tick& t : panel_.y.ticks) {
      const size_t y = along(t.at, bottom_, top_);
      svg_.line(left_, y, right_, y, "grid");
      svg_.text(left_ - 8, y + 4, t.label, "fact end");
    }
    for (const Axis::Tick& t : panel_.x.ticks) {
      const size_t x = along(t.at, left_, right_);
      svg_.line(x, bottom_, x, bottom_ + 4, "axis");
      svg_.text(x, bottom_ + 18, t.label, "fact mid");
    }
    svg_.line(left_, bottom_, right_, bottom_, "axis");
    svg_.text((left_ + right_) / 2, bottom_ + 36, "step", "fact mid");
  }

  // Lines through neighbors; of many points, the lowest and highest in each column of pixels, or the first one.
  void curve(const std::vector<Metric::Point>& points, bool extremes, const std::string& cls,
             const std::string& tip) {
    std::vector<Svg::Point> line;
    const auto end = [&] {
      svg_.path(line, cls, tip);
      line.clear();
    };
    for (size_t i = 0; i < points.size();) {
      if (!std::isfinite(points[i].value)) {
        end();
        ++i;
        continue;
      }
      const double x = at(points[i]).x;
      const size_t first = i;
      size_t low = i, high = i;
      for (; i < points.size() && std::isfinite(points[i].value) && at(points[i]).x < x + 1; ++i) {
        if (points[i].value < points[low].value) low = i;
        if (points[i].value > points[high].value) high = i;
      }
      if (!extremes) low = high = i == points.size() ? i - 1 : first;
      line.push_back(at(points[std::min(low, high)]));
      if (low != high) line.push_back(at(points[std::max(low, high)]));
    }
    end();
  }

  // Circles where there are few points; crosses for values that are not finite.
  void marks(const MetricCurve& c) {
    constexpr size_t kMostCircles = 60, kMostCrosses = 200;
    const bool few = c.raw.size() == 1 || (c.heldBack && c.raw.size() <= kMostCircles);
    size_t crosses = 0;
    for (const Metric::Point& p : c.raw) {
      const std::string tip =
          "step " + std::to_string(p.step) + ": " + (std::isnan(p.value) ? "nan" : significant(p.value, 5));
      if (!std::isfinite(p.value) && ++crosses <= kMostCrosses)
        cross(at({p.step, panel_.y.high}), tip);
      else if (few && std::isfinite(p.value))
        svg_.circle(at(p), classOf(c), tip);
    }
  }

  void cross(Svg::Point p, const std::string& tip) {
    const Svg::Point down[] = {{p.x - 4, p.y - 4}, {p.x + 4, p.y + 4}},
                     up[] = {{p.x - 4, p.y + 4}, {p.x + 4, p.y - 4}};
    svg_.path(down, "bad", tip);
    svg_.path(up, "bad", tip);
  }

  Svg& svg_;
  const ViewMetrics& v_;
  const MetricPanel& panel_;
  size_t left_, top_, right_, bottom_;
};

// The table of runs, with samples of their lines. Returns its lower end.
class Table {
public:
  Table(Svg& svg, const ViewMetrics& v) : svg_(svg), table_(metricTable(v)), single_(v.runs.size() == 1) {}

  size_t draw() {
    const std::vector<size_t> ends = columnEnds();
    size_t y = kMargin + 12;
    if (std::ranges::any_of(table_.titles, [](const std::string& t) { return t.starts_with(kHeldBack); }))
      y += 16;
    svg_.text(kMargin, y, table_.titles[0], "fact");
    for (size_t c = 1; c < ends.size(); ++c) {
      const auto [above, title] = titleAt(c);
      if (!above.empty()) svg_.text(ends[c], y - 16, above, "fact end");
      svg_.text(ends[c], y, title, "fact end");
    }
    for (size_t r = 0; r < table_.rows.size(); ++r) {
      y += kRow;
      svg_.text(kMargin, y, table_.rows[r][0]);
      for (size_t c = 1; c < ends.size(); ++c) svg_.text(ends[c], y, table_.rows[r][c], "end");
      samples(r, ends, y - 4);
    }
    if (!table_.means) return y + 6;
    svg_.text(kMargin, y + kRow,
              "thin lines: each step; thick lines, and the numbers above: means over 1 % of the steps",
              "fact");
    return y + kRow + 6;
  }

private:
  static constexpr size_t kLetter = 8, kGap = 20, kSample = 30;
  static constexpr std::string_view kHeldBack = "held-back ";

  [[nodiscard]] bool resultAt(size_t column) const { return column >= table_.results; }
  [[nodiscard]] bool heldBackAt(size_t column) const { return table_.titles[column].starts_with(kHeldBack); }
  // A title in two lines, where it is of held-back data.
  [[nodiscard]] std::pair<std::string, std::string> titleAt(size_t column) const {
    const std::string& t = table_.titles[column];
    if (!heldBackAt(column)) return {"", t};
    return {t.substr(0, kHeldBack.size() - 1), t.substr(kHeldBack.size())};
  }

  // The right ends of columns; the first is as wide as is left.
  std::vector<size_t> columnEnds() {
    std::vector<size_t> widths;
    for (size_t c = 0; c < table_.titles.size(); ++c) {
      const auto [above, title] = titleAt(c);
      size_t width = std::max(above.size(), title.size()) * kLetter;
      for (const auto& cells : table_.rows)
        width = std::max(width, cells[c].size() * kLetter + (resultAt(c) ? kSample : 0));
      widths.push_back(width + kGap);
    }
    size_t others = 0;
    for (size_t c = 1; c < widths.size(); ++c) others += widths[c];
    const size_t first = std::max<size_t>(kWidth > others ? kWidth - others : 0, 120);
    for (auto& cells : table_.rows) cells[0] = shortenedFront(cells[0], first / kLetter - 2);
    std::vector<size_t> ends = {kMargin + std::min(first, widths[0])};
    for (size_t c = 1; c < widths.size(); ++c) ends.push_back(ends.back() + widths[c]);
    return ends;
  }

  // The end of a path tells more than its beginning.
  static std::string shortenedFront(const std::string& text, size_t letters) {
    return text.size() <= letters ? text : "..." + text.substr(text.size() - letters + 3);
  }

  void samples(size_t run, const std::vector<size_t>& ends, size_t y) {
    for (size_t c = 1; c < table_.titles.size(); ++c) {
      if (!resultAt(c) || table_.rows[run][c] == "-") continue;
      const std::string cls = "c" + std::to_string(run + (single_ && heldBackAt(c)));
      size_t letters = 0;
      for (const auto& cells : table_.rows) letters = std::max(letters, cells[c].size());
      const double right = static_cast<double>(ends[c] - letters * kLetter - 8);
      const auto middle = static_cast<double>(y);
      const Svg::Point line[] = {{right - 22, middle}, {right, middle}};
      svg_.path(line, cls);
      if (heldBackAt(c)) svg_.circle({right - 11, middle}, cls);
    }
  }

  Svg& svg_;
  MetricTable table_;
  bool single_;
};

} // namespace

std::string metricsSvg(const ViewMetrics& v) {
  Svg svg;
  const std::vector<MetricPanel> panels = metricPanels(v, 10, 6);
  size_t top = Table(svg, v).draw() + kAbove + 10;
  for (size_t i = 0; i < panels.size(); ++i) {
    const size_t half = (kWidth - 2 * kMargin) / 2;
    const bool second = i > 0 && i % 2 == 0;
    const size_t left = kMargin + kTickWidth + (second ? half + 2 * kMargin : 0);
    const size_t right = i == 0 ? kMargin + kWidth : kMargin + (second ? kWidth : half);
    const size_t bottom = top + (i == 0 ? kTall : kShort);
    Plot(svg, v, panels[i], left, top, right, bottom).draw();
    if (i == 0 || second) top = bottom + kBelow + kAbove;
  }
  return svg.finish(style());
}

} // namespace dtc
