#pragma once
// The arguments and results of a StableHLO program as its text declares them. dtc holds some element types in
// wider ones (f8E4M3 as f32), so that a caller that has tensors of the declared types must convert them.
#include "dtc/Support/Diagnostics.h"
#include <span>

namespace dtc {

struct HloTensor {
  std::string element; // "f32", "i1", "complex<f32>"
  std::vector<int64_t> dims;
  bool token = false;     // not a tensor: an ordering of effects
  std::string memoryKind; // of a result: "pinned_host"; empty if none is stated
  std::string layout;     // "{0,1}", "default"; empty if none is stated
};

struct HloSignature {
  std::string module; // its name
  std::vector<HloTensor> arguments, results;
};

// Of the function `main`, or the only function. False after reporting an error.
[[nodiscard]] bool hloSignature(std::string_view text, HloSignature& out, Diagnostics& diags);

// The values of the patterns of a float of at most 8 bits that dtc holds in f32; empty for any other type.
[[nodiscard]] std::span<const float> heldValues(std::string_view element);

} // namespace dtc
