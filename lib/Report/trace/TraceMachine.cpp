#include "dtc/Report/trace/TraceComparison.h"
#include "dtc/Support/Suggest.h"

#include <charconv>
#include <cmath>

namespace dtc {

Result<TraceMachine> parseTraceMachine(std::string_view text) {
  TraceMachine machine;
  const std::pair<std::string_view, std::optional<double>*> known[] = {{"flops", &machine.flops},
                                                                       {"memory", &machine.memory},
                                                                       {"link", &machine.link},
                                                                       {"latency", &machine.latency},
                                                                       {"launch", &machine.launch}};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    if (part == "nominal") {
      machine.nominal = true;
      continue;
    }
    const size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals),
                           number = part.substr(std::min(equals + 1, part.size()));
    double value = 0;
    const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool isTime = name == "latency" || name == "launch";
    bool found = false;
    for (const auto& [key, at] : known)
      if (key == name) *at = value, found = true;
    if (!found)
      return usageError(
          "--machine: expected nominal, or flops=N, memory=N, link=N (per second), latency=N, launch=N "
          "(in seconds), got '" +
          std::string(part) + "'");
    if (error != std::errc() || rest != number.data() + number.size() || !std::isfinite(value) || value < 0 ||
        (!isTime && value == 0))
      return usageError("--machine: " + std::string(name) + "=" + std::string(number) +
                        ": expected a number " +
                        (isTime ? "of seconds, 0 or more" : "above 0, such as 1e12"));
  }
  return machine;
}

} // namespace dtc
