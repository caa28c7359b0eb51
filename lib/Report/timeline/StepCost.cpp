#include "dtc/Report/explain/StepCost.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Passes/analysis/Collectives.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Passes/memory/PlanMemory.h"
#include "dtc/Session/Session.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include "explain/ReportText.h"
#include "timeline/Timeline.h"

#include <algorithm>
#include <cmath>

namespace dtc {

namespace {

// What the device at `coordinate` receives in a `p2p`, whose price is that of the device that receives most.
double receivedAt(const Module& m, OpId o, const Mesh& mesh, int64_t coordinate) {
  const std::vector<AxisRef> axes = collectiveAxes(m, o);
  const int64_t own = mesh.indexAlong(axes, coordinate);
  double bytes = 0;
  for (const P2pSend& s : sendsOf(m, o))
    if (s.to == own && s.from != own)
      bytes += static_cast<double>(
          largestBytes(m, m[m.operand(o, static_cast<uint32_t>(s.operand))].type, mesh).value_or(0));
  return bytes;
}

// The sums of the messages of a function, for its first device.
std::vector<SummaryRow> messagesOf(const Module& m, const Timeline& t, const Mesh& mesh, int64_t coordinate) {
  std::vector<SummaryRow> rows;
  for (const TimelineStep& s : t.steps) {
    if (s.kind != TimelineStep::Communicate) continue;
    const bool p2p = m.record(s.op).collective == CollectiveKind::P2p;
    const std::string& label = t.streams[s.stream];
    auto row = std::ranges::find(rows, label, &SummaryRow::label);
    if (row == rows.end()) row = rows.insert(rows.end(), SummaryRow{label});
    row->count += static_cast<int64_t>(std::min(s.times, 1e15));
    row->bytes += s.times * (p2p ? receivedAt(m, s.op, mesh, coordinate) : s.bytes);
    row->seconds += s.times * s.seconds;
  }
  std::ranges::sort(rows, {}, [](const SummaryRow& r) { return std::pair(-r.seconds, r.label); });
  return rows;
}

double bytesOfRows(const std::vector<SummaryRow>& rows) {
  double bytes = 0;
  for (const SummaryRow& r : rows) bytes += r.bytes;
  return bytes;
}

} // namespace

std::optional<StepCost> stepCostOf(Module& m, FuncId entry) {
  StepCost out;
  out.target = writtenTarget(m, entry);
  if (out.target.empty()) out.target = "cpu";
  const std::vector<Timeline> timelines = timelinesOf(m, entry);
  const DevicePrograms programs = programsOf(m, entry);
  const Mesh mesh = meshValueOf(m, entry);
  Diagnostics quiet;
  double most = -1;
  for (size_t f = 0; f < programs.functions.size(); ++f) {
    const Timeline& t = timelines[f];
    const auto plan = readMemoryPlan(m, programs.functions[f], quiet);
    if (!plan) return std::nullopt;
    out.memoryBytes = std::max(out.memoryBytes, plan->arenaBytes);
    out.seconds = std::max(out.seconds, t.seconds);
    out.complete = out.complete && t.complete;
    const auto first = std::ranges::find(programs.of, static_cast<uint32_t>(f)) - programs.of.begin();
    std::vector<SummaryRow> rows = messagesOf(m, t, mesh, first);
    const double bytes = bytesOfRows(rows);
    if (bytes > most) most = bytes, out.axes = std::move(rows);
  }
  out.bytesReceived = static_cast<int64_t>(std::llround(std::clamp(most, 0.0, 9e18)));
  return out;
}

std::optional<StepCost> stepCostOf(const Module& program, FuncId entry, const LoweringFlags& flags,
                                   const std::string& target) {
  const std::string written = writtenTarget(program, entry);
  Session session(program, entry, flags.pipeline(written.empty() ? target : written));
  Diagnostics quiet;
  if (!session.lower(Stage::Placed, quiet) || quiet.hasErrors()) return std::nullopt;
  return stepCostOf(session.module(), session.entry());
}

nlohmann::ordered_json stepCostJson(const StepCost& c) {
  auto axes = nlohmann::ordered_json::array();
  for (const SummaryRow& r : c.axes)
    axes.push_back({{"label", r.label},
                    {"count", r.count},
                    {"bytes_received", std::llround(std::min(r.bytes, 9e18))},
                    {"seconds", r.seconds}});
  return {{"target", c.target},
          {"seconds", c.seconds},
          {"bytes_received", c.bytesReceived},
          {"memory_bytes", c.memoryBytes},
          {"complete", c.complete},
          {"axes", std::move(axes)}};
}

std::string stepCostText(const StepCost& c) {
  return "a step takes " + timeText(c.seconds) + ", receives " + bytesText(c.bytesReceived) + " and needs " +
         bytesText(c.memoryBytes) + " on a device: the schedule for " + c.target +
         (c.complete ? "" : ", in which unknown loops run once") + "\n";
}

} // namespace dtc
