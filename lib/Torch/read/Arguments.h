#pragma once
// Arguments of a node: unions with one key, {"as_ints": [1, 1]}.
#include "dtc/Import/graph/Graph.h"
#include <functional>
#include <nlohmann/json.hpp>

namespace dtc {

// What an argument refers to.
struct TorchNames {
  std::function<ImportValueRef(const std::string&)> tensor;   // a tensor by its name
  std::function<ImportInt(const std::string&)> size;          // a symbolic size by its name
  std::function<ImportGraphRef(const nlohmann::json&)> graph; // {"name", "graph"}
};

// Thrown: the JSON is not of the schema. Caught by readTorchProgram.
struct TorchSchemaError {
  std::string what;
};

[[nodiscard]] ImportAttribute readTorchArgument(const nlohmann::json& argument, const TorchNames&);

// Checked access.
[[nodiscard]] const nlohmann::json& memberOf(const nlohmann::json& object, const char* key);
[[nodiscard]] const nlohmann::json* findMember(const nlohmann::json& object,
                                               const char* key); // nullptr: null, too
[[nodiscard]] const std::string& stringOf(const nlohmann::json&, const char* what);
[[nodiscard]] const nlohmann::json& listOf(const nlohmann::json& object, const char* key);
[[nodiscard]] int64_t integerOf(const nlohmann::json&);
// The only key and the value of a union.
[[nodiscard]] std::pair<std::string_view, const nlohmann::json*> unionOf(const nlohmann::json&);

} // namespace dtc
