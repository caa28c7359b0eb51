// Explanations as text and as JSON.
#include "dtc/Report/explain/Explain.h"
#include "dtc/Sharding/Reshard.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include "explain/ExplainGroups.h"
#include "explain/ReportText.h"
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace dtc {

std::string timeText(double seconds) {
  char buffer[48];
  if (seconds > 0 && seconds < 1e-7)
    std::snprintf(buffer, sizeof buffer, "%.2g ns", seconds * 1e9);
  else if (seconds < 1e-3)
    std::snprintf(buffer, sizeof buffer, "%.1f us", seconds * 1e6);
  else
    std::snprintf(buffer, sizeof buffer, "%.2f ms", seconds * 1e3);
  return buffer;
}

std::string assumedText(const std::vector<std::string>& symbols) {
  if (symbols.empty()) return "";
  const std::string size = std::to_string(kNominalSymbol);
  return "costs are for " + joined(symbols, " = " + size + ", ") + " = " + size + ": --dim " +
         joined(symbols, "=N,") + "=N gives " + (symbols.size() == 1 ? "another size\n" : "other sizes\n");
}

nlohmann::ordered_json assumedJson(const std::vector<std::string>& symbols) {
  auto out = nlohmann::ordered_json::object();
  for (const std::string& s : symbols) out[s] = kNominalSymbol;
  return out;
}

std::string namedText(const std::string& value, const std::string& userName) {
  return userName.empty() ? value : value + " (" + userName + ")";
}

static std::string stepText(const ExplainStep& s) {
  std::string out = namedText(s.value, s.userName) + " dim " + std::to_string(s.dim) + " over " + s.parts;
  switch (s.kind) {
  case ExplainStep::Annotation: out += ": annotated"; break;
  case ExplainStep::ResultAnnotation: out += ": annotated on the function's result"; break;
  case ExplainStep::Boundary: out += ": passed into or out of a block or function"; break;
  case ExplainStep::Through:
    out += ": through '" + s.via + "'" + (s.factor.empty() ? "" : ", factor " + s.factor);
    break;
  case ExplainStep::Cheapest: out += ": two dims of '" + s.via + "' want it; so the fewest bytes move"; break;
  case ExplainStep::ByPrice:
    out += ": policy cost, at " + (s.via.empty() ? "a boundary" : "'" + s.via + "'") +
           ": the ops that it affects take " + timeText(s.secondsAfter) + " instead of " +
           timeText(s.secondsBefore);
    break;
  }
  return s.location.empty() ? out : out + "  (" + s.location + ")";
}

std::string stepsText(const std::vector<ExplainStep>& chains, const std::string& indent, bool endsOnly) {
  std::vector<std::string> said; // axes of one dim have equal chains
  for (size_t begin = 0, end = 0; begin < chains.size(); begin = end) {
    std::string chain;
    for (end = begin; end < chains.size() && (end == begin || !chains[end].first); ++end)
      if (!endsOnly || end == begin || end + 1 == chains.size() || chains[end + 1].first)
        chain += indent + stepText(chains[end]) + "\n";
    if (endsOnly && end - begin > 2)
      chain += indent + "(" + std::to_string(end - begin - 2) + (end - begin == 3 ? " step" : " steps") +
               " between these two)\n";
    if (std::ranges::find(said, chain) == said.end()) said.push_back(std::move(chain));
  }
  return joined(said, "");
}

static std::string reshardText(const ExplainReshard& r, const std::string& indent) {
  std::string out = indent + namedText(r.value, r.userName) + ":" +
                    (r.from.empty() ? "" : " " + r.from + " -> " + r.to) + "\n";
  if (r.steps.empty()) out += indent + "  no communication\n";
  for (const ExplainCollective& c : r.steps) {
    out += indent + "  " + c.kind + (c.axes.empty() ? "" : " over " + c.axes) + ": ";
    out += c.bytes == 0
               ? "no communication\n"
               : bytesText(c.bytes) + " received per device, " + timeText(c.seconds) +
                     " on the nominal machine" +
                     (c.shared == 0 ? "\n"
                                    : "; the same message serves " + std::to_string(c.shared) + " more\n");
  }
  out += indent + "  because " + r.why + "\n";
  return out + stepsText(r.chain, indent + "    ");
}

// "all_gather of %x, all_gather of %h{0..59}": messages of values whose names differ in a number are one.
static std::string movesText(const std::string& moves) {
  std::vector<std::vector<NamePattern>> groups;
  for (size_t at = 0; at < moves.size();) {
    const size_t end = std::min(moves.find(", ", at), moves.size());
    NamePattern p = patternOf(std::string_view(moves).substr(at, end - at));
    const auto same = std::ranges::find_if(groups, [&](const auto& g) { return g[0].text == p.text; });
    (same == groups.end() ? groups.emplace_back() : *same).push_back(std::move(p));
    at = end + 2;
  }
  return joined(groups, ", ", [](const std::vector<NamePattern>& g) { return rangeText(g); });
}

std::string decisionText(const ExplainDecision& d, const std::string& indent) {
  std::string out = indent + "'" + d.op + "'" + (d.location.empty() ? "" : " (" + d.location + ")") +
                    " needs other shardings than those of its tensors:\n";
  for (const FormChoice& c : d.choices) {
    out += indent + (c.taken ? "  it runs with " : "  instead of ") + c.shardings + ": ";
    out += c.moves.empty() ? "no communication\n"
                           : movesText(c.moves) + ", " + bytesText(c.bytes) + " received per device, " +
                                 timeText(c.seconds) + " on the nominal machine\n";
    if (c.taken && !d.reason.empty()) out += indent + "    because " + d.reason + "\n";
  }
  return out;
}

std::string explainText(const ExplainValue& v) {
  std::string out = namedText((v.generated ? "in " : "") + v.value, v.userName) + ": " + v.type +
                    (v.sharding.empty() ? "" : " " + v.sharding);
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
  const bool costs = !v.reshards.empty() || !v.made.empty() || !v.decisions.empty();
  return costs && !v.assumed.empty() ? out + "  " + assumedText(v.assumed) : out;
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
         {"user_name", s.userName},
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
    steps.push_back({{"kind", c.kind},
                     {"axes", c.axes},
                     {"bytes_received", c.bytes},
                     {"seconds", c.seconds},
                     {"shared", c.shared}});
  return {{"value", r.value},    {"user_name", r.userName},
          {"from", r.from},      {"to", r.to},
          {"cause", r.cause},    {"cause_location", r.causeLocation},
          {"needs", r.needs},    {"needs_location", r.needsLocation},
          {"why", r.why},        {"chain", chainJson(r.chain)},
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
    out.push_back({{"op", d.op}, {"location", d.location}, {"choices", choices}, {"reason", d.reason}});
  }
  return out;
}

std::string explainJson(const ExplainValue& v) {
  nlohmann::ordered_json out = {{"value", v.value},
                                {"user_name", v.userName},
                                {"type", v.type},
                                {"sharding", v.sharding},
                                {"location", v.location}};
  out["dims"] = nlohmann::ordered_json::array();
  for (const ExplainDim& d : v.dims)
    out["dims"].push_back({{"size", d.size}, {"axes", d.parts}, {"chain", chainJson(d.chain)}});
  out["reshards"] = nlohmann::ordered_json::array();
  for (const ExplainReshard& r : v.reshards) out["reshards"].push_back(reshardJson(r));
  out["made_from"] = nlohmann::ordered_json::array();
  for (const ExplainReshard& r : v.made) out["made_from"].push_back(reshardJson(r));
  out["decisions"] = decisionsJson(v.decisions);
  out["assumed_sizes"] = assumedJson(v.assumed);
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace dtc
