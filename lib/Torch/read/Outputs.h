#pragma once
// Names of a program's outputs, of the dicts that the model returns.
#include <nlohmann/json.hpp>

namespace dtc {

// The path of each output of the user, "cache.0.k"; "" where no dict is on it. Empty if the program says nothing of
// them, or nothing that is understood.
[[nodiscard]] std::vector<std::string> outputPaths(const nlohmann::json& program);

} // namespace dtc
