#pragma once
// Parts of explanations as text and JSON, shared by the reports.
#include "dtc/Report/explain/Explain.h"
#include <nlohmann/json.hpp>

namespace dtc {

struct StepCost;
[[nodiscard]] std::string timeText(double seconds); // "3.0 us", "1.25 ms"
// "costs are for B = 1024: --dim B=N gives another size"
[[nodiscard]] std::string assumedText(const std::vector<std::string>& symbols);
// {"target", "seconds", "bytes_received", "memory_bytes", "complete", "axes"}
[[nodiscard]] nlohmann::ordered_json stepCostJson(const StepCost&);
[[nodiscard]] nlohmann::ordered_json assumedJson(const std::vector<std::string>& symbols);
// "%arg0 (params['head'])"
[[nodiscard]] std::string namedText(const std::string& value, const std::string& userName);
// `endsOnly`: the two ends of each chain.
[[nodiscard]] std::string stepsText(const std::vector<ExplainStep>&, const std::string& indent,
                                    bool endsOnly = false);
[[nodiscard]] std::string decisionText(const ExplainDecision&, const std::string& indent);
[[nodiscard]] nlohmann::ordered_json chainJson(const std::vector<ExplainStep>&);
[[nodiscard]] nlohmann::ordered_json reshardJson(const ExplainReshard&);
[[nodiscard]] nlohmann::ordered_json decisionsJson(const std::vector<ExplainDecision>&);

} // namespace dtc
