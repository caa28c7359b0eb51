// A comparison as JSON (docs/cli.md).
#include "dtc/Report/trace/TraceComparison.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace dtc {
namespace {

using Json = nlohmann::ordered_json;

// Microseconds, to the picosecond.
double us(double seconds) { return std::round(seconds * 1e12) / 1e6; }

Json timeJson(const DeviceTime& t) {
  return {{"us", us(t.seconds)},
          {"compute_us", us(t.computing)},
          {"exposed_us", us(t.exposed)},
          {"waiting_us", us(t.waiting)},
          {"idle_us", us(t.idle())}};
}

Json barsJson(const std::vector<TraceBar>& bars) {
  Json out = {{"columns", {"stream", "op", "begin_us", "us", "exposed_us", "waiting_us", "repeats"}},
              {"rows", Json::array()}};
  for (const TraceBar& b : bars)
    out["rows"].push_back(
        {b.stream, b.op, us(b.begin), us(b.seconds), us(b.exposed), us(b.waited), b.repeats});
  return out;
}

const char* machineWord(TraceComparison::Of of) {
  switch (of) {
  case TraceComparison::Of::Measured: return "measured";
  case TraceComparison::Of::Given: return "given";
  case TraceComparison::Of::Nominal: break;
  }
  return "nominal";
}

} // namespace

std::string comparisonJson(const TraceComparison& c) {
  Json out = {{"format", 1}, {"program", c.program}, {"backend", c.backend}, {"mesh", c.mesh}};
  out["machine"] = {{"of", machineWord(c.machineOf)},
                    {"flops_per_second", c.machine.flopsPerSecond},
                    {"memory_bytes_per_second", c.machine.memoryBytesPerSecond},
                    {"link_bytes_per_second", c.machine.link.bytesPerSecond},
                    {"link_latency_seconds", c.machine.link.latencySeconds},
                    {"launch_seconds", c.machine.launchSeconds}};
  out["complete"] = c.complete;
  out["measured"] = timeJson(c.meanMeasured()), out["modelled"] = timeJson(c.meanModelled());
  out["streams"] = c.streams;
  out["ops"] = Json::array();
  for (const TraceOp& op : c.ops) {
    Json one = {
        {"function", c.functions[op.function]}, {"name", op.name}, {"value", op.value}, {"place", op.place}};
    if (!op.part.empty()) one["part"] = op.part;
    one["executions"] = op.runs;
    one["measured_us"] = us(op.measured), one["modelled_us"] = us(op.modelled);
    one["ratio"] = op.modelled > 0 ? Json(std::round(op.measured / op.modelled * 1e6) / 1e6) : Json();
    if (op.message) one["exposed_us"] = us(op.exposed), one["modelled_exposed_us"] = us(op.modelledExposed);
    one["adds_us"] = us(c.addedToRun(op));
    out["ops"].push_back(std::move(one));
  }
  out["functions"] = Json::array();
  for (size_t f = 0; f < c.functions.size(); ++f)
    out["functions"].push_back({{"name", c.functions[f]},
                                {"modelled", timeJson(c.modelled[f])},
                                {"bars", barsJson(c.modelledBars[f])}});
  out["devices"] = Json::array();
  for (size_t d = 0; d < c.devices.size(); ++d)
    out["devices"].push_back({{"name", c.devices[d]},
                              {"function", c.functionOf[d]},
                              {"measured", timeJson(c.measured[d])},
                              {"bars", barsJson(c.measuredBars[d])}});
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace dtc
