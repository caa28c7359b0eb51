#pragma once
// Elementwise ops of some tens of instructions per element: sin, exp, pow.
#include "dtc/IR/Module.h"
#include <unordered_map>

namespace dtc {

class CostlyOps {
public:
  [[nodiscard]] bool is(Module&, OpId) const;

private:
  mutable std::unordered_map<OpKind, bool> kinds_; // with a fixed scalar expression
};

} // namespace dtc
