// A scheduled function over time: its steps by stream, its buffers by their memory offset.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Naming.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Report/explain/StepCost.h"
#include "dtc/Report/view/View.h"
#include "dtc/Support/Units.h"
#include "explain/ReportText.h"
#include "view/PipelineDrawing.h"
#include "view/Svg.h"

#include <algorithm>

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

static ViewSchedule::Step stepOf(const Module& m, OpId o, const Naming& names) {
  const OpRecord& record = m.record(o);
  ViewSchedule::Step step;
  step.what = record.name;
  step.stream = isLoadTimeOp(m, o) ? "load" : record.isCollective() ? "comm" + axesText(m, o) : "compute";
  if (AttrId kind = m.attr(o, "kind"); kind.valid() && record.regions == RegionKind::Fused)
    step.what = std::string(m.strings[m.attrs[kind].text]);
  for (uint32_t r = 0; r < m[o].numResults; ++r) step.result += (r ? ", " : "") + names(m.result(o, r));
  return step;
}

Result<ViewSchedule> viewSchedule(const Module& m, FuncId f) {
  Diagnostics diags;
  auto plan = readMemoryPlan(m, f, diags);
  if (!plan)
    return inputError(diags.all().empty() ? "the program has no memory plan" : diags.all()[0].message());
  ViewSchedule s;
  const std::string devices = devicesText(m, f);
  s.title =
      "func @" + std::string(m.strings[m[f].name]) + ", on " + (devices.empty() ? "each device" : devices);
  s.arena = plan->arenaBytes;
  const Naming names(m, f);
  std::vector<size_t> stepAt(plan->numPositions + 1, 0); // by position: the current step
  size_t filled = 0;
  for (OpId o : m[m[f].body].ops) {
    auto at = plan->position.find(o);
    const size_t end =
        at == plan->position.end() ? filled : std::min<size_t>(at->second[1] + 1, stepAt.size());
    for (; filled < end; ++filled) stepAt[filled] = s.steps.size();
    s.steps.push_back(stepOf(m, o, names));
  }
  for (; filled < stepAt.size() && !s.steps.empty(); ++filled) stepAt[filled] = s.steps.size() - 1;
  for (const MemoryPlan::Buffer& b : plan->buffers) {
    ViewSchedule::Buffer buffer{names(b.value), b.offset, b.bytes, {}};
    for (const MemoryPlan::Range& r : b.live) {
      const size_t last = std::min<size_t>(r.last, stepAt.size() - 1);
      buffer.live.emplace_back(stepAt[std::min<size_t>(r.first, last)], stepAt[last]);
      for (size_t i = buffer.live.back().first; i <= buffer.live.back().second && i < s.steps.size(); ++i)
        if (buffer.live.size() == 1 || i > buffer.live[buffer.live.size() - 2].second)
          s.steps[i].live += b.bytes;
    }
    s.buffers.push_back(std::move(buffer));
  }
  return s;
}

std::string scheduleText(const ViewSchedule& s, size_t columns) {
  size_t stream = 6, what = 4;
  int64_t max = 1;
  for (const auto& step : s.steps) {
    stream = std::max(stream, step.stream.size());
    what = std::max(what, step.what.size());
    max = std::max(max, step.live);
  }
  const size_t fixed = 6 + stream + 2 + what + 2 + 11 + 2, bar = 20;
  const size_t name = std::max<size_t>(columns > fixed + bar ? columns - fixed - bar : 0, 12);
  auto cell = [](std::string text, size_t width) {
    text = shortened(text, std::max<size_t>(width, 4));
    return text + std::string(width - std::min(width, text.size()) + 2, ' ');
  };
  std::string text = s.title + "; arena " + bytesText(s.arena) + "\n" + " step  " + cell("stream", stream) +
                     cell("what", what) + cell("result", name - 2) + "    in use\n";
  for (size_t i = 0; i < s.steps.size(); ++i) {
    const auto& step = s.steps[i];
    std::string number = std::to_string(i), bytes = bytesText(step.live);
    std::string line =
        std::string(5 - std::min<size_t>(5, number.size()), ' ') + number + "  " + cell(step.stream, stream) +
        cell(step.what, what) + cell(step.result, name - 2) +
        std::string(10 - std::min<size_t>(10, bytes.size()), ' ') + bytes + " " +
        std::string(static_cast<size_t>(static_cast<double>(step.live) / static_cast<double>(max) *
                                        static_cast<double>(bar - 2)),
                    '#');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

constexpr size_t kStep = 26, kLane = 30, kLeft = 130;

// One lane per stream, one box per step.
static size_t drawStreams(Svg& svg, const ViewSchedule& s, size_t y) {
  std::vector<std::string> lanes;
  for (size_t i = 0; i < s.steps.size(); ++i) {
    auto lane = std::find(lanes.begin(), lanes.end(), s.steps[i].stream);
    if (lane == lanes.end()) lane = lanes.insert(lanes.end(), s.steps[i].stream);
    const size_t row = y + static_cast<size_t>(lane - lanes.begin()) * kLane;
    const auto& step = s.steps[i];
    svg.box(kLeft + i * kStep, row, kStep, kLane - 6, step.stream.starts_with("comm") ? "collective" : "cell",
            std::to_string(i) + ": " + step.result + " = " + step.what + "\n" + bytesText(step.live) +
                " in use");
  }
  for (size_t l = 0; l < lanes.size(); ++l) svg.text(10, y + l * kLane + 16, lanes[l], "fact");
  return y + lanes.size() * kLane;
}

// Returns the lower end.
static size_t drawFunction(Svg& svg, const ViewSchedule& s, size_t top) {
  constexpr double kTall = 400;
  svg.text(10, top, s.title + "; arena " + bytesText(s.arena), "title");
  const size_t y = drawStreams(svg, s, top + 20) + 20;
  svg.text(10, y + 14, "memory", "fact");
  svg.box(kLeft, y, std::max<size_t>(s.steps.size(), 1) * kStep, static_cast<size_t>(kTall), "frame");
  const double scale = kTall / static_cast<double>(std::max<int64_t>(s.arena, 1));
  for (const auto& b : s.buffers)
    for (auto [first, last] : b.live)
      svg.box(kLeft + first * kStep, y + static_cast<size_t>(static_cast<double>(b.offset) * scale),
              (last - first + 1) * kStep,
              std::max<size_t>(static_cast<size_t>(static_cast<double>(b.bytes) * scale), 1), "cell",
              b.value + "\n" + bytesText(b.bytes) + " at " + std::to_string(b.offset));
  return y + static_cast<size_t>(kTall);
}

std::string scheduleSvg(std::span<const ViewSchedule> functions, const ViewTimelines& timelines,
                        const PipelineRun* pipeline) {
  Svg svg;
  size_t y = 20;
  if (pipeline) y = drawPipeline(svg, *pipeline, y) + 40;
  y = drawTimelines(svg, timelines, y) + 40;
  for (const ViewSchedule& s : functions) y = drawFunction(svg, s, y) + 40;
  return svg.finish();
}

std::string scheduleJson(std::span<const ViewSchedule> functions, const StepCost& cost) {
  nlohmann::ordered_json out = {{"step", stepCostJson(cost)}, {"functions", nlohmann::ordered_json::array()}};
  for (const ViewSchedule& s : functions) {
    auto steps = nlohmann::ordered_json::array();
    for (const ViewSchedule::Step& step : s.steps)
      steps.push_back(
          {{"stream", step.stream}, {"what", step.what}, {"result", step.result}, {"live_bytes", step.live}});
    out["functions"].push_back({{"title", s.title}, {"arena_bytes", s.arena}, {"steps", std::move(steps)}});
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dtc
