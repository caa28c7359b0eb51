// The text and JSON of `dtc run --stats`.
#include "dtc/Runtime/trace/Trace.h"

#include "dtc/Support/Json.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <unordered_map>

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

std::string rateText(int64_t amount, double ns, const char* unit) {
  return amount && ns > 0 ? format("%.2f %s", static_cast<double>(amount) / ns, unit) : "";
}

std::string countText(int64_t n) { // "1.5 M"
  const char* units[] = {"", " k", " M", " G", " T", " P"};
  double v = static_cast<double>(n);
  size_t u = 0;
  for (; v >= 1000 && u + 1 < std::size(units); ++u) v /= 1000;
  return format(u == 0 || v >= 100 ? "%.0f%s" : "%.1f%s", v, units[u]);
}

// The length of [begin, end] covered by these ascending, disjoint intervals.
int64_t within(const std::vector<std::pair<int64_t, int64_t>>& spans, int64_t begin, int64_t end) {
  int64_t sum = 0;
  auto at = std::ranges::partition_point(spans, [&](const auto& s) { return s.second <= begin; });
  for (; at != spans.end() && at->first < end; ++at)
    sum += std::min(end, at->second) - std::max(begin, at->first);
  return sum;
}

} // namespace

std::string remarksText(std::span<const PassRemark> remarks, const Module& m) {
  struct Line {
    const PassRemark* first;
    int64_t count = 0, bytes = 0;
  };
  std::vector<Line> lines;
  std::map<std::pair<std::string_view, std::string_view>, size_t> known;
  for (const PassRemark& r : remarks) {
    auto [it, made] = known.try_emplace({r.what, r.why}, lines.size());
    if (made) lines.push_back({&r});
    ++lines[it->second].count, lines[it->second].bytes += r.bytes;
  }
  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.first < b.first;
  });
  std::string out;
  for (const Line& l : lines) {
    const std::string place = placeText(m.source, l.first->loc);
    out += format("%-28s %4lld x %10s  ", l.first->what.c_str(), static_cast<long long>(l.count),
                  bytesText(l.bytes).c_str()) +
           l.first->why;
    out += place.empty() ? "\n" : " (" + place + ")\n";
  }
  return out;
}

std::string remarksJson(std::span<const PassRemark> remarks, const Module& m) {
  std::string out = "[";
  for (const PassRemark& r : remarks) {
    const bool placed = r.loc.valid() && r.loc.begin <= m.source.text.size();
    const int line = placed ? static_cast<int>(placeOf(m.source, r.loc.begin).at.line) : 0;
    out += (&r == remarks.data() ? "" : ",\n  ") + std::string("{\"what\": ") + jsonString(r.what) +
           ", \"why\": " + jsonString(r.why) + ", \"bytes\": " + std::to_string(r.bytes) +
           ", \"line\": " + std::to_string(line) + "}";
  }
  return out + "]";
}

std::string workJson(std::span<const WorkRow> rows) {
  std::string out = "[";
  for (const WorkRow& r : rows)
    out += (&r == rows.data() ? "" : ",\n  ") + std::string("{\"name\": ") + jsonString(r.name) +
           ", \"uses\": " + std::to_string(r.uses) + ", \"bytes\": " + std::to_string(r.bytes) +
           ", \"flops\": " + std::to_string(r.flops) + "}";
  return out + "]";
}

std::string workText(std::span<const WorkRow> rows) {
  std::string out = format("%-28s %5s %10s %10s %11s\n", "kernel", "uses", "bytes", "flops", "flops/byte");
  for (const WorkRow& r : rows)
    out += format(
        "%-28.28s %5lld %10s %10s %11s\n", r.name.c_str(), static_cast<long long>(r.uses),
        r.bytes ? bytesText(r.bytes).c_str() : "", r.flops ? countText(r.flops).c_str() : "",
        r.bytes ? format("%.1f", static_cast<double>(r.flops) / static_cast<double>(r.bytes)).c_str() : "");
  return out;
}

HostCost RunStats::usualHost() const {
  std::vector<HostCost> sorted = host;
  std::sort(sorted.begin(), sorted.end(), [](const HostCost& a, const HostCost& b) { return a.ns < b.ns; });
  return sorted.empty() ? HostCost{} : sorted[sorted.size() / 2];
}

void RunStats::add(const Executable& e) {
  ++timed_;
  calls_.resize(e.steps().size());
  ns_.resize(e.steps().size());
  hostNs_.resize(e.steps().size());
  for (const StepEvent& ev : e.events()) {
    ++calls_[ev.step];
    ns_[ev.step] += ev.endNs - (ev.workNs ? ev.workNs : ev.beginNs);
    hostNs_[ev.step] += ev.hostNs;
  }
  addOverlap(e);
}

void RunStats::addOverlap(const Executable& e) {
  std::vector<std::vector<std::pair<int64_t, int64_t>>> computes(static_cast<size_t>(e.mesh().numDevices()));
  for (const StepEvent& ev : e.events())
    if (e.steps()[ev.step].stream == "compute")
      computes[static_cast<size_t>(ev.coordinate)].emplace_back(ev.beginNs, ev.endNs);
  for (const StepEvent& ev : e.events()) {
    const StepInfo& s = e.steps()[ev.step];
    if (s.what != "collective" || s.stream == "compute") continue;
    const int64_t begin = ev.workNs ? ev.workNs : ev.beginNs;
    commNs_ += ev.endNs - begin;
    hiddenNs_ += within(computes[static_cast<size_t>(ev.coordinate)], begin, ev.endNs);
  }
}

std::vector<StatsRow> RunStats::rows(const Executable& e) const {
  std::vector<StatsRow> rows;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const StepInfo& s = e.steps()[i];
    if (!calls_[i]) continue;
    rows.push_back({s.name, s.what, s.op, s.where(), calls_[i], ns_[i], s.bytes, s.flops, hostNs_[i],
                    s.overlapped, s.function, 0});
    for (int64_t p = 0; p < e.mesh().numDevices(); ++p) rows.back().devices += e.functionAt(p) == s.function;
  }
  return rows;
}

std::string RunStats::text(const Executable& e, const Module& m) const {
  const bool asynchronous = usualHost().launches > 0; // adds a host-time column
  std::string out =
      format("%-28s %-11s %7s %11s %s%10s %10s %13s %8s  %s\n", "step", "kind", "calls", "mean us",
             asynchronous ? " host us " : "", "bytes", "flops", "rate", "roofline", "where");
  struct Sent {
    int64_t collectives = 0, overlapped = 0, bytes = 0;
  };
  std::unordered_map<FuncId, Sent> sentBy; // by a device of the function
  const int64_t runs = std::max<int64_t>(1, timed_);
  for (const StatsRow& r : rows(e)) {
    double ns = static_cast<double>(r.totalNs) / static_cast<double>(r.calls);
    std::string speed =
        r.flops > r.bytes * 8 ? rateText(r.flops, ns, "GFLOP/s") : rateText(r.bytes, ns, "GB/s");
    const double roofline = r.what == "collective" ? 0 : rate.rooflineNs(r.bytes, r.flops);
    const std::string percent = roofline > 0 && ns > 0 ? format("%.0f%%", 100 * roofline / ns) : "";
    const double hostUs = static_cast<double>(r.hostNs) / 1e3 / static_cast<double>(r.calls);
    out += format("%-28.28s %-11s %7lld %11.1f %s%10s %10s %13s %8s  %s\n", r.name.c_str(), r.what.c_str(),
                  static_cast<long long>(r.calls / runs), ns / 1e3,
                  asynchronous ? format("%8.2f ", hostUs).c_str() : "",
                  r.bytes ? bytesText(r.bytes).c_str() : "", r.flops ? countText(r.flops).c_str() : "",
                  speed.c_str(), percent.c_str(), r.where.c_str());
    if (r.what == "collective") {
      Sent& sent = sentBy[r.function];
      sent.collectives += r.calls / runs / r.devices;
      if (r.overlapped) sent.overlapped += r.calls / runs / r.devices;
      sent.bytes += r.bytes * (r.calls / runs / r.devices);
    }
  }
  Sent max;
  for (const auto& [function, sent] : sentBy)
    max = {std::max(max.collectives, sent.collectives), std::max(max.overlapped, sent.overlapped),
           std::max(max.bytes, sent.bytes)};
  out += format("collectives: %lld, %s sent per device\n", static_cast<long long>(max.collectives),
                bytesText(max.bytes).c_str());
  if (max.collectives && usualHost().launches)
    out += format("overlapped with other steps: %lld of them, %.1f of their %.1f us per device\n",
                  static_cast<long long>(max.overlapped),
                  static_cast<double>(hiddenNs_) / 1e3 / static_cast<double>(runs * e.mesh().numDevices()),
                  static_cast<double>(commNs_) / 1e3 / static_cast<double>(runs * e.mesh().numDevices()));
  if (rate.bytesPerNs > 0)
    out += format("roofline: %.1f GB/s and %.0f GFLOP/s, measured in this run; above 100%% the data was in a "
                  "cache\n",
                  rate.bytesPerNs, rate.flopsPerNs);
  if (!remarks.empty()) out += "materialized:\n" + remarksText(remarks, m);
  out += memoryText(e.memoryReports());
  if (!runMs.empty())
    out += format("time: %.3f ms per run (median of %zu, min %.3f)\n", median(runMs), runMs.size(),
                  *std::min_element(runMs.begin(), runMs.end()));
  if (const HostCost h = usualHost(); h.launches)
    out += format("host: %.1f us per run, %.2f us for each of %lld device steps, %lld graphs launched\n",
                  static_cast<double>(h.ns) / 1e3,
                  static_cast<double>(h.ns) / 1e3 / static_cast<double>(h.launches),
                  static_cast<long long>(h.launches), static_cast<long long>(h.graphs));
  if (const HostCost h = usualHost(); h.read + h.decided)
    out += format("predicates of while and cond: %lld evaluated by graphs, %lld read by the host\n",
                  static_cast<long long>(h.decided), static_cast<long long>(h.read));
  if (!about.empty()) out += about + "\n";
  out += "before the run:";
  for (const Backend::Phase& p : phases)
    out += format(" %s %.1f ms%s", p.name.c_str(), p.milliseconds, &p == &phases.back() ? "\n" : ",");
  return out;
}

std::string RunStats::json(const Executable& e, const Module& m) const {
  std::string out = "{\"steps\": [";
  bool first = true;
  for (const StatsRow& r : rows(e)) {
    out += first ? "\n" : ",\n";
    first = false;
    out += "  {\"name\": " + jsonString(r.name) + ", \"kind\": " + jsonString(r.what) +
           ", \"op\": " + jsonString(r.op) + ", \"where\": " + jsonString(r.where) +
           ", \"calls\": " + std::to_string(r.calls) + ", \"ns\": " + std::to_string(r.totalNs) +
           ", \"bytes\": " + std::to_string(r.bytes) + ", \"flops\": " + std::to_string(r.flops);
    if (usualHost().launches) out += ", \"host_ns\": " + std::to_string(r.hostNs);
    if (r.overlapped) out += ", \"overlapped\": true";
    if (rate.bytesPerNs > 0 && r.what != "collective")
      out += ", \"roofline_ns\": " + jsonNumber(rate.rooflineNs(r.bytes, r.flops));
    out += "}";
  }
  out += "],\n \"materialized\": " + remarksJson(remarks, m);
  if (const HostCost h = usualHost(); h.launches)
    out += ",\n \"host_ns\": " + std::to_string(h.ns) + ", \"host_wait_ns\": " + std::to_string(h.waitNs) +
           ", \"device_steps\": " + std::to_string(h.launches) +
           ", \"graphs_started\": " + std::to_string(h.graphs) +
           ", \"predicates_read\": " + std::to_string(h.read) +
           ", \"predicates_on_device\": " + std::to_string(h.decided) +
           ", \"collective_ns\": " + std::to_string(commNs_) +
           ", \"collective_ns_beside\": " + std::to_string(hiddenNs_);
  if (!about.empty()) out += ",\n \"about\": " + jsonString(about);
  out += ",\n \"devices\": " + std::to_string(e.mesh().numDevices()) +
         ", \"arena_bytes\": " + std::to_string(e.arenaBytes()) +
         ", \"arena_lower_bound\": " + std::to_string(e.memoryLowerBound()) +
         ",\n \"memory\": " + memoryJson(e.memoryReports()) + ",\n \"run_ms\": [";
  for (size_t i = 0; i < runMs.size(); ++i) out += (i ? ", " : "") + jsonNumber(runMs[i]);
  out += "], \"phases_ms\": {";
  for (size_t i = 0; i < phases.size(); ++i)
    out += (i ? ", " : "") + jsonString(phases[i].name) + ": " + jsonNumber(phases[i].milliseconds);
  return out + "}}";
}

} // namespace dtc
