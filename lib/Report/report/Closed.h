#pragma once
// A program without calls and gradients, ready for propagation.
#include "dtc/IR/Module.h"
#include "dtc/Support/Diagnostics.h"

#include <optional>

namespace dtc {

// `written`: takes the module as it is before canonicalize (Written.h), if that runs. Nothing after an error.
[[nodiscard]] std::optional<Module> closedModule(Module, FuncId entry, Diagnostics&,
                                                 std::optional<Module>* written = nullptr);

} // namespace dtc
