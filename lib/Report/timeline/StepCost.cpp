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
#include "explain/MessageNames.h"
#include "explain/ReportText.h"
#include "timeline/Timeline.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dtc {

namespace {

// What a function's devices receive by `p2p`, which differs between them: in a run, by the index along its axes.
class P2pBytes {
public:
  P2pBytes(const Module& m, const Mesh& mesh) : m_(m), mesh_(mesh) {}

  void add(OpId o, double times, const std::string& label) {
    std::vector<AxisRef> axes = collectiveAxes(m_, o);
    auto of = std::ranges::find(sums_, axes, &Sum::axes);
    if (of == sums_.end()) of = sums_.insert(of, Sum{std::move(axes), label, {}});
    for (const P2pSend& s : sendsOf(m_, o)) {
      if (s.from == s.to) continue;
      const ValueId sent = m_.operand(o, static_cast<uint32_t>(s.operand));
      of->byIndex[s.to] += times * static_cast<double>(largestBytes(m_, m_[sent].type, mesh_).value_or(0));
    }
  }

  // By stream.
  [[nodiscard]] std::map<std::string, double> received(int64_t coordinate) const {
    std::map<std::string, double> out;
    for (const Sum& s : sums_)
      if (const auto at = s.byIndex.find(mesh_.indexAlong(s.axes, coordinate)); at != s.byIndex.end())
        out[s.label] += at->second;
    return out;
  }
  [[nodiscard]] bool empty() const { return sums_.empty(); }

private:
  struct Sum {
    std::vector<AxisRef> axes;
    std::string label;
    std::map<int64_t, double> byIndex;
  };
  const Module& m_;
  const Mesh& mesh_;
  std::vector<Sum> sums_;
};

// The sums of the messages of a function, for its device that receives most. `labelOf`: of a step.
template <class LabelOf>
std::vector<SummaryRow> messagesOf(const Module& m, const Timeline& t, const Mesh& mesh,
                                   const std::vector<int64_t>& devices, const LabelOf& labelOf) {
  std::vector<SummaryRow> rows;
  P2pBytes p2p(m, mesh);
  for (const TimelineStep& s : t.steps) {
    if (s.kind != TimelineStep::Communicate) continue;
    const std::string label = labelOf(s);
    auto row = std::ranges::find(rows, label, &SummaryRow::label);
    if (row == rows.end()) row = rows.insert(rows.end(), SummaryRow{label});
    row->count += static_cast<int64_t>(std::min(s.times, 1e15));
    row->seconds += s.times * s.seconds;
    if (m.record(s.op).collective == CollectiveKind::P2p)
      p2p.add(s.op, s.times, label);
    else
      row->bytes += s.times * s.bytes;
  }
  std::map<std::string, double> most;
  double mostBytes = 0;
  for (size_t i = 0; i < devices.size() && !p2p.empty(); ++i) {
    std::map<std::string, double> received = p2p.received(devices[i]);
    double bytes = 0;
    for (const auto& [label, one] : received) bytes += one;
    if (bytes > mostBytes) mostBytes = bytes, most = std::move(received);
  }
  for (SummaryRow& r : rows)
    if (const auto at = most.find(r.label); at != most.end()) r.bytes += at->second;
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
    std::vector<int64_t> devices;
    for (size_t d = 0; d < programs.of.size(); ++d)
      if (programs.of[d] == f) devices.push_back(static_cast<int64_t>(d));
    std::vector<SummaryRow> rows =
        messagesOf(m, t, mesh, devices, [&](const TimelineStep& s) { return t.streams[s.stream]; });
    const double bytes = bytesOfRows(rows);
    if (bytes <= most) continue;
    most = bytes, out.axes = std::move(rows);
    out.kinds = messagesOf(m, t, mesh, devices, [&](const TimelineStep& s) {
      return std::string(collectiveName(m.record(s.op).collective));
    });
  }
  out.bytesReceived = static_cast<int64_t>(std::llround(std::clamp(most, 0.0, 9e18)));
  return out;
}

std::optional<StepCost> stepCostOf(const Module& program, FuncId entry, const LoweringFlags& flags,
                                   const std::string& target, const CollectiveTrace& trace,
                                   ProgramReport& report) {
  const std::string written = writtenTarget(program, entry);
  Session session(program, entry, flags.pipeline(written.empty() ? target : written));
  Diagnostics quiet;
  if (!session.lower(Stage::Placed, quiet) || quiet.hasErrors()) return std::nullopt;
  nameMessages(report, trace, session.module(), session.entry());
  return stepCostOf(session.module(), session.entry());
}

std::optional<ScheduleCost> scheduleCostOf(const Module& program, FuncId entry, const LoweringFlags& flags,
                                           const std::string& target) {
  const std::string written = writtenTarget(program, entry);
  Session session(program, entry, flags.pipeline(written.empty() ? target : written));
  Diagnostics quiet;
  if (!session.lower(Stage::Placed, quiet) || quiet.hasErrors()) return std::nullopt;
  const auto cost = stepCostOf(session.module(), session.entry());
  return cost ? std::optional(ScheduleCost{cost->seconds, cost->memoryBytes}) : std::nullopt;
}

nlohmann::ordered_json stepCostJson(const StepCost& c) {
  const auto rowsJson = [](const std::vector<SummaryRow>& rows) {
    auto out = nlohmann::ordered_json::array();
    for (const SummaryRow& r : rows)
      out.push_back({{"label", r.label},
                     {"count", r.count},
                     {"bytes_received", std::llround(std::min(r.bytes, 9e18))},
                     {"seconds", r.seconds}});
    return out;
  };
  return {{"target", c.target},
          {"seconds", c.seconds},
          {"bytes_received", c.bytesReceived},
          {"memory_bytes", c.memoryBytes},
          {"complete", c.complete},
          {"axes", rowsJson(c.axes)},
          {"kinds", rowsJson(c.kinds)}};
}

std::string stepMessagesText(const StepCost& c, const ProgramReport& r) {
  const auto countsOf = [](const std::vector<SummaryRow>& rows) {
    std::map<std::string, int64_t> out;
    for (const SummaryRow& row : rows) out[row.label] += row.count;
    return out;
  };
  if (countsOf(c.kinds) == countsOf(r.summary.kinds)) return "";
  return "its messages: " +
         (c.kinds.empty() ? "none"
                          : joined(c.kinds, "; ",
                                   [](const SummaryRow& row) {
                                     return std::to_string(row.count) + " " + row.label + ", " +
                                            bytesText(std::llround(std::min(row.bytes, 9e18)));
                                   })) +
         "\n";
}

std::string stepCostText(const StepCost& c) {
  return "a step takes " + timeText(c.seconds) + ", receives " + bytesText(c.bytesReceived) + " and needs " +
         bytesText(c.memoryBytes) + " on a device: the schedule for " + c.target +
         (c.complete ? "" : ", in which unknown loops run once") + "\n";
}

} // namespace dtc
