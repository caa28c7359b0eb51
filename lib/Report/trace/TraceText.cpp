// A comparison as text.
#include "explain/StepParts.h"
#include "timeline/Strip.h"
#include "trace/TraceDrawing.h"
#include "view/Svg.h"

#include <algorithm>
#include <cmath>

namespace dtc {
namespace {

constexpr size_t kListedOps = 20, kListedDevices = 4;

using Rows = std::vector<std::vector<std::string>>;

// Columns from `right` on are aligned at their right, up to the last one before `left`.
std::string tableText(const Rows& rows, size_t right, size_t left) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths.size() <= c) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - row[c].size(), ' ');
      line += (c ? "  " : " ") + (c >= right && c < left ? pad + row[c] : row[c] + pad);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

// What the ops add, and what else is part of a run.
std::string sumText(const TraceComparison& c) {
  const DeviceTime measured = c.meanMeasured(), modelled = c.meanModelled();
  const double run = measured.seconds - modelled.seconds, idle = measured.idle() - modelled.idle();
  double ops = 0;
  for (const TraceOp& op : c.ops) ops += c.addedToRun(op);
  const double rest = run - idle - ops;
  std::string text =
      " a run adds " + addedText(run) + ": ops " + addedText(ops) + ", idle " + addedText(idle);
  if (std::abs(rest) > 1e-3 * measured.seconds)
    text += ", copies of carried results and ops at the same time " + addedText(rest);
  return text + "\n";
}

std::string opsText(const TraceComparison& c, size_t columns) {
  const bool several = c.functions.size() > 1;
  // Micro-batches of a pipeline run equal ops.
  const bool parts = std::ranges::any_of(c.ops, [](const TraceOp& op) { return !op.part.empty(); });
  Rows rows = {{"op", "value", "measured", "modelled", "ratio", "adds", "where"}};
  if (parts) rows[0].insert(rows[0].begin() + 2, "part");
  const size_t room = std::max<size_t>(columns > 92 ? 24 + (columns - 92) / 2 : 24, 12);
  double rest = 0;
  for (size_t i = 0; i < c.ops.size(); ++i) {
    const TraceOp& op = c.ops[i];
    if (i >= kListedOps) {
      rest += c.addedToRun(op);
      continue;
    }
    std::string value = op.value;
    if (several) value = c.functions[op.function] + ":" + value;
    rows.push_back({shortened(op.name, room),
                    shortenedMiddle(value, std::clamp<size_t>(columns > 72 ? columns - 72 : 0, 20, 40)),
                    durationText(op.measured), durationText(op.modelled), ratioText(op.measured, op.modelled),
                    addedText(c.addedToRun(op)), op.place});
    if (parts) rows.back().insert(rows.back().begin() + 2, op.part);
  }
  std::string text = tableText(rows, parts ? 3 : 2, parts ? 7 : 6);
  if (c.ops.size() > kListedOps)
    text += " " + std::to_string(c.ops.size() - kListedOps) + " more ops add " + addedText(rest) +
            " (--json lists all)\n";
  if (parts) text += std::string(" ") + kStepPartLegend + "\n";
  return text + " adds: measured less modelled; of a message, of its exposed part" +
         (several ? "; the mean of all devices, of which\n those of one function run an op" : "") + "\n" +
         sumText(c);
}

std::string barsText(const std::vector<TraceBar>& bars, uint32_t stream, const TraceComparison& c,
                     double seconds, size_t room) {
  Strip strip(seconds, room);
  const bool message = c.streams[stream] != "compute" && c.streams[stream] != "host";
  const bool measured =
      &bars >= c.measuredBars.data() && &bars < c.measuredBars.data() + c.measuredBars.size();
  for (const TraceBar& bar : bars) {
    if (bar.stream != stream) continue;
    // Measured messages begin when their device has come; modelled ones when all have.
    const double begin = measured ? bar.begin : bar.begin - bar.waited, work = begin + bar.waited;
    strip.add(Strip::Waits, begin, work);
    strip.add(message           ? Strip::Message
              : bar.repeats > 0 ? Strip::Repeats
                                : Strip::Computes,
              work, bar.begin + bar.seconds);
  }
  return strip.text();
}

std::string deviceText(const TraceComparison& c, size_t device, size_t columns) {
  std::string text = "\n device " + c.devices[device];
  if (c.functions.size() > 1) text += " (" + c.functions[c.functionOf[device]] + ")";
  text += "\n";
  size_t name = 0;
  for (uint32_t s : streamsAt(c, device)) name = std::max(name, streamLabel(c.streams[s]).size());
  const size_t left = name + 16;
  const size_t room = columns > left + 20 ? columns - left : 20;
  const TraceScale scale = scaleOf(c);
  for (uint32_t s : streamsAt(c, device)) {
    const auto line = [&](std::string label, const char* what, const std::string& bars) {
      label.resize(name, ' ');
      text += "  " + label + "  " + what + " |" + bars + "|\n";
    };
    line(streamLabel(c.streams[s]), "measured", barsText(c.measuredBars[device], s, c, scale.measured, room));
    line("", "modelled", barsText(c.modelledBars[c.functionOf[device]], s, c, scale.modelled, room));
  }
  const auto axis = [&](double end) {
    const std::string label = durationText(end);
    return std::string(left - 2, ' ') + "0" +
           std::string(room > label.size() ? room - label.size() + 1 : 1, ' ') + label;
  };
  if (scale.same()) return text + axis(scale.measured) + "\n";
  return text + axis(scale.measured) + " measured\n" + axis(scale.modelled) + " modelled\n";
}

} // namespace

std::string comparisonText(const TraceComparison& c, size_t columns) {
  std::string text = traceTitle(c) + "\n" + machineText(c) + "\n" + machineSource(c) + "\n";
  if (!c.complete)
    text += "the model does not know all sizes and loops: unknown ones count as nothing, or once\n";
  Rows rows = {
      {c.devices.size() == 1 ? "a device's time" : "mean of " + std::to_string(c.devices.size()) + " devices",
       "measured", "modelled", "ratio"}};
  for (const TimeRow& r : timeRows(c))
    rows.push_back(
        {r.name, durationText(r.measured), durationText(r.modelled), ratioText(r.measured, r.modelled)});
  text += "\n" + tableText(rows, 1, 4) + "\n" + opsText(c, columns);
  const std::vector<size_t> devices = devicesToDraw(c, kListedDevices);
  for (size_t d : devices) text += deviceText(c, d, columns);
  if (!scaleOf(c).same()) text += " rows of the measurement and of the model have different scales\n";
  bool repeats = false;
  for (const auto& bars : c.modelledBars)
    repeats = repeats || std::ranges::any_of(bars, [](const TraceBar& b) { return b.repeats > 0; });
  text += Strip::legend(repeats) + "\n";
  if (devices.size() < c.devices.size())
    text += " " + std::to_string(c.devices.size() - devices.size()) +
            " more devices are not drawn (--json has all)\n";
  return text;
}

} // namespace dtc
