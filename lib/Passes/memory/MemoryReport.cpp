#include "dtc/Passes/memory/MemoryReport.h"

#include "dtc/IR/DevicePrograms.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Naming.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Lines.h"
#include "dtc/Support/Units.h"

#include <algorithm>
#include <cstdio>
#include <unordered_set>

namespace dtc {
namespace {

constexpr size_t kRowsShown = 12;

bool contains(const MemoryPlan::Buffer& b, uint32_t position) {
  return std::ranges::any_of(b.live, [&](auto r) { return r.first <= position && position <= r.last; });
}

std::string whatOf(const Module& m, FuncId f, const std::unordered_set<ValueId>& results, ValueId v) {
  const Value& value = m[v];
  if (value.kind == ValueKind::BlockArg) return BlockId(value.owner) == m[f].body ? "argument" : "carried";
  if (results.contains(v)) return "result";
  return isLoadTimeOp(m, OpId(value.owner)) ? "constant" : "value";
}

SourceRange locOf(const Module& m, ValueId v) {
  const Value& value = m[v];
  return value.kind == ValueKind::OpResult && m[OpId(value.owner)].loc.valid() ? m[OpId(value.owner)].loc
                                                                               : value.loc;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

} // namespace

MemoryReport memoryReport(const Module& m, FuncId f, const MemoryPlan& plan, int64_t arenaBytes) {
  MemoryReport report;
  report.peakBytes = arenaBytes;
  report.boundBytes = plan.lowerBound;
  if (const std::string devices = devicesText(m, f); !devices.empty())
    report.of = "@" + std::string(m.strings[m[f].name]) + " on " + devices;
  const Naming names(m, f);
  const LineTable lines(m.source);
  for (const auto& [op, at] : plan.position)
    if (at[0] == plan.peakPosition) {
      for (uint32_t r = 0; r < m[op].numResults; ++r) report.at += (r ? ", " : "") + names(m.result(op, r));
      report.at += (report.at.empty() ? "" : " = ") + std::string(m.record(op).name);
      report.where = lines.text(m[op].loc);
    }
  // Of the values that share a buffer, the last one defined before the peak.
  std::vector<ValueId> held(plan.buffers.size());
  for (size_t b = 0; b < held.size(); ++b) held[b] = plan.buffers[b].value;
  for (const MemoryPlan::Held& v : plan.values)
    if (v.live.first <= plan.peakPosition && plan.peakPosition <= v.live.last) held[v.buffer] = v.value;
  const std::unordered_set<ValueId> results(m[m[f].body].yields.begin(), m[m[f].body].yields.end());
  std::vector<size_t> alive;
  for (size_t b = 0; b < held.size(); ++b)
    if (plan.buffers[b].bytes > 0 && contains(plan.buffers[b], plan.peakPosition)) alive.push_back(b);
  std::ranges::sort(alive, [&](size_t a, size_t b) {
    return std::pair(-plan.buffers[a].bytes, a) < std::pair(-plan.buffers[b].bytes, b);
  });
  for (size_t b : alive)
    report.alive.push_back({names(held[b]), whatOf(m, f, results, held[b]), printType(m, m[held[b]].type),
                            lines.text(locOf(m, held[b])), plan.buffers[b].bytes, held[b]});
  return report;
}

double MemoryReport::ratio() const {
  return boundBytes > 0 ? static_cast<double>(peakBytes) / static_cast<double>(boundBytes) : 1;
}

std::string MemoryReport::text() const {
  char number[32];
  std::snprintf(number, sizeof number, "%.3f", ratio());
  std::string out = "memory" + (of.empty() ? "" : " of " + of) + ": " + bytesText(peakBytes) +
                    " per device, " + number + " of the lower bound (" + bytesText(boundBytes) +
                    " live at once)\n";
  if (alive.empty()) return out;
  out +=
      "live at the peak" + (at.empty() ? "" : ", " + at) + (where.empty() ? "" : " (" + where + ")") + ":\n";
  size_t widths[3] = {};
  const size_t shown = std::min(alive.size(), kRowsShown);
  for (size_t i = 0; i < shown; ++i) {
    widths[0] = std::max(widths[0], alive[i].value.size());
    widths[1] = std::max(widths[1], alive[i].type.size());
    widths[2] = std::max(widths[2], alive[i].what.size());
  }
  int64_t rest = 0;
  for (size_t i = 0; i < alive.size(); ++i) {
    const Row& r = alive[i];
    if (i >= shown) {
      rest += r.bytes;
      continue;
    }
    const std::string size = bytesText(r.bytes);
    out += std::string(size.size() < 12 ? 12 - size.size() : 0, ' ') + size + "  " +
           padded(r.value, widths[0]) + "  " + padded(r.type, widths[1]) + "  " + padded(r.what, widths[2]) +
           "  " + r.where + "\n";
    while (out.ends_with(" \n")) out.erase(out.size() - 2, 1);
  }
  if (rest > 0)
    out += "  and " + std::to_string(alive.size() - shown) + " more, " + bytesText(rest) + " together\n";
  return out;
}

std::string MemoryReport::json() const {
  std::string out = "{" + (of.empty() ? "" : "\"of\": " + jsonString(of) + ", ") +
                    "\"peak_bytes\": " + std::to_string(peakBytes) +
                    ", \"bound_bytes\": " + std::to_string(boundBytes) +
                    ", \"ratio\": " + jsonNumber(ratio()) + ", \"at\": " + jsonString(at) +
                    ", \"where\": " + jsonString(where) + ", \"alive\": [";
  for (size_t i = 0; i < alive.size(); ++i) {
    const Row& r = alive[i];
    out += std::string(i ? "," : "") + "\n  {\"value\": " + jsonString(r.value) +
           ", \"what\": " + jsonString(r.what) + ", \"type\": " + jsonString(r.type) +
           ", \"bytes\": " + std::to_string(r.bytes) + ", \"where\": " + jsonString(r.where) + "}";
  }
  return out + "]}";
}

std::string memoryText(std::span<const MemoryReport> reports) {
  std::string out;
  for (const MemoryReport& r : reports) out += r.text();
  return out;
}

std::string memoryJson(std::span<const MemoryReport> reports) {
  if (reports.size() == 1) return reports[0].json();
  std::string out;
  for (const MemoryReport& r : reports) out += (out.empty() ? "[" : ",\n") + r.json();
  return out + "]";
}

} // namespace dtc
