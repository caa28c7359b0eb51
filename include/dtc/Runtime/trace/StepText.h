#pragma once
#include <string>

namespace dtc {

// What reports call a step of a scheduled program, and its place in the program's text.
struct StepText {
  std::string value, place; // "partial %y", "mlp.dt:8"
};

} // namespace dtc
