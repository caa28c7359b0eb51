#pragma once
// Parts of explanations as text and JSON, shared by the reports.
#include "dtc/Report/explain/Explain.h"
#include <nlohmann/json.hpp>

namespace dtc {

[[nodiscard]] std::string timeText(double seconds); // "3.0 us", "1.25 ms"
[[nodiscard]] std::string stepsText(const std::vector<ExplainStep>&, const std::string& indent);
[[nodiscard]] std::string decisionText(const ExplainDecision&, const std::string& indent);
[[nodiscard]] nlohmann::ordered_json chainJson(const std::vector<ExplainStep>&);
[[nodiscard]] nlohmann::ordered_json reshardJson(const ExplainReshard&);
[[nodiscard]] nlohmann::ordered_json decisionsJson(const std::vector<ExplainDecision>&);

} // namespace dtc
