#pragma once
// The ops of attention, and the split of those with few queries and long keys over parts of the keys, to occupy
// a whole GPU.
#include "dtc/IR/build/Builder.h"
#include <optional>

namespace dtc {

// attention, attention_parts, attention_grad and attention_grad_mask.
enum class AttentionForm : uint8_t { None, Whole, Parts, Gradient, MaskGradient };
[[nodiscard]] AttentionForm attentionForm(const OpRecord&);
// Of the two gradients: q, k, v and dy, of which a kernel reads rows of contiguous elements in any layout.
[[nodiscard]] constexpr bool isRowsOperand(size_t operand) { return operand < 3 || operand == 5; }

// delta of a gradient, if ops of the same block compute it from attention's result y: the sum of y dy along the
// last dim. A kernel of the gradient, generated or a library's, then computes it itself, from y and dy.
struct AttentionDelta {
  ValueId y, cotangent;  // before widening; `cotangent` is dy, perhaps by data-movement ops of its own
  std::vector<OpId> ops; // the sum, the product and the widening conversions
};
[[nodiscard]] std::optional<AttentionDelta> attentionDelta(Module&, OpId gradient);

// Rewrites an op of the form Whole (on one device) as attention_parts and the ops that merge the parts; pushes
// one value for each of its results. False, and nothing is written, if the op occupies a large GPU as it is.
// The number of parts depends only on the shape.
[[nodiscard]] bool splitAttentionKeys(Builder&, OpId attention, std::vector<ValueId>& results);

} // namespace dtc
