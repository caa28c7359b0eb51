// A comparison as a drawing: per device and stream the measured bars above the modelled ones.
#include "trace/TraceDrawing.h"
#include "view/Axis.h"
#include "view/Palette.h"
#include "view/Svg.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dtc {
namespace {

constexpr size_t kMargin = 20, kWidth = 1000, kLine = 20; // of the drawing
constexpr size_t kLeft = 190, kRight = kMargin + kWidth;  // the ends of rows of bars
constexpr size_t kBar = 20, kStreamGap = 10, kMark = 4;   // heights of a bar, between streams, of marks
constexpr size_t kMostDevices = 8, kMostOps = 15, kLetter = 7;

std::string style() {
  std::string rules =
      "text{font:13px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:#1f2328}"
      ".title{font-weight:600}.head{font-size:15px;font-weight:600}.fact{fill:#59636e;font-size:12px}.in{"
      "font-size:11px;"
      "pointer-events:none}"
      ".end{text-anchor:end}.mid{text-anchor:middle}.grid{stroke:#d8dde3}.axis{stroke:#8c959f}"
      "rect{stroke:#57606a;stroke-width:.5}.thin{stroke:none}.compute{fill:#9fc5e8}.rest{fill:#e4e7eb}"
      ".wait{fill:#8250df;stroke:none}.model{opacity:.7}.exposed{fill:#b3261e;stroke:none}.page{fill:#fff;"
      "stroke:none}";
  for (size_t i = 0; i < kAxisColors.size(); ++i)
    rules += ".a" + std::to_string(i) + "{fill:" + kAxisColors[i] + ";fill-opacity:.45}";
  return rules +
         "@media(prefers-color-scheme:dark){body{background:#0d1117}text{fill:#e6edf3}.fact{fill:#9198a1}"
         ".grid{stroke:#2a313c}.axis{stroke:#6e7681}.page{fill:#0d1117}.compute{fill:#1f4e79}.rest{fill:#"
         "30363d}"
         "rect{stroke:#8c959f}.exposed{fill:#ff7b72}}";
}

class Drawing {
public:
  explicit Drawing(const TraceComparison& c) : c_(c), scale_(scaleOf(c)) {}

  std::string draw() {
    line(traceTitle(c_), "head");
    line(machineText(c_), "fact");
    line(machineSource(c_), "fact");
    if (!c_.complete)
      line("the model does not know all sizes and loops: unknown ones count as nothing, or once", "fact");
    y_ += 8;
    times();
    const std::vector<size_t> devices = devicesToDraw(c_, kMostDevices);
    for (size_t d : devices) device(d);
    if (devices.size() < c_.devices.size())
      line(std::to_string(c_.devices.size() - devices.size()) + " more devices are not drawn", "fact");
    legend();
    ops();
    return svg_.finish(style());
  }

private:
  void line(const std::string& text, const char* cls) {
    svg_.text(kMargin, y_, text, cls);
    y_ += kLine;
  }

  void times() {
    constexpr size_t kColumns[] = {kMargin + 300, kMargin + 400, kMargin + 480};
    const std::string who =
        c_.devices.size() == 1 ? "a device" : "mean of " + std::to_string(c_.devices.size()) + " devices";
    svg_.text(kMargin, y_, who, "fact");
    for (size_t i = 0; const char* title : {"measured", "modelled", "ratio"})
      svg_.text(kColumns[i++], y_, title, "fact end");
    for (const TimeRow& r : timeRows(c_)) {
      y_ += kLine;
      const bool within = r.name.starts_with(' ');
      svg_.text(kMargin + (within ? 16 : 0), y_, r.name.substr(within ? 2 : 0), within ? "fact" : "");
      svg_.text(kColumns[0], y_, durationText(r.measured), "end");
      svg_.text(kColumns[1], y_, durationText(r.modelled), "end");
      svg_.text(kColumns[2], y_, ratioText(r.measured, r.modelled), "end");
    }
    y_ += 2 * kLine;
  }

  // --- a device ---

  void device(size_t d) {
    std::string title = "device " + c_.devices[d];
    if (c_.functions.size() > 1) title += ", " + c_.functions[c_.functionOf[d]];
    svg_.text(kMargin, y_, title, "title");
    y_ += 8;
    const std::vector<uint32_t> streams = streamsAt(c_, d);
    const size_t top = y_, bottom = top + streams.size() * (2 * kBar + kStreamGap);
    grid(top, bottom);
    for (uint32_t s : streams) {
      svg_.text(kMargin, y_ + 14, shortened(streamLabel(c_.streams[s]), 14), "");
      svg_.text(kLeft - 8, y_ + 14, "measured", "fact end");
      svg_.text(kLeft - 8, y_ + kBar + 14, "modelled", "fact end");
      row(c_.measuredBars[d], s, scale_.measured, y_, false);
      row(c_.modelledBars[c_.functionOf[d]], s, scale_.modelled, y_ + kBar, true);
      y_ += 2 * kBar + kStreamGap;
    }
    axis(scale_.measured, scale_.same() ? "" : "measured");
    if (!scale_.same()) axis(scale_.modelled, "modelled");
    y_ += 14;
  }

  static constexpr double kRoom = static_cast<double>(kRight - kLeft);
  static Axis ticksOf(double seconds) { return linearAxis(0, seconds * 1e6, 8, AxisEnds::Exact); }

  void grid(size_t top, size_t bottom) {
    if (!scale_.same()) return; // the lines of one scale mean nothing for the other
    for (const Axis::Tick& t : ticksOf(scale_.measured).ticks) {
      const size_t x = kLeft + static_cast<size_t>(t.at * kRoom);
      svg_.line(x, top, x, bottom, "grid");
    }
  }

  void axis(double seconds, const char* of) {
    svg_.line(kLeft, y_, kRight, y_, "axis");
    if (*of != 0) svg_.text(kLeft - 8, y_ + 5, of, "fact end");
    for (const Axis::Tick& t : ticksOf(seconds).ticks) {
      const size_t x = kLeft + static_cast<size_t>(t.at * kRoom);
      svg_.line(x, y_, x, y_ + 4, "axis");
      svg_.text(x, y_ + 17, timeTick(t.at * seconds), t.at > 0.97 ? "fact end" : "fact mid");
    }
    y_ += 26;
  }

  void row(const std::vector<TraceBar>& bars, uint32_t stream, double seconds, size_t y, bool modelled) {
    const double scale = kRoom / seconds;
    const auto at = [&](double t) {
      return kLeft + static_cast<size_t>(std::lround(std::clamp(t * scale, 0.0, kRoom)));
    };
    const std::string cls = classOf(stream) + (modelled ? " model" : "");
    size_t last = 0, exposedEnd = 0;
    for (const TraceBar& b : bars) {
      if (b.stream != stream) continue;
      const size_t x = at(b.begin), end = std::max(at(b.begin + b.seconds), x + 1);
      const double idle = modelled ? b.waited : 0; // a modelled message begins when all devices have come
      if (end > last) box(b, x, end, y, modelled, cls);
      last = std::max(last, end);
      const double from = modelled ? b.begin + b.seconds - b.exposed - idle : b.begin;
      const size_t e0 = std::max(at(from), exposedEnd),
                   e1 = at(modelled ? b.begin + b.seconds : b.begin + b.exposed);
      if (b.exposed + b.waited > 0 && e1 > e0) {
        const size_t e2 = std::clamp(at(from + b.waited), e0, e1);
        if (e2 > e0) svg_.box(e0, y + kBar - kMark - 2, e2 - e0, kMark, "wait");
        if (e1 > e2) svg_.box(e2, y + kBar - kMark - 2, e1 - e2, kMark, "exposed");
        exposedEnd = e1;
      }
    }
  }

  void box(const TraceBar& b, size_t x, size_t end, size_t y, bool modelled, const std::string& cls) {
    const std::string name = b.repeats > 0 ? significantText(b.repeats) + " more iterations" : nameOf(b);
    std::string tip = name + "\n" + (modelled ? "modelled: " : "measured: ") + durationText(b.seconds) +
                      " from " + durationText(b.begin);
    if (b.exposed > 0) tip += "\nexposed: " + durationText(b.exposed);
    if (b.waited > 0) tip += "\nwaits for other devices: " + durationText(b.waited);
    if (b.op >= 0) {
      const TraceOp& op = c_.ops[static_cast<size_t>(b.op)];
      tip += "\nin a run, measured : modelled = " + ratioText(op.measured, op.modelled) + "\n" + op.place;
    }
    const size_t width = end - x;
    svg_.box(x, y, width, kBar - 2, (b.repeats > 0 ? "rest" : cls) + (width < 3 ? " thin" : ""), tip);
    const size_t letters = width > 8 ? (width - 8) / kLetter : 0;
    if (letters >= std::min(name.find(' '), name.size()))
      svg_.text(x + 4, y + 12, shortened(name, letters), "in");
  }

  static std::string significantText(double v) { return std::to_string(static_cast<int64_t>(v)); }
  std::string nameOf(const TraceBar& b) const {
    if (b.op < 0) return "copy of a carried result";
    const TraceOp& op = c_.ops[static_cast<size_t>(b.op)];
    return op.name + (op.value.empty() ? "" : " " + op.value) + (op.part.empty() ? "" : " (" + op.part + ")");
  }

  std::string classOf(uint32_t stream) const {
    const std::string& name = c_.streams[stream];
    if (name == "compute" || name == "host") return "compute";
    const std::string axis = name.substr(0, name.find_first_of(",:"));
    const size_t at = (" " + c_.mesh).find(" " + axis + "=");
    if (at == std::string::npos) return "a7";
    return "a" +
           std::to_string(static_cast<size_t>(std::count(
                              c_.mesh.begin(), c_.mesh.begin() + static_cast<std::ptrdiff_t>(at), ' ')) %
                          kAxisColors.size());
  }

  void legend() {
    y_ += 4;
    if (!scale_.same()) {
      const double ratio = scale_.measured / scale_.modelled;
      line("measured and modelled bars have scales of their own: a modelled one is drawn " +
               ratioText(ratio, 1) + " times as long as a measured one of the same time",
           "fact");
    }
    svg_.box(kMargin, y_ - 8, 20, kMark, "exposed");
    svg_.text(kMargin + 28, y_, "exposed: a message, and the device computes nothing", "fact");
    svg_.box(kMargin + 400, y_ - 8, 20, kMark, "wait");
    svg_.text(kMargin + 428, y_, "of this, it waits for other devices to come", "fact");
    y_ += 2 * kLine;
  }

  void ops() {
    constexpr size_t kColumns[] = {kMargin + 520, kMargin + 610, kMargin + 680, kMargin + 780};
    svg_.text(kMargin, y_, "Ops by what they add to the model's step", "title");
    y_ += kLine;
    svg_.text(kMargin, y_, "op", "fact");
    for (size_t i = 0; const char* title : {"measured", "modelled", "ratio", "adds"})
      svg_.text(kColumns[i++], y_, title, "fact end");
    svg_.text(kMargin + 800, y_, "where", "fact");
    for (size_t i = 0; i < c_.ops.size() && i < kMostOps; ++i) {
      const TraceOp& op = c_.ops[i];
      y_ += kLine;
      std::string name = op.name + (op.value.empty() ? "" : "  " + op.value);
      if (c_.functions.size() > 1) name = c_.functions[op.function] + "  " + name;
      const size_t room = 56 - std::min<size_t>(op.part.size(), 28);
      svg_.text(kMargin, y_, shortened(name, room) + (op.part.empty() ? "" : "  " + op.part), "");
      for (size_t k = 0;
           const std::string& text : {durationText(op.measured), durationText(op.modelled),
                                      ratioText(op.measured, op.modelled), addedText(c_.addedToRun(op))})
        svg_.text(kColumns[k++], y_, text, "end");
      svg_.text(kMargin + 800, y_,
                op.place.size() > 28 ? "..." + op.place.substr(op.place.size() - 25) : op.place, "fact");
    }
    double rest = 0;
    for (size_t i = kMostOps; i < c_.ops.size(); ++i) rest += c_.addedToRun(c_.ops[i]);
    y_ += kLine;
    if (c_.ops.size() > kMostOps) {
      svg_.text(kMargin, y_, std::to_string(c_.ops.size() - kMostOps) + " more ops", "fact");
      svg_.text(kColumns[3], y_, addedText(rest), "fact end");
      y_ += kLine;
    }
    svg_.text(kMargin, y_, "adds: measured less modelled; of a message, of its exposed part", "fact");
  }

  const TraceComparison& c_;
  TraceScale scale_;
  Svg svg_;
  size_t y_ = kMargin + 12;
};

} // namespace

std::string comparisonSvg(const TraceComparison& c) { return Drawing(c).draw(); }

} // namespace dtc
