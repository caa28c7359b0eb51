// Explanations as text and as JSON.
#include "dtc/Report/explain/Explain.h"
#include "dtc/Support/Units.h"
#include "explain/ReportText.h"
#include <cstdio>
#include <nlohmann/json.hpp>

namespace dtc {

std::string timeText(double seconds) {
  char buffer[48];
  if (seconds < 1e-3)
    std::snprintf(buffer, sizeof buffer, "%.1f us", seconds * 1e6);
  else
    std::snprintf(buffer, sizeof buffer, "%.2f ms", seconds * 1e3);
  return buffer;
}

std::string stepsText(const std::vector<ExplainStep>& chain, const std::string& indent) {
  std::string out;
  for (const ExplainStep& s : chain) {
    out += indent + s.value + " dim " + std::to_string(s.dim) + " over " + s.parts;
    switch (s.kind) {
    case ExplainStep::Annotation: out += ": annotated"; break;
    case ExplainStep::ResultAnnotation: out += ": annotated on the function's result"; break;
    case ExplainStep::Boundary: out += ": passed into or out of a block or function"; break;
    case ExplainStep::Through:
      out += ": through '" + s.via + "'" + (s.factor.empty() ? "" : ", factor " + s.factor);
      break;
    case ExplainStep::Cheapest:
      out += ": two dims of '" + s.via + "' want it; so the fewest bytes move";
      break;
    case ExplainStep::ByPrice:
      out += ": policy cost, at " + (s.via.empty() ? "a boundary" : "'" + s.via + "'") +
             ": the ops that it affects take " + timeText(s.secondsAfter) + " instead of " +
             timeText(s.secondsBefore);
      break;
    }
    if (!s.location.empty()) out += "  (" + s.location + ")";
    out += "\n";
  }
  return out;
}

static std::string reshardText(const ExplainReshard& r, const std::string& indent) {
  std::string out = indent + r.value + ":" + (r.from.empty() ? "" : " " + r.from + " -> " + r.to) + "\n";
  if (r.steps.empty()) out += indent + "  no communication\n";
  for (const ExplainCollective& c : r.steps) {
    out += indent + "  " + c.kind + (c.axes.empty() ? "" : " over " + c.axes) + ": ";
    out += c.bytes == 0 ? "no communication\n"
                        : bytesText(c.bytes) + " received per device, " + timeText(c.seconds) +
                              " on the nominal machine\n";
  }
  out += indent + "  because " + r.why + "\n";
  return out + stepsText(r.chain, indent + "    ");
}

std::string decisionText(const ExplainDecision& d, const std::string& indent) {
  std::string out = indent + "'" + d.op + "'" + (d.location.empty() ? "" : " (" + d.location + ")") +
                    " needs other shardings than those of its tensors:\n";
  for (const FormChoice& c : d.choices) {
    out += indent + (c.taken ? "  it runs with " : "  instead of ") + c.shardings + ": ";
    out += c.moves.empty() ? "no communication\n"
                           : c.moves + ", " + bytesText(c.bytes) + " received per device, " +
                                 timeText(c.seconds) + " on the nominal machine\n";
  }
  return out;
}

std::string explainText(const ExplainValue& v) {
  std::string out =
      (v.generated ? "in " : "") + v.value + ": " + v.type + (v.sharding.empty() ? "" : " " + v.sharding);
  if (!v.location.empty()) out += "  (" + v.location + ")";
  out += "\n";
  for (size_t d = 0; d < v.dims.size(); ++d) {
    out += "  dim " + std::to_string(d) + " (" + v.dims[d].size + ") is ";
    out += v.dims[d].parts.empty() ? "unsharded\n" : "sharded along " + v.dims[d].parts + ":\n";
    out += stepsText(v.dims[d].chain, "    ");
  }
  out += !v.reshards.empty() ? "  communication:\n" : v.made.empty() ? "  no communication here\n" : "";
  for (const ExplainReshard& r : v.reshards) out += reshardText(r, "    ");
  if (!v.made.empty()) out += "  computed from values that are communicated:\n";
  for (const ExplainReshard& r : v.made) out += reshardText(r, "    ");
  if (!v.decisions.empty()) out += "  choices:\n";
  for (const ExplainDecision& d : v.decisions) out += decisionText(d, "    ");
  return out;
}

std::string explainText(const std::vector<ExplainDecision>& decisions) {
  std::string out;
  for (const ExplainDecision& d : decisions) out += decisionText(d, "");
  return out;
}

nlohmann::ordered_json chainJson(const std::vector<ExplainStep>& chain) {
  auto out = nlohmann::ordered_json::array();
  for (const ExplainStep& s : chain)
    out.push_back(
        {{"value", s.value},
         {"dim", s.dim},
         {"axes", s.parts},
         {"via", s.via},
         {"factor", s.factor},
         {"annotation", s.kind == ExplainStep::Annotation || s.kind == ExplainStep::ResultAnnotation},
         {"location", s.location}});
  return out;
}

nlohmann::ordered_json reshardJson(const ExplainReshard& r) {
  auto steps = nlohmann::ordered_json::array();
  for (const ExplainCollective& c : r.steps)
    steps.push_back(
        {{"kind", c.kind}, {"axes", c.axes}, {"bytes_received", c.bytes}, {"seconds", c.seconds}});
  return {{"value", r.value},
          {"from", r.from},
          {"to", r.to},
          {"cause", r.cause},
          {"cause_location", r.causeLocation},
          {"needs", r.needs},
          {"needs_location", r.needsLocation},
          {"why", r.why},
          {"chain", chainJson(r.chain)},
          {"collectives", steps}};
}

nlohmann::ordered_json decisionsJson(const std::vector<ExplainDecision>& decisions) {
  auto out = nlohmann::ordered_json::array();
  for (const ExplainDecision& d : decisions) {
    auto choices = nlohmann::ordered_json::array();
    for (const FormChoice& c : d.choices)
      choices.push_back({{"shardings", c.shardings},
                         {"taken", c.taken},
                         {"communication", c.moves},
                         {"bytes_received", c.bytes},
                         {"seconds", c.seconds}});
    out.push_back({{"op", d.op}, {"location", d.location}, {"choices", choices}});
  }
  return out;
}

std::string explainJson(const ExplainValue& v) {
  nlohmann::ordered_json out = {
      {"value", v.value}, {"type", v.type}, {"sharding", v.sharding}, {"location", v.location}};
  out["dims"] = nlohmann::ordered_json::array();
  for (const ExplainDim& d : v.dims)
    out["dims"].push_back({{"size", d.size}, {"axes", d.parts}, {"chain", chainJson(d.chain)}});
  out["reshards"] = nlohmann::ordered_json::array();
  for (const ExplainReshard& r : v.reshards) out["reshards"].push_back(reshardJson(r));
  out["made_from"] = nlohmann::ordered_json::array();
  for (const ExplainReshard& r : v.made) out["made_from"].push_back(reshardJson(r));
  out["decisions"] = decisionsJson(v.decisions);
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dtc
