// The report of a whole program, for people and for other programs.
#include "ReportText.h"
#include "dtc/Report/ExplainProgram.h"
#include "dtc/Support/Units.h"

#include <nlohmann/json.hpp>

namespace dtc {

namespace {

using Row = std::vector<std::string>;

// Columns two blanks apart; the last one is not filled.
std::string table(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string axesText(const ProgramCollective& c) {
  std::string out;
  for (const std::string& a : c.axes) out += (out.empty() ? "" : ", ") + a;
  return out;
}

std::string neededBy(const ProgramCollective& c) {
  if (c.sources.empty()) return "";
  const ProgramCollective::Source& s = c.sources[0];
  std::string out = "'" + s.op + "'" + (s.place.empty() ? "" : " " + s.place);
  if (c.sources.size() > 1) out += " and " + std::to_string(c.sources.size() - 1) + " more";
  return out;
}

Row rowOf(const ProgramCollective& c) {
  return {c.kind,
          axesText(c),
          c.price ? bytesText(c.price->bytesReceived) : "unknown",
          c.count ? std::to_string(*c.count) : "unknown",
          c.price ? timeText(c.price->seconds * static_cast<double>(c.count.value_or(1))) : "unknown",
          c.value,
          neededBy(c)};
}

std::string changeText(const ProgramCollective& c, const ProgramReport& r, const std::string& indent) {
  if (c.change.empty()) return c.noChange.empty() ? "" : indent + c.noChange + "\n";
  std::string out;
  for (const AnnotationEdit& e : c.change)
    out += indent + (out.empty() ? "removed by writing " : "and ") + e.after + " for " + e.before + " on " +
           e.of + "  (" + e.place + ")\n";
  return out + indent + "  the program then takes " + timeText(c.secondsAfter) + " instead of " +
         timeText(r.computeSeconds + r.commSeconds) + ", with " + std::to_string(c.collectivesAfter) +
         (c.collectivesAfter == 1 ? " collective" : " collectives") + "\n";
}

std::string detailText(const ProgramCollective& c, const ProgramReport& r, size_t number) {
  std::string out = std::to_string(number) + ". " + c.kind + " over " + axesText(c) +
                    (c.value.empty() ? "" : ": " + c.value) + "\n";
  for (const ProgramCollective::Source& s : c.sources)
    out += "  because " + s.why + "\n" + stepsText(s.chain, "    ");
  return out + changeText(c, r, "  ");
}

std::string contractsText(const std::vector<ProgramContract>& contracts) {
  if (contracts.empty()) return "";
  std::string out = "contracts, all of which hold:\n";
  for (const ProgramContract& c : contracts)
    out += "  " + c.of + " promises '" + c.contract + "': there " + (c.found == 1 ? "is " : "are ") +
           std::to_string(c.found) + (c.place.empty() ? "" : "  (" + c.place + ")") + "\n";
  return out;
}

nlohmann::ordered_json orNull(std::optional<int64_t> v) {
  return v ? nlohmann::ordered_json(*v) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json json(const ProgramCollective& c) {
  auto sources = nlohmann::ordered_json::array(), change = nlohmann::ordered_json::array();
  for (const ProgramCollective::Source& s : c.sources)
    sources.push_back({{"op", s.op}, {"place", s.place}, {"why", s.why}, {"chain", chainJson(s.chain)}});
  for (const AnnotationEdit& e : c.change)
    change.push_back({{"of", e.of},
                      {"place", e.place},
                      {"begin", e.begin},
                      {"end", e.end},
                      {"before", e.before},
                      {"after", e.after}});
  nlohmann::ordered_json out = {{"kind", c.kind}, {"axes", c.axes}, {"value", c.value}};
  out["bytes_received"] = c.price ? nlohmann::ordered_json(c.price->bytesReceived) : nullptr;
  out["count"] = orNull(c.count);
  out["seconds"] = c.price ? nlohmann::ordered_json(c.price->seconds) : nullptr;
  out["latency_seconds"] = c.price ? nlohmann::ordered_json(c.price->latencySeconds) : nullptr;
  out["op"] = c.sources.empty() ? "" : c.sources[0].op;
  out["place"] = c.sources.empty() ? "" : c.sources[0].place;
  out["sources"] = sources;
  out["change"] = change;
  if (c.change.empty()) {
    out["no_change"] = c.noChange;
  } else {
    out["seconds_after"] = c.secondsAfter;
    out["collectives_after"] = c.collectivesAfter;
  }
  return out;
}

} // namespace

std::string collectivesText(const ProgramReport& r, const std::vector<ExplainDecision>& decisions) {
  if (r.collectives.empty()) return "the program does not communicate\n" + contractsText(r.contracts);
  std::vector<Row> rows = {{"collective", "over", "received", "times", "takes", "gives", "needed by"}};
  for (const ProgramCollective& c : r.collectives) rows.push_back(rowOf(c));
  std::string out = table(rows) + "\n";
  for (size_t i = 0; i < r.collectives.size(); ++i) out += detailText(r.collectives[i], r, i + 1);
  out += explainText(decisions);
  out += contractsText(r.contracts);
  out += "in all: " + std::to_string(r.collectives.size()) +
         (r.collectives.size() == 1 ? " collective, " : " collectives, ") + bytesText(r.bytesReceived) +
         " received per device, " + timeText(r.commSeconds) + " on the nominal machine; computing " +
         timeText(r.computeSeconds) + "\n";
  return r.complete ? out : out + "what is unknown before the run is not in these sums\n";
}

std::string limitsText(const ProgramReport& r) {
  if (r.axes.empty()) return "the program does not communicate\n";
  std::vector<Row> rows = {{"axis", "messages", "received", "takes", "latency floor", "exposed at least"}};
  for (const AxisCost& a : r.axes)
    rows.push_back({a.axis, std::to_string(a.count), bytesText(a.bytesReceived), timeText(a.seconds),
                    timeText(a.latencySeconds), timeText(a.exposedSeconds)});
  std::string out = table(rows);
  out +=
      "latency floor: what the messages would take without a byte in them; exposed: what computing (" +
      timeText(r.computeSeconds) +
      ") waits,\nif each message began when its operand is there and ran beside all that does not need it\n";
  return r.complete ? out : out + "what is unknown before the run is not in these sums\n";
}

std::string programJson(const ProgramReport& r, const std::vector<ExplainReshard>& reshards,
                        const std::vector<ExplainDecision>& decisions) {
  nlohmann::ordered_json out;
  out["collectives"] = nlohmann::ordered_json::array();
  for (const ProgramCollective& c : r.collectives) out["collectives"].push_back(json(c));
  out["limits"] = nlohmann::ordered_json::array();
  for (const AxisCost& a : r.axes)
    out["limits"].push_back({{"axis", a.axis},
                             {"count", a.count},
                             {"bytes_received", a.bytesReceived},
                             {"seconds", a.seconds},
                             {"latency_seconds", a.latencySeconds},
                             {"exposed_seconds", a.exposedSeconds}});
  out["total"] = {{"collectives", r.collectives.size()},
                  {"bytes_received", r.bytesReceived},
                  {"seconds", r.commSeconds},
                  {"compute_seconds", r.computeSeconds},
                  {"complete", r.complete}};
  out["reshards"] = nlohmann::ordered_json::array();
  for (const ExplainReshard& one : reshards) out["reshards"].push_back(reshardJson(one));
  out["decisions"] = decisionsJson(decisions);
  out["contracts"] = nlohmann::ordered_json::array();
  for (const ProgramContract& c : r.contracts)
    out["contracts"].push_back({{"of", c.of},
                                {"contract", c.contract},
                                {"place", c.place},
                                {"limit", c.limit},
                                {"exactly", c.exactly},
                                {"found", c.found}});
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dtc
