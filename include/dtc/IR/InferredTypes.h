#pragma once
// The result types of the ops that were inferred so far: a model repeats its layers, and inference from rules
// takes a fourth of the time of reading a text. Ids of the module's tables; a Module has one.
#include "dtc/Support/Id.h"
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dtc {

class InferredTypes {
public:
  // Null if there is none. `key`: all that the types depend on, as numbers.
  [[nodiscard]] const std::vector<TypeId>* find(std::span<const uint32_t> key) const {
    const auto it = types_.find(bytes(key));
    return it == types_.end() ? nullptr : &it->second;
  }
  void add(std::span<const uint32_t> key, const std::vector<TypeId>& types) {
    types_.emplace(bytes(key), types);
  }

private:
  static std::string_view bytes(std::span<const uint32_t> key) {
    return {reinterpret_cast<const char*>(key.data()), key.size_bytes()};
  }
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_map<std::string, std::vector<TypeId>, Hash, std::equal_to<>> types_;
};

} // namespace dtc
