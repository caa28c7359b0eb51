#pragma once
// Which results of ATen ops share the memory of an operand, and how a change of the one reaches the other.
#include "dtc/Import/graph/Graph.h"

namespace dtc {

enum class Aliasing : uint8_t {
  None,    // a new tensor
  View,    // of the operand
  Unknown, // PyTorch decides when the op runs
};
[[nodiscard]] Aliasing aliasingOf(const ImportFile&, const ImportNode&, size_t result);

// The first argument with the name, or null.
[[nodiscard]] const ImportArgument* argumentOf(const ImportNode&, std::string_view name);
// "aten.add.Tensor" -> "aten.add"
[[nodiscard]] std::string_view withoutOverload(std::string_view target);

// The tensor that a result views: the first argument, or an element of it if it is a list.
[[nodiscard]] ImportValueRef viewedBy(const ImportNode&, size_t result);
void setViewed(ImportNode&, size_t result, ImportValueRef);

// The nodes that compute the viewed tensor from its present value and the view's next; the last returns it as
// its first result. Empty if there are none: the view repeats elements, say.
[[nodiscard]] std::vector<ImportNode> writtenBack(ImportFile&, const ImportNode& view, size_t result,
                                                  ImportValueRef base, ImportValueRef value);

} // namespace dtc
