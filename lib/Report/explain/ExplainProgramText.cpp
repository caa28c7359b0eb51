// The report of a whole program, as text and as JSON.
#include "dtc/Report/explain/ExplainProgram.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include "explain/ExplainGroups.h"
#include "explain/ReportText.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace dtc {

namespace {

using Row = std::vector<std::string>;

// Columns are separated by two blanks; the last one is not padded.
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

std::string axesText(const ProgramCollective& c) { return joined(c.axes); }

std::string neededBy(const ProgramCollective& c) {
  if (c.sources.empty()) return "";
  const ProgramCollective::Source& s = c.sources[0];
  std::string out = "'" + s.op + "'" + (s.location.empty() ? "" : " " + s.location);
  if (c.sources.size() > 1) out += " and " + std::to_string(c.sources.size() - 1) + " more";
  return out;
}

constexpr size_t kTopGroups = 8, kTopDecisions = 3; // for a large program, by default

// "%permute_3 (for layers.0.weight.grad)"
std::string forResult(const std::string& value, const std::string& purpose) {
  if (purpose.empty()) return value;
  return value.empty() ? "for " + purpose : value + " (for " + purpose + ")";
}

// The name of a message of several values in the schedule. That of a bucket says what it is for.
std::string messageText(const std::string& name, const std::string& purpose) {
  return forResult(name, name.find("bucket of ") != name.npos || name == purpose ? "" : purpose);
}

// The schedule's name, as in view and on the page; before the schedule, that of the value.
std::string valueText(const ProgramCollective& c) {
  if (!c.name.empty())
    return messageText(c.name == c.value ? namedText(c.name, c.userName) : c.name, c.purpose);
  const std::string out = forResult(namedText((c.generated ? "in " : "") + c.value, c.userName), c.purpose);
  return c.moreValues == 0 ? out : out + " and " + std::to_string(c.moreValues) + " more";
}

// "unknown (5)": as it counts in sums, where an unknown iteration count counts once.
std::string countText(const ProgramCollective& c, int64_t counted) {
  return c.count ? std::to_string(counted) : "unknown (" + std::to_string(counted) + ")";
}

// `times`: of so many equal ones.
Row rowOf(const ProgramCollective& c, int64_t times = 1) {
  const bool once = times == 1 && c.count == 1;
  return {c.kind,
          axesText(c),
          c.price ? bytesText(c.price->bytesReceived) + (once ? "" : " each") : "unknown",
          countText(c, times * c.counted),
          c.price ? timeText(c.price->seconds * static_cast<double>(times * c.counted)) : "unknown",
          valueText(c),
          neededBy(c)};
}

// The range of the values' names.
std::string groupValue(const ExplainGroup& g, const ProgramCollective& first) {
  if (g.members.size() == 1) return valueText(first);
  if (!g.name.empty()) return messageText(g.name, g.purpose);
  if (g.value.empty() && g.purpose.empty())
    return valueText(first) + " and " + std::to_string(g.members.size() - 1) + " more";
  return forResult((first.generated && !g.value.empty() ? "in " : "") + g.value, g.purpose);
}

// One row for all equal collectives, with their total cost.
Row rowOf(const ExplainGroup& g, const ProgramReport& r) {
  const ProgramCollective& first = r.collectives[g.members[0]];
  Row row = rowOf(first);
  if (g.members.size() == 1) return row;
  if (first.price) row[2] = bytesText(first.price->bytesReceived) + " each";
  row[3] = countText(first, g.total.count);
  row[4] = first.price ? timeText(g.total.seconds) : "unknown";
  row[5] = groupValue(g, first);
  if (first.sources.size() <= 1) row[6] += " and " + std::to_string(g.members.size() - 1) + " more";
  return row;
}

std::string bytesOf(const SummaryRow& r) { return bytesText(static_cast<int64_t>(std::min(r.bytes, 9e18))); }

std::string summaryTable(const char* head, const std::vector<SummaryRow>& summary) {
  std::vector<Row> rows = {{head, "messages", "received", "time"}};
  for (const SummaryRow& s : summary) {
    std::string count = std::to_string(s.count);
    if (s.layers > 1) count += ", " + std::to_string(s.count / static_cast<int64_t>(s.layers)) + " a layer";
    if (s.unknown && s.seconds == 0)
      rows.push_back({s.label, count, "unknown", "unknown"});
    else
      rows.push_back({s.label, count, bytesOf(s), timeText(s.seconds)});
  }
  return table(rows) + "\n";
}

std::string totalText(const ProgramReport& r) {
  return std::to_string(r.collectives.size()) +
         (r.collectives.size() == 1 ? " collective, " : " collectives, ") +
         (r.complete || r.commSeconds > 0
              ? (r.differs ? "at most " : "") + bytesText(r.bytesReceived) +
                    (r.pipeline ? " received per device, summed over stages, " : " received per device, ") +
                    timeText(r.commSeconds) + " on the nominal machine"
              : "unknown bytes and time") +
         "; computation " + (r.complete || r.computeSeconds > 0 ? timeText(r.computeSeconds) : "unknown") +
         "\n";
}

std::string unknownText(const ProgramReport& r) {
  const SummaryRow& again = r.repeated;
  return (again.count == 0 ? ""
                           : "recomputation repeats " + std::to_string(again.count) +
                                 (again.count == 1 ? " collective" : " collectives") + ": " + bytesOf(again) +
                                 ", " + timeText(again.seconds) + "\n") +
         (std::ranges::any_of(r.collectives, [](const ProgramCollective& c) { return c.count == 0; })
              ? "of a conditional, the branch that takes longer counts; messages of the other count 0 times\n"
              : "") +
         assumedText(r.assumed) +
         (r.complete ? "" : "loops whose length is unknown before the run count once in these sums\n");
}

std::string changeText(const ProgramCollective& c, const ProgramReport& r, const std::string& indent) {
  if (c.change.empty()) return c.noChange.empty() ? "" : indent + c.noChange + "\n";
  std::string out;
  for (const AnnotationEdit& e : c.change)
    out += indent + (out.empty() ? "removed by writing " : "and ") + std::string(trimmed(e.after)) +
           (e.before.empty() ? "" : " for " + e.before) + " on " + namedText(e.of, e.userName) + "  (" +
           e.location + ")\n";
  out += indent + "  ";
  if (c.stepAfter)
    out += std::string(c.slows() ? "but the step" : "the step") + " then takes " +
           timeText(c.stepAfter->seconds) + " instead of " + timeText(c.stepBefore->seconds);
  else
    out += "before the schedule, the program then takes " + timeText(c.secondsAfter) + " instead of " +
           timeText(r.computeSeconds + r.commSeconds);
  out += ", with " + std::to_string(c.collectivesAfter) +
         (c.collectivesAfter == 1 ? " collective" : " collectives");
  if (!c.stepAfter) return out + "\n";
  const int64_t before = c.stepBefore->memoryBytes, after = c.stepAfter->memoryBytes;
  const bool alike = before != after && bytesText(before) == bytesText(after);
  const auto text = [&](int64_t bytes) { return alike ? std::to_string(bytes) + " B" : bytesText(bytes); };
  return out + ", and a device needs " +
         (before == after ? "as much memory, " + text(after) : text(after) + " instead of " + text(before)) +
         "\n";
}

// "  @pod{dp, _ | sum(tp)} -> @pod{dp, _}", after the value if the message has several or another name.
std::string moveText(const ProgramCollective::Source& s, const ProgramCollective& c) {
  if (s.from.empty()) return "";
  const bool several = c.sources.size() > 1 || (!c.name.empty() && s.value != c.name);
  const std::string value = forResult(namedText(s.value, s.userName), s.purpose);
  return "  " + (several ? value + ": " : "") + s.from + " -> " + s.to + "\n";
}

std::string detailText(const ProgramCollective& c, const ProgramReport& r, size_t number) {
  std::string out = std::to_string(number) + ". " + c.kind + " over " + axesText(c) +
                    (c.value.empty() ? "" : ": " + valueText(c)) + "\n";
  std::vector<std::string> said; // sources fused into one message may have the same reason
  for (const ProgramCollective::Source& s : c.sources) {
    out += moveText(s, c);
    const bool first = said.empty();
    std::string why = "  because " + s.why + "\n" + stepsText(s.chain, "    ", !first);
    if (std::ranges::find(said, why) != said.end()) continue;
    out += why;
    said.push_back(std::move(why));
  }
  return out + changeText(c, r, "  ");
}

std::string groupText(const ExplainGroup& g, const ProgramReport& r, size_t number) {
  const ProgramCollective& c = r.collectives[g.members[0]];
  std::string out = std::to_string(number) + ". " + c.kind + " over " + axesText(c);
  if (g.members.size() > 1) out += ", x" + std::to_string(g.members.size());
  if (const std::string value = groupValue(g, c); !value.empty()) out += ": " + value;
  if (!g.layer.empty()) out += "  (" + g.layer + ")";
  out += "\n";
  if (!c.sources.empty()) {
    const ProgramCollective::Source& s = c.sources[0];
    out += moveText(s, c) + "  because " + s.why + "\n" + stepsText(s.chain, "    ", true);
    if (c.sources.size() > 1)
      out += "  the same message serves " + std::to_string(c.sources.size() - 1) + " more\n";
  }
  return out + changeText(c, r, "  ");
}

// Equal ops with equal shardings, printed once; for each its choice and the next best.
std::string decisionsText(const std::vector<ExplainDecision>& decisions, size_t top) {
  struct Kind {
    const ExplainDecision* first = nullptr;
    size_t count = 0, index = 0;
    double seconds = 0;
  };
  std::vector<Kind> kinds;
  std::map<std::string, size_t> byKey;
  for (const ExplainDecision& d : decisions) {
    std::string key = d.op;
    double taken = 0;
    for (const FormChoice& c : d.choices) {
      key += "|" + c.shardings + "|" + patternOf(c.moves).text + "|" + std::to_string(c.bytes) +
             (c.taken ? "!" : "");
      if (c.taken) taken = c.seconds;
    }
    auto [it, isNew] = byKey.try_emplace(key, kinds.size());
    if (isNew) kinds.push_back({&d, 0, kinds.size()});
    ++kinds[it->second].count;
    kinds[it->second].seconds += taken;
  }
  if (kinds.empty()) return "";
  std::ranges::sort(kinds, {}, [](const Kind& k) { return std::pair(-k.seconds, k.index); });
  std::string out = std::to_string(decisions.size()) + (decisions.size() == 1 ? " op needs" : " ops need") +
                    " other shardings than those of " + (decisions.size() == 1 ? "its" : "their") +
                    " tensors";
  if (kinds.size() > top) out += "; of " + std::to_string(kinds.size()) + " kinds the costliest";
  out += ":\n";
  for (size_t i = 0; i < std::min(top, kinds.size()); ++i) {
    ExplainDecision shown = *kinds[i].first;
    if (shown.choices.size() > 2) shown.choices.resize(2);
    if (kinds[i].count > 1) shown.location += ", x" + std::to_string(kinds[i].count);
    out += decisionText(shown, "");
  }
  return out;
}

std::string contractsText(const std::vector<ProgramContract>& contracts) {
  if (contracts.empty()) return "";
  std::string out = "contracts, all of which hold:\n";
  for (const ProgramContract& c : contracts)
    out += "  " + c.of + " promises '" + c.contract + "': there " + (c.found == 1 ? "is " : "are ") +
           std::to_string(c.found) + (c.location.empty() ? "" : "  (" + c.location + ")") + "\n";
  return out;
}

nlohmann::ordered_json orNull(std::optional<int64_t> v) {
  return v ? nlohmann::ordered_json(*v) : nlohmann::ordered_json(nullptr);
}

void addSums(nlohmann::ordered_json& out, const SummaryRow& row) {
  out["count"] = row.count;
  out["bytes_received"] = static_cast<int64_t>(std::min(row.bytes, 9e18));
  out["seconds"] = row.seconds;
}

nlohmann::ordered_json json(const ProgramCollective& c) {
  auto sources = nlohmann::ordered_json::array(), change = nlohmann::ordered_json::array();
  for (const ProgramCollective::Source& s : c.sources)
    sources.push_back({{"op", s.op},
                       {"location", s.location},
                       {"value", s.value},
                       {"from", s.from},
                       {"to", s.to},
                       {"why", s.why},
                       {"chain", chainJson(s.chain)}});
  for (const AnnotationEdit& e : c.change)
    change.push_back({{"of", e.of},
                      {"user_name", e.userName},
                      {"location", e.location},
                      {"begin", e.begin},
                      {"end", e.end},
                      {"before", e.before},
                      {"after", e.after}});
  nlohmann::ordered_json out = {{"kind", c.kind}, {"axes", c.axes}, {"value", c.value}, {"group", c.group}};
  if (c.generated) out["generated"] = true;
  if (c.moreValues > 0) out["more_values"] = c.moreValues;
  if (!c.name.empty()) out["name"] = c.name;
  if (!c.userName.empty()) out["user_name"] = c.userName;
  if (!c.purpose.empty()) out["for"] = c.purpose;
  out["bytes_received"] = c.price ? nlohmann::ordered_json(c.price->bytesReceived) : nullptr;
  out["count"] = orNull(c.count);
  if (!c.count) out["counted"] = c.counted;
  out["seconds"] = c.price ? nlohmann::ordered_json(c.price->seconds) : nullptr;
  out["latency_seconds"] = c.price ? nlohmann::ordered_json(c.price->latencySeconds) : nullptr;
  out["exposed_seconds"] = c.exposedSeconds;
  out["op"] = c.sources.empty() ? "" : c.sources[0].op;
  out["location"] = c.sources.empty() ? "" : c.sources[0].location;
  out["sources"] = sources;
  out["change"] = change;
  if (c.change.empty()) {
    out["no_change"] = c.noChange;
  } else {
    out["seconds_after"] = c.secondsAfter;
    out["collectives_after"] = c.collectivesAfter;
    if (c.stepAfter) {
      out["step_seconds_before"] = c.stepBefore->seconds;
      out["step_seconds_after"] = c.stepAfter->seconds;
      out["memory_bytes_before"] = c.stepBefore->memoryBytes;
      out["memory_bytes_after"] = c.stepAfter->memoryBytes;
    }
  }
  return out;
}

} // namespace

// Of all executions.
static double secondsOf(const ProgramCollective& c) {
  return c.price ? c.price->seconds * static_cast<double>(c.counted) : 0;
}

static Row numbered(size_t number, Row row) {
  row.insert(row.begin(), std::to_string(number) + ".");
  return row;
}

// The ranks in `order` that are shown: the first `top`, and those of the largest message and the largest sum.
static std::vector<size_t> shownRanks(const ProgramReport& r, const std::vector<size_t>& order, size_t top) {
  std::vector<size_t> out;
  for (size_t i = 0; i < std::min(top, order.size()); ++i) out.push_back(i);
  const auto add = [&](auto&& bytes) {
    const auto largest = std::ranges::max_element(
        order, {}, [&](size_t g) { return std::pair(bytes(r.groups[g]), -static_cast<ptrdiff_t>(g)); });
    if (largest == order.end() || bytes(r.groups[*largest]) == 0) return;
    const auto rank = static_cast<size_t>(largest - order.begin());
    if (std::ranges::find(out, rank) == out.end()) out.push_back(rank);
  };
  add([](const ExplainGroup& g) { return g.total.bytes; });
  add([&](const ExplainGroup& g) {
    const auto& price = r.collectives[g.members[0]].price;
    return price ? static_cast<double>(price->bytesReceived) : 0;
  });
  std::ranges::sort(out);
  return out;
}

static std::string fullText(const ProgramReport& r, const std::vector<ExplainDecision>& decisions) {
  struct Equal { // such as the messages of a ring
    const ProgramCollective* first;
    int64_t times;
    [[nodiscard]] double seconds() const { return secondsOf(*first) * static_cast<double>(times); }
  };
  std::vector<Equal> order;
  std::map<std::string, size_t> known; // by text
  for (const ProgramCollective& c : r.collectives) {
    const auto [it, isNew] = known.emplace(joined(rowOf(c)) + detailText(c, r, 0), order.size());
    if (isNew)
      order.push_back({&c, 1});
    else
      ++order[it->second].times;
  }
  std::ranges::sort(order, {}, [](const Equal& e) { return std::pair(-e.seconds(), e.first); });
  std::vector<Row> rows = {{"", "collective", "over", "received", "count", "time", "value", "needed by"}};
  std::string details;
  for (const Equal& e : order) {
    rows.push_back(numbered(rows.size(), rowOf(*e.first, e.times)));
    details += detailText(*e.first, r, rows.size() - 1);
  }
  std::string out = table(rows) + "\n" + details;
  return out + explainText(decisions) + contractsText(r.contracts) + "total: " + totalText(r) +
         unknownText(r);
}

static std::string groupsText(const ProgramReport& r, const std::vector<ExplainDecision>& decisions,
                              size_t top) {
  std::string out = totalText(r) + unknownText(r) + "\n";
  out += summaryTable("over", r.summary.axes) + summaryTable("collective", r.summary.kinds);
  if (r.summary.layers.size() > 1) out += summaryTable("layer", r.summary.layers);
  const size_t maxGroups = top > 0 ? top : kTopGroups;
  const std::vector<size_t> order = byTime(r.groups);
  const std::vector<size_t> ranks = shownRanks(r, order, maxGroups);
  std::vector<Row> rows = {{"", "collective", "over", "received", "count", "time", "value", "needed by"}};
  SummaryRow rest;
  std::string details;
  for (size_t i = 0; i < order.size(); ++i) {
    const ExplainGroup& g = r.groups[order[i]];
    if (!std::ranges::binary_search(ranks, i)) {
      rest.count += g.total.count, rest.bytes += g.total.bytes, rest.seconds += g.total.seconds;
      continue;
    }
    rows.push_back(numbered(i + 1, rowOf(g, r)));
    details += groupText(g, r, i + 1);
  }
  const size_t left = order.size() - ranks.size();
  if (left > 0)
    out += "the " + std::to_string(std::min(maxGroups, order.size())) + " of " +
           std::to_string(order.size()) + " groups of equal collectives that take longest" +
           (ranks.size() > maxGroups ? ", and the largest transfer" : "") + ":\n";
  out += table(rows);
  if (left > 0)
    out += "and " + std::to_string(left) + (left == 1 ? " more group: " : " more groups: ") +
           std::to_string(rest.count) + (rest.count == 1 ? " message, " : " messages, ") + bytesOf(rest) +
           ", " + timeText(rest.seconds) + "  (--top N shows N groups, --full every collective)\n";
  out += "\n" + details + decisionsText(decisions, top > 0 ? top : kTopDecisions);
  return out + contractsText(r.contracts);
}

static std::string ringsText(const ProgramReport& r) {
  if (!r.rings) return "";
  const RingReport& rings = *r.rings;
  const std::string title =
      "\nrings on " + rings.target + " (collective-matmul): " + std::to_string(rings.rings.size());
  if (rings.rings.empty()) return title + "\n";
  std::vector<Row> rows = {
      {"", "collective", "over", "steps", "matmuls", "not stored", "exposed", "before", "value"}};
  for (const CollectiveRing& ring : rings.rings)
    rows.push_back(numbered(rows.size(), {std::string(ring.collective), ring.axes,
                                          std::to_string(ring.devices), std::to_string(ring.products),
                                          bytesText(ring.bytes), timeText(ring.times.exposedAfter),
                                          timeText(ring.times.exposedBefore), ring.value}));
  return title + "; messages are exposed for " + timeText(rings.after.exposed) + " instead of " +
         timeText(rings.before.exposed) + ", and the program takes " + timeText(rings.after.seconds) +
         " instead of " + timeText(rings.before.seconds) + "\n" + table(rows) +
         "exposed: the time that computation waits in the part of the program around the ring\n";
}

// The messages between stages, and how long the slowest stage computes.
static std::string stagesText(const ProgramReport& r) {
  if (!r.pipeline) return "";
  const PipelineRun& run = *r.pipeline;
  std::string out =
      pipelineTitle(run) + "\n  " + std::to_string(run.messages) +
      (run.messages == 1 ? " message" : " messages") + " between stages, " + bytesText(run.bytes) +
      " per step; the slowest stage takes " +
      timeText(std::ranges::max(run.shape.seconds[static_cast<size_t>(PipelinePhase::Forward)])) + " forward";
  if (run.shape.hasBackward) {
    std::vector<double> backward = run.shape.seconds[static_cast<size_t>(PipelinePhase::Backward)];
    const std::vector<double>& weights = run.shape.seconds[static_cast<size_t>(PipelinePhase::Weights)];
    for (size_t v = 0; v < backward.size() && v < weights.size(); ++v) backward[v] += weights[v];
    out += " and " + timeText(std::ranges::max(backward)) + " backward";
  }
  return out + " per micro-batch\n  (dtc view FILE --what schedule draws it)\n\n";
}

std::string collectivesText(const ProgramReport& r, const std::vector<ExplainDecision>& decisions,
                            const ExplainTextOptions& options) {
  const std::string stages = stagesText(r);
  if (r.collectives.empty())
    return stages + (r.pipeline ? "no other communication\n" : "the program does not communicate\n") +
           contractsText(r.contracts);
  if (options.full || (isSmall(r) && options.top == 0)) return stages + fullText(r, decisions) + ringsText(r);
  return stages + groupsText(r, decisions, options.top) + ringsText(r);
}

std::string limitsText(const ProgramReport& r) {
  if (r.axes.empty()) return "the program does not communicate\n";
  std::vector<Row> rows = {{"axis", "messages", "received", "time", "latency bound", "exposed"}};
  for (const AxisCost& a : r.axes)
    rows.push_back({a.axis, std::to_string(a.count), bytesText(a.bytesReceived), timeText(a.seconds),
                    timeText(a.latencySeconds), timeText(a.exposedSeconds)});
  std::string out = table(rows);
  out += "latency bound: the time of the messages with no payload; exposed: the time that computation (" +
         timeText(r.computeSeconds) +
         ") waits\nif ops run in the order of the program and each message overlaps with the independent "
         "ones after "
         "it;\nthe schedule reorders steps, and divides matmuls into rings\n";
  return out + unknownText(r) + ringsText(r);
}

static nlohmann::ordered_json ringsJson(const RingReport& r) {
  nlohmann::ordered_json out = {{"target", r.target},
                                {"seconds_before", r.before.seconds},
                                {"seconds_after", r.after.seconds},
                                {"exposed_seconds_before", r.before.exposed},
                                {"exposed_seconds_after", r.after.exposed},
                                {"list", nlohmann::ordered_json::array()}};
  for (const CollectiveRing& ring : r.rings)
    out["list"].push_back({{"collective", ring.collective},
                           {"axes", ring.axes},
                           {"value", ring.value},
                           {"steps", ring.devices},
                           {"matmuls", ring.products},
                           {"bytes", ring.bytes},
                           {"exposed_seconds_before", ring.times.exposedBefore},
                           {"exposed_seconds_after", ring.times.exposedAfter}});
  return out;
}

std::string programJson(const ProgramReport& r, const std::vector<ExplainReshard>& reshards,
                        const std::vector<ExplainDecision>& decisions, const StepCost* step) {
  nlohmann::ordered_json out;
  out["collectives"] = nlohmann::ordered_json::array();
  for (const ProgramCollective& c : r.collectives) out["collectives"].push_back(json(c));
  out["groups"] = nlohmann::ordered_json::array();
  for (const ExplainGroup& g : r.groups) {
    nlohmann::ordered_json one = {
        {"members", g.members}, {"values", g.value}, {"layer", g.layer}, {"for", g.purpose}};
    if (!g.name.empty()) one["name"] = g.name;
    addSums(one, g.total);
    out["groups"].push_back(std::move(one));
  }
  for (const auto& [name, rows] : {std::pair("axes", &r.summary.axes), std::pair("kinds", &r.summary.kinds),
                                   std::pair("layers", &r.summary.layers)}) {
    auto list = nlohmann::ordered_json::array();
    for (const SummaryRow& row : *rows) {
      nlohmann::ordered_json one = {{"label", row.label}, {"layers", row.layers}};
      addSums(one, row);
      list.push_back(std::move(one));
    }
    out["summary"][name] = std::move(list);
  }
  if (r.pipeline) {
    const PipelineRun& run = *r.pipeline;
    out["pipeline"] = {{"schedule", run.schedule},   {"devices", run.shape.devices},
                       {"chunks", run.shape.chunks}, {"microbatches", run.shape.microbatches},
                       {"bubble", run.bubble},       {"messages", run.messages},
                       {"bytes", run.bytes}};
    if (run.closedForm) out["pipeline"]["closed_form_bubble"] = *run.closedForm;
  }
  if (r.rings) out["rings"] = ringsJson(*r.rings);
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
  if (step) out["step"] = stepCostJson(*step);
  out["repeated"] = {{"collectives", r.repeated.count},
                     {"bytes_received", std::llround(std::min(r.repeated.bytes, 9e18))},
                     {"seconds", r.repeated.seconds}};
  out["assumed_sizes"] = assumedJson(r.assumed);
  out["reshards"] = nlohmann::ordered_json::array();
  for (const ExplainReshard& one : reshards) out["reshards"].push_back(reshardJson(one));
  out["decisions"] = decisionsJson(decisions);
  out["contracts"] = nlohmann::ordered_json::array();
  for (const ProgramContract& c : r.contracts)
    out["contracts"].push_back({{"of", c.of},
                                {"contract", c.contract},
                                {"location", c.location},
                                {"limit", c.limit},
                                {"exactly", c.exactly},
                                {"found", c.found}});
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dtc
