#pragma once
// Functions of the process that a program calls by name: the op `custom` with such a target.
#include "dtc/Support/Tensor.h"

#include <span>
#include <string>
#include <string_view>

namespace dtc {

enum class HostCallOutcome { Done, Failed, Unknown };

// Runs the function `target`: reads `operands`, writes `results`, whose dtypes and shapes are those of the program.
// Failed: see `error`. Unknown: the process has no such function. Called from any thread.
using HostFunctions = HostCallOutcome (*)(std::string_view target, std::span<const Tensor* const> operands,
                                          std::span<Tensor* const> results, std::string& error);

// The functions are those of the process, as the targets of custom calls of other runtimes are: a program names them,
// and whoever makes the program also provides them. Null: none.
void setHostFunctions(HostFunctions functions);
[[nodiscard]] HostCallOutcome callHostFunction(std::string_view target,
                                               std::span<const Tensor* const> operands,
                                               std::span<Tensor* const> results, std::string& error);

} // namespace dtc
