#include "dtc/Report/audit/Audit.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include "explain/ReportText.h"
#include <algorithm>
#include <span>

namespace dtc {

namespace {

constexpr size_t kShownGroups = 4, kShownDevices = 8;

std::string listText(const std::vector<int64_t>& group) {
  return "{" + joined(std::span(group).first(std::min(group.size(), kShownDevices)), ",") +
         (group.size() > kShownDevices ? ",…" : "") + "}";
}

// "2 x 4: {0,1,2,3} {4,5,6,7}"
std::string groupsText(const AuditCollective& c) {
  std::string out;
  if (c.groups.empty() && c.pairs.empty()) return "groups of " + std::to_string(c.groupSize);
  if (c.groups.empty()) {
    for (size_t i = 0; i < c.pairs.size() && i < kShownDevices; ++i)
      out += (i ? " " : "") + std::to_string(c.pairs[i].first) + "->" + std::to_string(c.pairs[i].second);
    return out + (c.pairs.size() > kShownDevices ? " …" : "");
  }
  out = std::to_string(c.groups.size()) + " of " + std::to_string(c.groupSize) + ":";
  for (size_t i = 0; i < c.groups.size() && i < kShownGroups; ++i) out += " " + listText(c.groups[i]);
  return out + (c.groups.size() > kShownGroups ? " …" : "");
}

std::string locationText(const AuditCollective& c) {
  if (c.op.empty() && c.location.empty()) return c.line;
  return c.location + (c.op.empty() || c.location.empty() ? c.op : " (" + c.op + ")");
}

double timesOf(const AuditCollective& c) { return static_cast<double>(c.counted); }

std::string findingText(const AuditReport& r, const AuditFinding& f) {
  std::string names;
  for (size_t i = 0; i < f.of.size() && i < kShownDevices; ++i)
    names += (i ? ", " : "") + r.collectives[f.of[i]].name;
  if (f.of.size() > kShownDevices) names += ", …";
  return names + ": " + f.why + "\n  dtc would use " + f.instead + ": " + bytesText(f.bytesAfter) +
         " received per device instead of " + bytesText(f.bytesBefore) + ", " + timeText(f.secondsAfter) +
         " instead of " + timeText(f.secondsBefore) + "\n";
}

} // namespace

std::string auditText(const AuditReport& r) {
  if (r.collectives.empty()) return "the program has no collectives\n";
  std::string out;
  int64_t bytes = 0;
  double seconds = 0;
  bool complete = true;
  for (const AuditCollective& c : r.collectives) {
    out +=
        collectiveName(c.kind) + (" " + c.name) + ", " + groupsText(c) + "\n  " + bytesText(c.bytesReceived) +
        " received per device, " +
        (c.count ? std::to_string(*c.count) + (*c.count == 1 ? " time, " : " times, ")
                 : "times unknown" + (c.counted == 1 ? "" : " (" + std::to_string(c.counted) + ")") + ", ") +
        timeText(c.seconds * timesOf(c)) + " on the nominal machine\n  from " + locationText(c) + "\n";
    bytes += c.bytesReceived * c.counted;
    seconds += c.seconds * timesOf(c);
    complete = complete && c.count.has_value();
  }
  out += "\n";
  for (const AuditFinding& f : r.findings) out += findingText(r, f);
  if (r.findings.empty()) out += "no findings: dtc would plan these collectives the same way\n";
  return out + "total: " + std::to_string(r.collectives.size()) +
         (r.collectives.size() == 1 ? " collective" : " collectives") + " on " + std::to_string(r.devices) +
         " devices, " + bytesText(bytes) + " received per device, " + timeText(seconds) +
         (complete ? "\n" : "; loops with unknown iteration counts are counted once\n") +
         (r.bytesSaved > 0 ? "with dtc's plan: " + bytesText(bytes - r.bytesSaved) + " received per device\n"
                           : "");
}

std::string auditJson(const AuditReport& r) {
  nlohmann::ordered_json out = {{"format", r.format}, {"devices", r.devices}};
  out["collectives"] = nlohmann::ordered_json::array();
  int64_t bytes = 0;
  double seconds = 0;
  for (const AuditCollective& c : r.collectives) {
    nlohmann::ordered_json one = {{"kind", collectiveName(c.kind)},
                                  {"name", c.name},
                                  {"dtype", c.dtype},
                                  {"groups", c.groups},
                                  {"pairs", c.pairs},
                                  {"group_size", c.groupSize},
                                  {"operand_bytes", c.operandBytes},
                                  {"bytes_received", c.bytesReceived}};
    one["count"] = c.count ? nlohmann::ordered_json(*c.count) : nullptr;
    if (!c.count) one["counted"] = c.counted;
    one["seconds"] = c.seconds;
    one["latency_seconds"] = c.latencySeconds;
    one["op"] = c.op;
    one["location"] = c.location;
    one["line"] = c.line;
    out["collectives"].push_back(std::move(one));
    bytes += c.bytesReceived * c.counted;
    seconds += c.seconds * timesOf(c);
  }
  out["findings"] = nlohmann::ordered_json::array();
  for (const AuditFinding& f : r.findings)
    out["findings"].push_back({{"rule", f.rule},
                               {"collectives", f.of},
                               {"why", f.why},
                               {"instead", f.instead},
                               {"bytes_before", f.bytesBefore},
                               {"bytes_after", f.bytesAfter},
                               {"seconds_before", f.secondsBefore},
                               {"seconds_after", f.secondsAfter}});
  out["total"] = {{"collectives", r.collectives.size()},
                  {"bytes_received", bytes},
                  {"seconds", seconds},
                  {"bytes_received_after", bytes - r.bytesSaved}};
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dtc
