#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Passes/analysis/TargetOf.h"
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

Result<std::string> targetOfBackend(std::string_view backend) {
  if (backend == "cpu" || backend == "evaluator") return std::string("cpu");
  if (backend == "cuda-emu") return std::string(kEmulatedTarget);
  DTC_TRY(auto driver, CudaDriver::open());
  const CudaDeviceInfo& gpu = driver.devices().front();
  if (!isCudaArch(gpu.arch()))
    return machineError("dtc's kernels need a GPU of compute capability 8.0 or later; this one is of " +
                        std::to_string(gpu.major) + "." + std::to_string(gpu.minor));
  return gpu.arch();
}

Status checkTarget(const Module& m, FuncId f, const Backend& backend) {
  const std::string text = writtenTarget(m, f), device = backend.kernelOptions().target.name;
  const bool emulated = backend.name() == "cuda-emu" && text != "cpu"; // any GPU target
  if (text.empty() || text == device || emulated) return Ok{};
  return inputError("@" + std::string(m.strings[m[f].name]) + " is compiled for " + text +
                    ", but --backend " + std::string(backend.name()) + " runs " + device +
                    ": compile the program with --target " + device);
}

} // namespace dtc
