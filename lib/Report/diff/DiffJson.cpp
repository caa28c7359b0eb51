// The report of diff as JSON.
#include "dtc/Report/diff/ProgramDiff.h"

#include <nlohmann/json.hpp>

namespace dtc {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKinds[] = {"setting",  "annotation", "attributes", "op",
                                  "operands", "type",       "added",      "removed"};
constexpr const char* kBudgets[] = {"bytes", "time", "memory"};

Json orNull(int cause) { return cause == kNoCause ? Json(nullptr) : Json(cause); }
Json orNull(const std::optional<int64_t>& bytes) { return bytes ? Json(*bytes) : Json(nullptr); }

Json json(const DiffSums& s) {
  return {
      {"messages", s.messages}, {"bytes", s.bytes}, {"seconds", s.seconds}, {"exposed_seconds", s.exposed}};
}

Json json(const DiffCause& c) {
  return {
      {"kind", kKinds[c.kind]}, {"what", c.what},         {"op", c.op},       {"before", c.before},
      {"after", c.after},       {"location", c.location}, {"count", c.count}, {"statements", c.statements}};
}

Json json(const DiffSharding& s) {
  return {{"what", s.what},         {"op", s.op},       {"before", s.before},      {"after", s.after},
          {"location", s.location}, {"count", s.count}, {"cause", orNull(s.cause)}};
}

Json json(const DiffCollective& c) {
  const auto side = [](const std::string& kind, const std::string& axes, int64_t bytes,
                       const DiffSums& sums) {
    if (kind.empty()) return Json(nullptr);
    Json out = {{"kind", kind}, {"axes", axes}, {"bytes_each", bytes}};
    out.update(json(sums));
    return out;
  };
  return {{"what", c.what},
          {"op", c.op},
          {"location", c.location},
          {"layer", c.layer},
          {"count", c.count},
          {"cause", orNull(c.cause)},
          {"a", side(c.kindA, c.axesA, c.bytesA, c.a)},
          {"b", side(c.kindB, c.axesB, c.bytesB, c.b)}};
}

Json json(const DiffComputation& c) {
  return {{"what", c.what},           {"op", c.op},       {"location", c.location}, {"count", c.count},
          {"cause", orNull(c.cause)}, {"a_seconds", c.a}, {"b_seconds", c.b}};
}

Json json(const DiffBuffer& r) {
  return {{"what", r.what},         {"kind", r.kind},   {"type_a", r.typeA}, {"type_b", r.typeB},
          {"location", r.location}, {"count", r.count}, {"a_bytes", r.a},    {"b_bytes", r.b}};
}

Json json(const DiffRow& r) { return {{"label", r.label}, {"a", json(r.a)}, {"b", json(r.b)}}; }

Json json(const DiffTotals& t) {
  Json out = json(t.communication);
  out["compute_seconds"] = t.computeSeconds;
  out["schedule_seconds"] = t.scheduleSeconds;
  out["schedule_bytes"] = t.scheduleBytes;
  out["step_seconds"] = t.seconds;
  out["received_bytes"] = t.receivedBytes;
  out["peak_bytes"] = orNull(t.peakBytes);
  return out;
}

template <class Row> Json list(const std::vector<Row>& rows) {
  Json out = Json::array();
  for (const Row& r : rows) out.push_back(json(r));
  return out;
}

} // namespace

std::string diffJson(const ProgramDiff& d, std::span<const DiffBudget> budgets) {
  Json out;
  out["a"] = {{"name", d.nameA}, {"dtc", d.versionA}};
  out["b"] = {{"name", d.nameB}, {"dtc", d.versionB}};
  if (d.comparesCosts) out["a"]["total"] = json(d.a), out["b"]["total"] = json(d.b);
  for (const auto& [side, problems] : {std::pair("a", &d.problemsA), std::pair("b", &d.problemsB)})
    if (!problems->empty()) out[side]["diagnostics"] = Json::parse(diagnosticsJson(*problems));
  out["changed"] = !d.empty();
  out["compares_statements"] = d.comparesStatements;
  out["compares_costs"] = d.comparesCosts;
  out["complete"] = d.complete;
  out["before_schedule"] = d.beforeSchedule;
  out["has_stages"] = d.hasStages;
  if (!d.noMemory.empty()) out["no_memory"] = d.noMemory;
  out["causes"] = list(d.causes);
  out["shardings"] = list(d.shardings);
  out["types"] = d.types;
  out["generated"] = d.generated;
  out["collectives"] = list(d.collectives);
  out["computation"] = list(d.computations);
  out["memory"] = list(d.buffers);
  out["axes"] = list(d.axes);
  out["kinds"] = list(d.kinds);
  out["layers"] = list(d.layers);
  out["schedule_kinds"] = list(d.scheduleKinds);
  out["budgets"] = Json::array();
  for (const DiffBudget& b : budgets) {
    const auto why = exceeded(b, d);
    out["budgets"].push_back(
        {{"of", kBudgets[b.of]}, {"limit", b.text}, {"holds", !why}, {"message", why.value_or("")}});
    if (const std::string assumed = assumptionOf(b, d); !assumed.empty())
      out["budgets"].back()["assumes"] = assumed;
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace dtc
