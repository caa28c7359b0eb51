#pragma once
// gelu's tanh form and its gradient in programs, for libraries that compute them.
#include "dtc/IR/Module.h"
#include <optional>
#include <vector>

namespace dtc {

// gelu {approximate = "tanh"}
[[nodiscard]] bool isGeluTanh(const Module&, OpId);

// An op that multiplies `dy` by the derivative of gelu's tanh form at `x`, as the op's gradient writes it.
struct GeluTanhGradient {
  ValueId x, dy;
  std::vector<OpId> derivative; // the ops from x to the factor, in no order
};
[[nodiscard]] std::optional<GeluTanhGradient> geluTanhGradient(const Module&, OpId);

} // namespace dtc
