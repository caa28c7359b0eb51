// A pipeline over time.
#include "dtc/Report/view/View.h"
#include "explain/ReportText.h"
#include "view/PipelineDrawing.h"
#include "view/Svg.h"

#include <algorithm>
#include <cmath>

namespace dtc {
namespace {

constexpr std::string_view kLetters = "FBW";

// "F3"; with several stages per device "F3.1", of chunk 1.
std::string labelOf(const PipelineRun& run, const PipelineAction& a) {
  std::string label = kLetters[static_cast<size_t>(a.phase)] + std::to_string(a.microbatch);
  if (run.shape.chunks > 1) label += "." + std::to_string(a.stage / run.shape.devices);
  return label;
}

double lengthOf(const PipelineRun& run) {
  double end = 0;
  for (const auto& actions : run.order)
    for (const PipelineAction& a : actions) end = std::max(end, a.end);
  return end;
}

size_t longestLabel(const PipelineRun& run) {
  size_t longest = 0;
  for (const auto& actions : run.order)
    for (const PipelineAction& a : actions) longest = std::max(longest, labelOf(run, a).size());
  return longest;
}

// The columns that the whole diagram needs so that the shortest part has room for its label.
double columnsNeeded(const PipelineRun& run, size_t label) {
  double shortest = lengthOf(run);
  for (const auto& actions : run.order)
    for (const PipelineAction& a : actions)
      if (a.end > a.begin) shortest = std::min(shortest, a.end - a.begin);
  return shortest > 0 ? lengthOf(run) / shortest * static_cast<double>(label + 1) : INFINITY;
}

std::string rowName(size_t device) { return "pp=" + std::to_string(device); }

std::string timedRow(const PipelineRun& run, size_t device, size_t columns) {
  const double scale = static_cast<double>(columns) / lengthOf(run);
  std::string row(columns, ' ');
  for (const PipelineAction& a : run.order[device]) {
    const auto begin = static_cast<size_t>(std::lround(a.begin * scale));
    const auto end = std::min(static_cast<size_t>(std::lround(a.end * scale)), columns);
    const std::string label = labelOf(run, a);
    if (end <= begin) continue;
    row.replace(begin, end - begin, std::string(end - begin - 1, '-') + " ");
    row.replace(begin, std::min(label.size(), end - begin), label.substr(0, end - begin));
  }
  return row.substr(0, row.find_last_not_of(' ') + 1);
}

std::string orderRow(const PipelineRun& run, size_t device, size_t columns) {
  std::string row;
  double now = 0;
  for (const PipelineAction& a : run.order[device]) {
    const bool waits = a.begin > now + 1e-12 * lengthOf(run);
    const std::string next = (row.empty() ? "" : " ") + std::string(waits ? ". " : "") + labelOf(run, a);
    if (row.size() + next.size() + 4 > columns) return row + " ...";
    row += next;
    now = a.end;
  }
  return row;
}

} // namespace

std::string pipelineText(const PipelineRun& run, size_t columns) {
  std::string text = pipelineTitle(run) + "\n";
  const size_t name = rowName(run.order.size() - 1).size() + 2;
  const size_t room = columns > name + 20 ? columns - name : 20;
  const bool timed = columnsNeeded(run, longestLabel(run)) <= static_cast<double>(room);
  for (size_t d = 0; d < run.order.size(); ++d) {
    std::string line = " " + rowName(d);
    line.resize(name + 1, ' ');
    text += line + (timed ? timedRow(run, d, room) : orderRow(run, d, room)) + "\n";
  }
  text += timed ? " F: forward, B: backward" : " in order, '.': waits; F: forward, B: backward";
  if (run.shape.splitsWeights) text += ", W: gradients of weights";
  return text + "; a step takes " + timeText(lengthOf(run)) +
         " on the nominal machine without the messages between stages\n";
}

size_t drawPipeline(Svg& svg, const PipelineRun& run, size_t top) {
  constexpr size_t kRow = 30, kLeft = 70;
  constexpr std::string_view kFills[] = {"#bcd7f0", "#c4e8cd", "#f3ddb3"}; // by phase
  const size_t label = longestLabel(run);
  const double width = std::clamp(columnsNeeded(run, label) * kLetterWidth, 600.0, 1600.0);
  const double scale = width / std::max(lengthOf(run), 1e-30);
  svg.text(10, top, pipelineTitle(run), "title");
  for (size_t d = 0; d < run.order.size(); ++d) {
    const size_t y = top + 20 + d * kRow;
    svg.text(10, y + 17, rowName(d), "fact");
    for (const PipelineAction& a : run.order[d]) {
      const auto x = kLeft + static_cast<size_t>(std::lround(a.begin * scale));
      const auto end = kLeft + static_cast<size_t>(std::lround(a.end * scale));
      if (end <= x) continue;
      const std::string text = labelOf(run, a);
      svg.box(x, y, end - x, kRow - 4, "cell", text + "\n" + timeText(a.begin) + " to " + timeText(a.end),
              kFills[static_cast<size_t>(a.phase)]);
      if (text.size() * kLetterWidth + 4 <= end - x) svg.text(x + 3, y + 17, text, "on");
    }
  }
  const size_t axis = top + 20 + run.order.size() * kRow + 10;
  const auto right = kLeft + static_cast<size_t>(width);
  drawTimeAxis(svg, lengthOf(run), kLeft, right, axis);
  std::string key = "F: forward, B: backward";
  if (run.shape.splitsWeights) key += ", W: gradients of weights";
  svg.text(kLeft, axis + 42, key + "; times on the nominal machine, without the messages between stages",
           "fact");
  return axis + 42;
}

} // namespace dtc
