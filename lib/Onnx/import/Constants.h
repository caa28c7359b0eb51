#pragma once
// Values that are known at import: those that ops compute from constants. ONNX has shapes, axes and the like as
// operands, which models compute from the shapes of other values (Shape, Gather, Concat, …).
#include "dtc/IR/Module.h"
#include "dtc/Support/Tensor.h"
#include <unordered_map>

namespace dtc::onnx {

class Constants {
public:
  explicit Constants(Module& m) : m_(m) {}
  // The value, by the reference evaluator; nullptr if it depends on an argument, or is large.
  [[nodiscard]] const Tensor* of(ValueId);
  // The arguments of the program that a value depends on, in their order.
  [[nodiscard]] std::vector<ValueId> argumentsOf(ValueId) const;

private:
  [[nodiscard]] std::optional<Tensor> evaluated(OpId, uint32_t result);
  [[nodiscard]] bool isSmall(ValueId) const;

  Module& m_;
  std::unordered_map<uint32_t, std::optional<Tensor>> known_; // by ValueId
};

} // namespace dtc::onnx
