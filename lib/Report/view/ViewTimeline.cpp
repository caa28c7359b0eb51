// A program over time: the streams of each of its functions, with the waits of devices for others.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Report/view/View.h"
#include "explain/ReportText.h"
#include "explain/StepNames.h"
#include "timeline/Strip.h"
#include "timeline/Timeline.h"
#include "view/Axis.h"
#include "view/Palette.h"
#include "view/PipelineDrawing.h"
#include "view/Svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace dtc {
namespace {

std::string nameOfStep(const TimelineStep& s, const StepNames& names) {
  if (s.kind == TimelineStep::Repeat) return "further iterations";
  const std::string of = names.step(s.op);
  return names.kind(s.op) + (of.empty() ? "" : " ") + of;
}

std::string streamTitle(const std::string& stream) { return stream == "compute" ? stream : "over " + stream; }

std::string percentText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", share * 100);
  return text;
}

// "with messages, a step takes 24.5 us; devices compute nothing for 43.1 % of it"
std::string timelinesTitle(const ViewTimelines& t) {
  return "with messages, a run takes " + timeText(t.functions[0].seconds) +
         " on the nominal machine; devices compute nothing for " + percentText(t.idleShare) + " of it";
}

std::string functionTitle(const ViewTimeline& f) {
  return f.title + ": computes " + timeText(f.computing) + ", waits " + timeText(f.exposed) +
         " for messages" + (f.waiting > 0 ? " and " + timeText(f.waiting) + " for other devices" : "");
}

std::string streamRow(const ViewTimeline& f, size_t stream, size_t room) {
  Strip strip(f.seconds, room);
  for (const ViewTimeline::Bar& b : f.bars) {
    if (b.stream != stream) continue;
    strip.add(Strip::Waits, b.begin - b.waited, b.begin);
    strip.add(stream > 0  ? Strip::Message
              : b.repeats ? Strip::Repeats
                          : Strip::Computes,
              b.begin, b.begin + b.seconds);
  }
  return strip.text();
}

constexpr size_t kTimesLeft = 130, kTimesWidth = 1000, kTimesLane = 28, kMarked = 4;

class TimelineDrawing {
public:
  TimelineDrawing(Svg& svg, const ViewTimeline& f) : svg_(svg), f_(f) {}

  // Returns the lower end.
  size_t draw(size_t y) {
    svg_.text(10, y + 12, functionTitle(f_), "fact");
    y += 20;
    for (size_t s = 0; s < f_.streams.size(); ++s) {
      svg_.text(10, y + s * kTimesLane + 15, streamTitle(f_.streams[s]), "fact");
      size_t last = 0;
      for (const ViewTimeline::Bar& b : f_.bars)
        if (b.stream == s) bar(b, y, y + s * kTimesLane, last);
    }
    return y + f_.streams.size() * kTimesLane + 6;
  }

private:
  [[nodiscard]] size_t at(double t) const {
    return kTimesLeft + static_cast<size_t>(std::lround(std::clamp(t / f_.seconds, 0.0, 1.0) * kTimesWidth));
  }

  void bar(const ViewTimeline::Bar& b, size_t compute, size_t y, size_t& last) {
    const size_t x = at(b.begin), end = std::max(at(b.begin + b.seconds), x + 1);
    if (b.waited > 0) {
      const size_t from = at(b.begin - b.waited);
      if (x > from)
        svg_.box(from, compute, x - from, kTimesLane - 6, "waits",
                 "waits " + timeText(b.waited) + " for other devices, before " + b.text);
    }
    if (end <= last || b.seconds <= 0) return; // not visible beside the one before
    last = end;
    const std::string tip = b.text + "\n" + timeText(b.seconds) + " from " + timeText(b.begin) +
                            (b.exposed > 0 ? "\nexposed: " + timeText(b.exposed) : "");
    const std::string cls = b.repeats ? "rest" : b.stream > 0 ? "collective" : "busy";
    svg_.box(x, y, end - x, kTimesLane - 6, cls + (end - x < 3 ? " thin" : ""), tip,
             f_.colors[b.stream].empty() ? "" : f_.colors[b.stream] + ";fill-opacity:0.4");
    const size_t letters = end - x > 8 ? (end - x - 8) / kLetterWidth : 0;
    if (letters >= std::min(b.text.size(), b.text.find(' ') + 4))
      svg_.text(x + 4, y + 13, shortened(b.text, letters), "fact");
    if (b.exposed <= 0) return;
    const size_t from = std::min(at(b.begin + b.seconds - b.exposed), end - 1);
    svg_.box(from, y + kTimesLane - 6 - kMarked, end - from, kMarked, "exposed");
  }

  Svg& svg_;
  const ViewTimeline& f_;
};

} // namespace

// Of "tp, dp": that of tp.
static std::string colorOf(const std::string& stream, const std::vector<std::string>& mesh) {
  const auto axis = std::ranges::find(mesh, stream.substr(0, stream.find_first_of(",:")));
  if (axis == mesh.end()) return {};
  return kAxisColors[std::min<size_t>(static_cast<size_t>(axis - mesh.begin()), kAxisColors.size() - 1)];
}

ViewTimelines viewTimelines(Module& m, FuncId entry) {
  const std::vector<Timeline> timelines = timelinesOf(m, entry);
  const std::vector<FuncId> functions = functionsOfProgram(m, entry);
  ViewTimelines out;
  out.idleShare = idleShare(m, entry, timelines);
  std::vector<std::string> mesh; // its axes
  for (const MeshAxis& a : meshValueOf(m, entry).axes) mesh.emplace_back(m.strings[a.name]);
  for (size_t i = 0; i < functions.size(); ++i) {
    const Timeline& t = timelines[i];
    const std::string devices = devicesText(m, functions[i]);
    ViewTimeline& f = out.functions.emplace_back();
    f.title = devices.empty() ? "each device" : devices;
    f.streams = t.streams, f.seconds = t.seconds;
    for (const std::string& stream : t.streams) f.colors.push_back(colorOf(stream, mesh));
    f.computing = t.computeSeconds, f.exposed = t.exposedSeconds, f.waiting = t.waitSeconds;
    const StepNames names(m, functions[i]);
    for (const TimelineStep& s : t.steps)
      f.bars.push_back({s.stream, nameOfStep(s, names), s.begin, s.seconds, s.exposed, s.waited,
                        s.kind == TimelineStep::Repeat});
  }
  return out;
}

std::string timelinesText(const ViewTimelines& t, size_t columns) {
  std::string text = timelinesTitle(t) + "\n";
  size_t name = 0;
  for (const ViewTimeline& f : t.functions)
    for (const std::string& s : f.streams) name = std::max(name, streamTitle(s).size());
  const size_t room = columns > name + 26 ? columns - name - 6 : 20;
  for (const ViewTimeline& f : t.functions) {
    text += " " + functionTitle(f) + "\n";
    for (size_t s = 0; s < f.streams.size() && f.seconds > 0; ++s) {
      std::string label = streamTitle(f.streams[s]);
      label.resize(name, ' ');
      text += "  " + label + " |" + streamRow(f, s, room) + "|\n";
    }
  }
  return text + Strip::legend(true) + "\n";
}

void drawTimeAxis(Svg& svg, double seconds, size_t left, size_t right, size_t y) {
  svg.line(left, y, right, y);
  for (const Axis::Tick& t : linearAxis(0, seconds * 1e9, 6, AxisEnds::Exact).ticks) {
    const size_t x = left + static_cast<size_t>(t.at * static_cast<double>(right - left));
    svg.line(x, y, x, y + 5);
    svg.text(x, y + 20, timeTick(t.at * seconds), t.at > 0.97 ? "fact end" : "fact mid");
  }
}

size_t drawTimelines(Svg& svg, const ViewTimelines& t, size_t top) {
  if (t.functions.empty() || t.functions[0].seconds <= 0) return top;
  svg.text(10, top, timelinesTitle(t), "title");
  size_t y = top + 10;
  for (const ViewTimeline& f : t.functions) y = TimelineDrawing(svg, f).draw(y);
  drawTimeAxis(svg, t.functions[0].seconds, kTimesLeft, kTimesLeft + kTimesWidth, y);
  y += 40;
  svg.box(kTimesLeft, y - 8, 20, kMarked, "exposed");
  svg.text(kTimesLeft + 28, y, "exposed: the device waits for a message", "fact");
  if (std::ranges::any_of(t.functions, [](const ViewTimeline& f) { return f.waiting > 0; })) {
    svg.box(kTimesLeft + 380, y - 12, 20, 14, "waits");
    svg.text(kTimesLeft + 408, y, "waits for other devices", "fact");
  }
  return y;
}

} // namespace dtc
