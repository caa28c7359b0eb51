#pragma once
// The header of a .safetensors file: JSON of a fixed schema
// (https://github.com/huggingface/safetensors#format).
#include "dtc/Support/DType.h"
#include "dtc/Support/Result.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dtc {

struct SafetensorsEntry {
  std::string name, dtypeName; // "BF16"
  std::optional<DType> dtype;  // empty: not supported by dtc
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0; // bytes of the data section
};

// Checks everything that can be checked without the data: unique names, known and unique keys, offsets in
// order and without gaps from 0 to `dataBytes`, each as long as dtype and shape require. The error completes
// the sentence "… : its header …".
[[nodiscard]] Result<std::vector<SafetensorsEntry>> parseSafetensorsHeader(std::string_view json,
                                                                           int64_t dataBytes);

// The "weight_map" of a .safetensors.index.json: the file of each tensor, by name.
[[nodiscard]] Result<std::map<std::string, std::string, std::less<>>>
parseSafetensorsIndex(std::string_view json);

[[nodiscard]] std::string_view safetensorsName(DType); // "BF16"

} // namespace dtc
