#include "dtc/Support/HostCall.h"

#include <atomic>

namespace dtc {

static std::atomic<HostFunctions> functionsOfProcess = nullptr;

void setHostFunctions(HostFunctions functions) { functionsOfProcess = functions; }

HostCallOutcome callHostFunction(std::string_view target, std::span<const Tensor* const> operands,
                                 std::span<Tensor* const> results, std::string& error) {
  const HostFunctions functions = functionsOfProcess;
  return functions ? functions(target, operands, results, error) : HostCallOutcome::Unknown;
}

} // namespace dtc
