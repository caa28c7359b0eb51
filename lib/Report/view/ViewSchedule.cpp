// A scheduled function over time: its steps by stream, its buffers by their memory offset.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Naming.h"
#include "dtc/Passes/analysis/Frozen.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Report/explain/StepCost.h"
#include "dtc/Report/view/View.h"
#include "dtc/Support/Units.h"
#include "explain/ReportText.h"
#include "explain/StepNames.h"
#include "explain/StepParts.h"
#include "timeline/Timeline.h"
#include "view/Axis.h"
#include "view/PipelineDrawing.h"
#include "view/Svg.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace dtc {
static std::string axesText(const Module& m, OpId o) {
  std::string text;
  AttrId axes = m.attr(o, "axes");
  if (!axes.valid()) return text;
  for (AttrId a : m.attrs[axes].list) {
    const Attr& axis = m.attrs[a];
    text +=
        " " + (axis.kind == Attr::Axis ? printAxis(axis.axis, m.strings) : std::string(m.strings[axis.text]));
  }
  return text;
}

static ViewSchedule::Step stepOf(const Module& m, OpId o, const Naming& names, const StepNames& labels) {
  const OpRecord& record = m.record(o);
  ViewSchedule::Step step;
  step.what = record.name;
  step.stream = isLoadTimeOp(m, o)      ? "load"
                : isFrozenOp(m, o)      ? "once"
                : record.isCollective() ? "comm" + axesText(m, o)
                                        : "compute";
  if (AttrId kind = m.attr(o, "kind"); kind.valid() && record.regions == RegionKind::Fused)
    step.what = std::string(m.strings[m.attrs[kind].text]);
  for (uint32_t r = 0; r < m[o].numResults; ++r) step.result += (r ? ", " : "") + names(m.result(o, r));
  step.kind = labels.kind(o), step.value = labels.step(o), step.pipelinePart = stepPart(m, o);
  step.label = step.kind + (step.value.empty() ? "" : " ") + step.value;
  return step;
}

namespace {

class ScheduleReader {
public:
  ScheduleReader(const Module& m, FuncId f, const Timeline& timeline, const MemoryPlan& plan)
      : m_(m), func_(f), plan_(plan), names_(m, f), labels_(m, f), stepAt_(plan.numPositions + 1, 0) {
    for (size_t i = timeline.steps.size(); i-- > 0;) {
      const TimelineStep& s = timeline.steps[i];
      (s.kind == TimelineStep::Repeat ? repeats_ : numbers_)[s.op] = static_cast<int64_t>(i);
    }
  }

  ViewSchedule read() {
    const std::string devices = devicesText(m_, func_);
    s_.title = "func @" + std::string(m_.strings[m_[func_].name]) + ", on " +
               (devices.empty() ? "each device" : devices);
    s_.arena = plan_.arenaBytes;
    block(m_[func_].body, 0, "");
    fill(stepAt_.size());
    buffers();
    liveBytes();
    return std::move(s_);
  }

private:
  // Positions before `end` are of the last step.
  void fill(size_t end) {
    const size_t last = s_.steps.empty() ? 0 : s_.steps.size() - 1;
    for (end = std::min(end, stepAt_.size()); filled_ < end; ++filled_) stepAt_[filled_] = last;
  }

  void block(BlockId b, size_t depth, std::string part) {
    for (OpId o : m_[b].ops) {
      const auto at = plan_.position.find(o);
      ViewSchedule::Step step = stepOf(m_, o, names_, labels_);
      step.depth = depth, step.part = std::exchange(part, "");
      if (const auto number = numbers_.find(o); number != numbers_.end()) step.number = number->second;
      s_.steps.push_back(std::move(step));
      if (at != plan_.position.end()) fill(at->second[0] + 1);
      if (m_[o].numRegions == 0 || m_.record(o).regions == RegionKind::Fused) continue;
      const size_t around = s_.steps.size() - 1;
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) block(m_.region(o, r), depth + 1, partOf(o, r));
      if (at != plan_.position.end()) fill(at->second[1] + 1);
      repeat(o, depth + 1);
      within_.emplace_back(around, s_.steps.size());
    }
  }

  [[nodiscard]] std::string partOf(OpId o, uint32_t region) const {
    switch (m_.record(o).regions) {
    case RegionKind::While: return region == 0 ? "condition" : "body";
    case RegionKind::Cond: return region == 0 ? "if true" : "if false";
    default: return "";
    }
  }

  void repeat(OpId o, size_t depth) {
    const auto number = repeats_.find(o);
    if (number == repeats_.end()) return;
    ViewSchedule::Step step;
    step.stream = "compute", step.what = "repeat", step.kind = step.label = "further iterations";
    step.depth = depth, step.number = number->second, step.live = s_.steps.back().live;
    s_.steps.push_back(std::move(step));
  }

  void buffers() {
    const std::vector<ValueId>& yields = m_[m_[func_].body].yields;
    std::unordered_set<uint32_t> returned; // buffers
    for (const MemoryPlan::Held& h : plan_.values)
      if (std::ranges::find(yields, h.value) != yields.end()) returned.insert(h.buffer);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const MemoryPlan::Buffer& b = plan_.buffers[i];
      ViewSchedule::Buffer buffer{names_(b.value), labels_.buffer(b.value), b.offset, b.bytes};
      buffer.argument =
          m_[b.value].kind == ValueKind::BlockArg && BlockId(m_[b.value].owner) == m_[func_].body;
      buffer.returned = returned.contains(static_cast<uint32_t>(i));
      for (const MemoryPlan::Range& r : b.live) {
        const size_t last = std::min<size_t>(r.last, stepAt_.size() - 1);
        buffer.live.emplace_back(stepAt_[std::min<size_t>(r.first, last)], stepAt_[last]);
      }
      s_.buffers.push_back(std::move(buffer));
    }
  }

  // The most live bytes at the positions of each step; of a loop, during it.
  void liveBytes() {
    std::vector<int64_t> change(stepAt_.size() + 1, 0);
    for (const MemoryPlan::Buffer& b : plan_.buffers)
      for (const MemoryPlan::Range& r : b.live) {
        change[std::min<size_t>(r.first, stepAt_.size() - 1)] += b.bytes;
        change[std::min<size_t>(r.last, stepAt_.size() - 1) + 1] -= b.bytes;
      }
    int64_t live = 0;
    for (size_t at = 0; at < stepAt_.size(); ++at) {
      live += change[at];
      if (stepAt_[at] < s_.steps.size())
        s_.steps[stepAt_[at]].live = std::max(s_.steps[stepAt_[at]].live, live);
    }
    for (const auto& [around, end] : within_) { // the innermost first
      int64_t most = s_.steps[around].live;
      for (size_t i = around + 1; i < end; ++i) most = std::max(most, s_.steps[i].live);
      s_.steps[around].live = most;
      if (s_.steps[end - 1].what == "repeat") s_.steps[end - 1].live = most;
    }
  }

  const Module& m_;
  FuncId func_;
  const MemoryPlan& plan_;
  Naming names_;
  StepNames labels_;
  std::unordered_map<OpId, int64_t> numbers_, repeats_; // of reports
  std::vector<size_t> stepAt_;                          // by position: the current step
  size_t filled_ = 0;
  std::vector<std::pair<size_t, size_t>> within_; // a loop or conditional, and the end of the steps in it
  ViewSchedule s_;
};

} // namespace

static Result<ViewSchedule> scheduleOf(const Module& m, FuncId f, const Timeline& timeline) {
  Diagnostics diags;
  const auto plan = readMemoryPlan(m, f, diags);
  if (!plan)
    return inputError(diags.all().empty() ? "the program has no memory plan" : diags.all()[0].message());
  return ScheduleReader(m, f, timeline, *plan).read();
}

Result<std::vector<ViewSchedule>> viewSchedules(Module& m, FuncId entry) {
  std::vector<ViewSchedule> out;
  const std::vector<Timeline> timelines = timelinesOf(m, entry);
  for (FuncId f : functionsOfProgram(m, entry)) {
    auto s = scheduleOf(m, f, timelines[out.size()]);
    if (!s) return s.error();
    out.push_back(*std::move(s));
  }
  return out;
}

std::string scheduleText(const ViewSchedule& s, size_t columns) {
  size_t stream = 6, what = 4, value = 5;
  int64_t max = 1;
  for (const auto& step : s.steps) {
    stream = std::max(stream, step.stream.size());
    what = std::max(what, 2 * step.depth + std::max(step.kind.size(), step.part.size() + 1));
    value = std::max(value, step.value.size());
    max = std::max(max, step.live);
  }
  // Values first: the bar takes what they leave.
  const size_t fixed = 7 + stream + 2 + what + 2 + 2 + 10, room = columns > fixed ? columns - fixed : 0;
  const size_t name = std::clamp<size_t>(room, 12, std::max<size_t>(value, 12));
  const size_t left = room > name + 1 ? std::min<size_t>(room - name - 1, 18) : 0, bar = left < 4 ? 0 : left;
  auto cell = [](const std::string& text, size_t width) {
    const std::string shown = shortenedMiddle(text, width);
    return shown + std::string(width - std::min(width, shown.size()) + 2, ' ');
  };
  std::string text = s.title + "; arena " + bytesText(s.arena) + "\n" + " step  " + cell("stream", stream) +
                     cell("what", what) + cell("value", name) + "    in use\n";
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const auto& step = s.steps[i];
    const std::string indent(2 * step.depth, ' ');
    if (!step.part.empty()) text += std::string(9 + stream, ' ') + indent.substr(1) + step.part + ":\n";
    std::string number = step.number < 0 ? "" : std::to_string(step.number), bytes = bytesText(step.live);
    std::string line = std::string(5 - std::min<size_t>(5, number.size()), ' ') + number + "  " +
                       cell(step.stream, stream) + cell(indent + step.kind, what) + cell(step.value, name) +
                       std::string(10 - std::min<size_t>(10, bytes.size()), ' ') + bytes + " " +
                       std::string(static_cast<size_t>(static_cast<double>(step.live) /
                                                       static_cast<double>(max) * static_cast<double>(bar)),
                                   '#');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

namespace {

// The memory of a function: steps go across, offsets up.
class MemoryDrawing {
public:
  MemoryDrawing(Svg& svg, const ViewSchedule& s, size_t top)
      : svg_(svg), s_(s), top_(top), steps_(std::max<size_t>(s.steps.size(), 1)),
        arena_(static_cast<double>(std::max<int64_t>(s.arena, 1))) {}

  // Returns the lower end.
  size_t draw() {
    svg_.text(10, top_ - 24, s_.title + "; arena " + bytesText(s_.arena), "title");
    svg_.box(kLeft, top_, kWidth, kTall, "frame");
    for (const ViewSchedule::Buffer& b : s_.buffers)
      for (auto [first, last] : b.live) buffer(b, first, last);
    offsets();
    peak();
    steps();
    return legend(top_ + kTall + 44);
  }

private:
  static constexpr size_t kLeft = 130, kWidth = 1000, kTall = 400;

  [[nodiscard]] size_t column(size_t step) const { return kLeft + step * kWidth / steps_; }
  [[nodiscard]] size_t row(double offset) const {
    return top_ + kTall - static_cast<size_t>(std::lround(offset / arena_ * kTall));
  }

  // The number of a step, or of the last one before it.
  [[nodiscard]] int64_t numberAt(size_t step) const {
    for (size_t i = std::min(step, s_.steps.size() - 1) + 1; i-- > 0;)
      if (s_.steps[i].number >= 0) return s_.steps[i].number;
    return 0;
  }

  void buffer(const ViewSchedule::Buffer& b, size_t first, size_t last) {
    const size_t x = column(first), width = std::max<size_t>(column(last + 1) - x, 1),
                 y = row(static_cast<double>(b.offset + b.bytes)),
                 height = std::max<size_t>(row(static_cast<double>(b.offset)) - y, 1);
    const std::string thin = width < 3 || height < 3 ? " thin" : "";
    const std::string kind = b.argument ? "given" : b.returned ? "result" : "cell";
    svg_.box(x, y, width, height, kind + thin,
             b.label + "\n" + bytesText(b.bytes) + " at " + std::to_string(b.offset) + "\nsteps " +
                 std::to_string(numberAt(first)) + " to " + std::to_string(numberAt(last)));
    const size_t letters = width > 8 ? (width - 8) / kLetterWidth : 0;
    if (height >= kLineHeight - 2 && letters >= std::min<size_t>(b.label.size(), 6))
      svg_.text(x + 4, y + height / 2 + 5, shortened(b.label, letters), "fact");
  }

  size_t legend(size_t y) {
    size_t x = kLeft;
    for (const auto& [cls, text] :
         {std::pair("given", "argument"), std::pair("result", "result"), std::pair("cell", "computed")}) {
      svg_.box(x, y - 11, 20, 14, cls);
      svg_.text(x + 28, y, text, "fact");
      x += 140;
    }
    return y + 6;
  }

  void offsets() {
    double step = 1; // a power of two: 4 to 8 of them
    while (step * 8 < arena_) step *= 2;
    for (double offset = 0; offset <= arena_; offset += step) {
      const size_t y = row(offset);
      svg_.line(kLeft - 5, y, kLeft, y);
      svg_.text(kLeft - 8, y + 5, offset == 0 ? "0" : bytesText(static_cast<int64_t>(offset)), "fact end");
    }
  }

  void peak() {
    const auto most = std::ranges::max_element(s_.steps, {}, &ViewSchedule::Step::live);
    if (most == s_.steps.end()) return;
    const auto at = static_cast<size_t>(most - s_.steps.begin());
    const size_t x = (column(at) + column(at + 1)) / 2;
    svg_.line(x, top_, x, top_ + kTall, "peak");
    const std::string text = "most in use: " + bytesText(most->live) + " in " +
                             (most->number < 0 ? "" : "step " + std::to_string(most->number) + ", ") +
                             most->label;
    const bool right = x > kLeft + kWidth / 2;
    svg_.text(x, top_ - 3, text, right ? "fact end" : "fact");
  }

  void steps() {
    const size_t y = top_ + kTall;
    if (s_.steps.empty()) return;
    // At round numbers of steps. Between them are also the rows without a number, such as ends of messages.
    const auto end = static_cast<double>(numberAt(steps_ - 1) + 1);
    const Axis axis = linearAxis(0, end, 10, AxisEnds::Exact);
    for (const Axis::Tick& t : axis.ticks) {
      const int64_t number = std::lround(t.at * end);
      const auto row = std::ranges::find(s_.steps, number, &ViewSchedule::Step::number);
      if (std::abs(t.at * end - static_cast<double>(number)) > 1e-6 || row == s_.steps.end()) continue;
      const auto step = static_cast<size_t>(row - s_.steps.begin());
      const size_t x = (column(step) + column(step + 1)) / 2;
      svg_.line(x, y, x, y + 5);
      svg_.text(x, y + 20, "step " + std::to_string(number), "fact mid");
    }
  }

  Svg& svg_;
  const ViewSchedule& s_;
  size_t top_, steps_;
  double arena_;
};

} // namespace

std::string scheduleSvg(std::span<const ViewSchedule> functions, const ViewTimelines& timelines,
                        const PipelineRun* pipeline) {
  Svg svg;
  size_t y = 20;
  if (pipeline) y = drawPipeline(svg, *pipeline, y) + 40;
  y = drawTimelines(svg, timelines, y) + 40;
  for (const ViewSchedule& s : functions) y = MemoryDrawing(svg, s, y + 40).draw() + 30;
  return svg.finish();
}

std::string scheduleJson(std::span<const ViewSchedule> functions, const StepCost& cost) {
  nlohmann::ordered_json out = {{"step", stepCostJson(cost)}, {"functions", nlohmann::ordered_json::array()}};
  for (const ViewSchedule& s : functions) {
    auto steps = nlohmann::ordered_json::array();
    for (const ViewSchedule::Step& step : s.steps) {
      steps.push_back(
          {{"number", step.number < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(step.number)},
           {"depth", step.depth},
           {"stream", step.stream},
           {"what", step.what},
           {"result", step.result},
           {"kind", step.kind},
           {"value", step.value},
           {"live_bytes", step.live}});
      if (!step.pipelinePart.empty()) steps.back()["part"] = step.pipelinePart;
    }
    out["functions"].push_back({{"title", s.title}, {"arena_bytes", s.arena}, {"steps", std::move(steps)}});
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dtc
