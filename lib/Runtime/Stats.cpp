#include "dtc/Runtime/Trace.h"

#include "dtc/Support/Json.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace dtc {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  char text[256];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(text, sizeof text, pattern, args);
  va_end(args);
  return text;
}

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

std::string rate(int64_t amount, double ns, const char* unit) {
  return amount && ns > 0 ? format("%.2f %s", static_cast<double>(amount) / ns, unit) : "";
}

} // namespace

void RunStats::add(const Executable& e) {
  calls_.resize(e.steps().size());
  ns_.resize(e.steps().size());
  for (const StepEvent& ev : e.events()) {
    ++calls_[ev.step];
    ns_[ev.step] += ev.endNs - (ev.workNs ? ev.workNs : ev.beginNs);
  }
}

std::vector<StatsRow> RunStats::rows(const Executable& e, const Module& m) const {
  std::vector<StatsRow> rows;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const StepInfo& s = e.steps()[i];
    if (!calls_[i]) continue;
    std::string where = m.source.name + ":" + std::to_string(s.line.line);
    rows.push_back({s.name, s.what, s.op, where, calls_[i], ns_[i], s.bytes, s.flops});
  }
  return rows;
}

std::string RunStats::text(const Executable& e, const Module& m) const {
  std::string out = format("%-28s %-11s %7s %11s %10s %11s  %s\n", "step", "kind", "calls", "mean us",
                           "bytes", "rate", "where");
  int64_t sent = 0, collectives = 0, runs = std::max<int64_t>(1, static_cast<int64_t>(runMs.size()));
  for (const StatsRow& r : rows(e, m)) {
    double ns = static_cast<double>(r.totalNs) / static_cast<double>(r.calls);
    std::string speed = r.flops > r.bytes * 8 ? rate(r.flops, ns, "GFLOP/s") : rate(r.bytes, ns, "GB/s");
    out += format("%-28.28s %-11s %7lld %11.1f %10s %11s  %s\n", r.name.c_str(), r.what.c_str(),
                  static_cast<long long>(r.calls / runs), ns / 1e3, r.bytes ? bytesText(r.bytes).c_str() : "",
                  speed.c_str(), r.where.c_str());
    if (r.what == "collective") {
      collectives += r.calls / runs / e.mesh().numDevices();
      sent += r.bytes * (r.calls / runs / e.mesh().numDevices());
    }
  }
  out += format("collectives: %lld, a device sends %s\n", static_cast<long long>(collectives),
                bytesText(sent).c_str());
  out += e.memoryReport().text();
  if (!runMs.empty())
    out += format("time: %.3f ms a run (median of %zu, least %.3f)\n", median(runMs), runMs.size(),
                  *std::min_element(runMs.begin(), runMs.end()));
  out += "before the run:";
  for (const Backend::Phase& p : phases)
    out += format(" %s %.1f ms%s", p.name.c_str(), p.milliseconds, &p == &phases.back() ? "\n" : ",");
  return out;
}

std::string RunStats::json(const Executable& e, const Module& m) const {
  std::string out = "{\"steps\": [";
  bool first = true;
  for (const StatsRow& r : rows(e, m)) {
    out += first ? "\n" : ",\n";
    first = false;
    out += "  {\"name\": " + jsonString(r.name) + ", \"kind\": " + jsonString(r.what) +
           ", \"op\": " + jsonString(r.op) + ", \"where\": " + jsonString(r.where) +
           ", \"calls\": " + std::to_string(r.calls) + ", \"ns\": " + std::to_string(r.totalNs) +
           ", \"bytes\": " + std::to_string(r.bytes) + ", \"flops\": " + std::to_string(r.flops) + "}";
  }
  out += "],\n \"devices\": " + std::to_string(e.mesh().numDevices()) +
         ", \"arena_bytes\": " + std::to_string(e.arenaBytes()) +
         ", \"arena_lower_bound\": " + std::to_string(e.memoryLowerBound()) +
         ",\n \"memory\": " + e.memoryReport().json() + ",\n \"run_ms\": [";
  for (size_t i = 0; i < runMs.size(); ++i) out += (i ? ", " : "") + jsonNumber(runMs[i]);
  out += "], \"phases_ms\": {";
  for (size_t i = 0; i < phases.size(); ++i)
    out += (i ? ", " : "") + jsonString(phases[i].name) + ": " + jsonNumber(phases[i].milliseconds);
  return out + "}}";
}

} // namespace dtc
