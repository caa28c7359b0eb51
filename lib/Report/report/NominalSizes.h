#pragma once
// Types with symbolic sizes at the size that costs take for a symbol.
#include "dtc/IR/Module.h"

namespace dtc {

// f32[1024, 64] of f32[B, 64]; the type itself if it has no symbols. Invalid: a size is unknown or too large.
[[nodiscard]] TypeId nominalType(Module&, TypeId);

} // namespace dtc
