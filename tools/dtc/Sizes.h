#pragma once
// Symbolic sizes from the files of --input.
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dtc {

// Infers symbolic sizes from the files bound to the function's arguments (`--input x=FILE.npy` or an archive,
// for `%x: f32[B, 512]`). Reads only headers. Error (Input): conflicting sizes, or a dim that is not a
// multiple of its factor. Unreadable files and rank mismatches are reported later, when inputs are bound.
[[nodiscard]] Result<std::vector<std::pair<std::string, int64_t>>>
sizesFromInputs(const Module&, FuncId, std::span<const std::string> inputs);

} // namespace dtc
