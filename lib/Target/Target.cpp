#include "dtc/Target/Target.h"
#include "dtc/Target/GpuModel.h"

#include <algorithm>
#include <iterator>

namespace dtc {
constexpr int kOldestGpu = 80, kOldestOwn = 90; // kOldestOwn: the first with an "a" suffix ("sm_90a")

// Known GPUs (sm_101 and sm_110 name the same GPU in different CUDA versions).
constexpr int kArchs[] = {80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121};

// Dtypes supported by cuBLASLt, some through copies.
constexpr uint32_t kCublasDTypes = dtypeBit(DType::F8E4M3) | dtypeBit(DType::F8E5M2) | dtypeBit(DType::F16) |
                                   dtypeBit(DType::BF16) | dtypeBit(DType::F32) | dtypeBit(DType::F64);
constexpr uint32_t kCudnnDTypes =
    dtypeBit(DType::F16) | dtypeBit(DType::BF16) | dtypeBit(DType::F32) | dtypeBit(DType::F64);

static void setBlockLimits(Target& t) {
  const GpuModel& model = gpuModelOf(t.name);
  t.sharedBytes = model.blockSharedBytes, t.clusterBlocks = model.clusterBlocks;
  t.multiprocessors = model.multiprocessors;
}

Target Target::withoutLibraries() const {
  Target t = *this;
  t.gemmDTypes = t.convDTypes = t.attentionDTypes = 0;
  t.gemmEpilogues = t.gemmRelu = false;
  return t;
}

Result<Target> targetNamed(std::string_view name) {
  Target t;
  t.name = name;
  if (name == "cpu") {
    t.convDTypes = dtypeBit(DType::F32) | dtypeBit(DType::BF16); // oneDNN
    return t;
  }
  if (!isCudaArch(name))
    return usageError("'" + std::string(name) + "' is not a target; expected cpu, " + cudaArchList());
  t.gpu = true;
  setBlockLimits(t);
  t.gemmDTypes = kCublasDTypes;
  t.convDTypes = kCudnnDTypes;
  t.attentionDTypes = dtypeBit(DType::F16) | dtypeBit(DType::BF16);
  t.gemmEpilogues = true;
  return t;
}

bool isCudaArch(std::string_view arch) {
  if (!arch.starts_with("sm_")) return false;
  const bool own = arch.ends_with('a');
  const std::string digits(arch.substr(3, arch.size() - 3 - (own ? 1 : 0)));
  if (digits.size() < 2 || digits.size() > 3 || digits.find_first_not_of("0123456789") != std::string::npos)
    return false;
  if (digits[0] == '0') return false;
  const int number = std::stoi(digits);
  if (number > std::end(kArchs)[-1]) return true; // a later GPU, possibly known to NVRTC
  return number >= (own ? kOldestOwn : kOldestGpu) && std::ranges::find(kArchs, number) != std::end(kArchs);
}

std::string cudaArchList() {
  std::string text;
  for (int number : kArchs) {
    text += (text.empty() ? "sm_" : ", sm_") + std::to_string(number);
    if (number >= kOldestOwn) text += ", sm_" + std::to_string(number) + "a";
  }
  return text;
}

} // namespace dtc
