#include "RunReport.h"

#include "dtc/Support/Json.h"

#include <algorithm>

namespace dtc {

std::string RunReport::json() const {
  std::string json = "{\"program\": " + jsonString(module.source.name) +
                     ", \"entry\": " + jsonString(module.strings[module[entry].name]) +
                     ", \"backend\": " + jsonString(backend);
  std::string list;
  for (const RunResult* r : printed) list += (list.empty() ? "\n " : ",\n ") + resultJson(*r);
  if (!list.empty()) json += ",\n\"results\": {" + list + "}";
  if (const std::string nonFinite = results.nonFiniteJson(); !nonFinite.empty())
    json += ",\n\"nonfinite\": {" + nonFinite + "}";
  if (nans) json += ",\n\"nan\": " + nans->json();
  if (check) json += ",\n\"check\": " + check->json();
  if (timed) json += ",\n\"stats\": " + stats.json(*timed, module);
  return json + "}";
}

std::string RunReport::text() const {
  std::string text;
  for (const std::string& name : texts) text += results.text(name);
  for (const RunResult* r : printed) text += resultText(*r);
  if (timed) text += stats.text(*timed, module);
  if (check) text += check->text();
  return text;
}

std::string RunReport::times() const {
  if (stats.runMs.size() < 2 || timed) return "";
  std::vector<double> sorted = stats.runMs;
  std::ranges::sort(sorted);
  char line[96];
  std::snprintf(line, sizeof line, "%zu runs: median %.3f ms, min %.3f ms\n", sorted.size(),
                sorted[sorted.size() / 2], sorted[0]);
  return line;
}

} // namespace dtc
