#pragma once
// Symbolic sizes: what the inputs say of them, and what nothing says.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

// The sizes that files bound to the function's arguments give (`--input x=FILE.npy`, an archive of tensors; `%x: f32[B, 512]`). Only headers are
// read. Errors: Input for files that give one name two sizes, or a size that is no multiple of its factor; a file that
// cannot be read, or whose rank is another's, is left for whoever binds it.
[[nodiscard]] Result<std::vector<std::pair<std::string, int64_t>>>
sizesFromInputs(const Module&, FuncId, std::span<const std::string> inputs);

// An error (Usage) that names every size of the module's functions that has no value, and where it stands.
[[nodiscard]] Status requireSizes(const Module&, FuncId entry);

} // namespace dtc
