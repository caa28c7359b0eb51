#include "trace/TraceDrawing.h"

#include "dtc/Support/Units.h"
#include "explain/ReportText.h"

#include <algorithm>
#include <cmath>

namespace dtc {

std::vector<size_t> devicesToDraw(const TraceComparison& c, size_t most) {
  std::vector<size_t> chosen;
  const auto add = [&](size_t device) {
    if (chosen.size() < most && std::ranges::find(chosen, device) == chosen.end()) chosen.push_back(device);
  };
  for (size_t f = 0; f < c.functions.size(); ++f)
    if (const auto first = std::ranges::find(c.functionOf, static_cast<uint32_t>(f));
        first != c.functionOf.end())
      add(static_cast<size_t>(first - c.functionOf.begin()));
  const auto longest = std::ranges::max_element(c.measured, {}, &DeviceTime::computing);
  if (longest != c.measured.end()) add(static_cast<size_t>(longest - c.measured.begin()));
  for (size_t d = 0; d < c.devices.size(); ++d) add(d);
  std::ranges::sort(chosen);
  return chosen;
}

TraceScale scaleOf(const TraceComparison& c) {
  constexpr double kSeen = 8; // a row of less than this part of the other one shows nothing
  const double longest = std::max(c.seconds, c.modelledSeconds);
  if (longest <= 0) return {};
  const double shortest = std::min(c.seconds, c.modelledSeconds);
  if (shortest * kSeen >= longest || shortest <= 0) return {longest, longest};
  return {c.seconds, c.modelledSeconds};
}

std::vector<uint32_t> streamsAt(const TraceComparison& c, size_t device) {
  std::vector<uint32_t> streams;
  for (const auto* bars : {&c.measuredBars[device], &c.modelledBars[c.functionOf[device]]})
    for (const TraceBar& bar : *bars)
      if (std::ranges::find(streams, bar.stream) == streams.end()) streams.push_back(bar.stream);
  std::ranges::sort(streams);
  return streams;
}

std::string durationText(double seconds) { return seconds == 0 ? "0" : timeText(seconds); }

std::string ratioText(double measured, double modelled) {
  if (measured <= 0 || modelled <= 0) return "-";
  const double ratio = measured / modelled;
  return significant(ratio, ratio >= 100 && ratio < 1e6 ? static_cast<int>(std::log10(ratio)) + 1 : 2);
}

std::string addedText(double seconds) { return (seconds < 0 ? "-" : "+") + durationText(std::abs(seconds)); }

// Which of the model's times it is: `dtc report` states that of the nominal machine.
static const char* ratesText(TraceComparison::Of of) {
  switch (of) {
  case TraceComparison::Of::Measured: return " at the rates that it measured";
  case TraceComparison::Of::Given: return " at the given rates";
  case TraceComparison::Of::Nominal: break;
  }
  return " on the nominal machine";
}

std::string traceTitle(const TraceComparison& c) {
  const std::string ratio = ratioText(c.seconds, c.modelledSeconds);
  return c.program + " on " + c.backend + (c.mesh.empty() ? "" : ", mesh [" + c.mesh + "]") +
         ": a run takes " + durationText(c.seconds) + ", modelled " + durationText(c.modelledSeconds) +
         ratesText(c.machineOf) + (ratio == "-" ? "" : " (" + ratio + " : 1)");
}

static std::string rateText(double perSecond, const char* unit) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [size, name] : kUnits)
    if (perSecond >= size) return significant(perSecond / size) + " " + name + unit;
  return significant(perSecond) + " " + unit;
}

std::string machineText(const TraceComparison& c) {
  const NominalMachine& m = c.machine;
  return "the model's device: " + rateText(m.flopsPerSecond, "flop/s") + ", memory " +
         rateText(m.memoryBytesPerSecond, "B/s") + "; links " + rateText(m.link.bytesPerSecond, "B/s") +
         ", " + durationText(m.link.latencySeconds) + " a message, " + durationText(m.launchSeconds) +
         " a collective";
}

std::string machineSource(const TraceComparison& c) {
  switch (c.machineOf) {
  case TraceComparison::Of::Measured:
    return "(a device's share of the rates that the run measured; half of the memory's for links; --machine "
           "nominal has the times of dtc report)";
  case TraceComparison::Of::Given: return "(given by --machine)";
  case TraceComparison::Of::Nominal: break;
  }
  return "(the nominal machine; --machine flops=N,memory=N,link=N sets another)";
}

std::string streamLabel(const std::string& stream) {
  return stream == "compute" || stream == "host" ? stream : "over " + stream;
}

std::vector<TimeRow> timeRows(const TraceComparison& c) {
  const DeviceTime measured = c.meanMeasured(), modelled = c.meanModelled();
  return {{"computation", measured.computing, modelled.computing},
          {"exposed messages", measured.exposed, modelled.exposed},
          {"  waiting for others", measured.waiting, modelled.waiting},
          {"idle", measured.idle(), modelled.idle()},
          {"a run", measured.seconds, modelled.seconds}};
}

} // namespace dtc
