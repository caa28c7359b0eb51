#pragma once
// The kernels and library calls of a scheduled program, with their sizes on the first device.
#include "dtc/Cuda/KernelFacts.h"
#include "dtc/IR/Module.h"
#include "dtc/Kernel/Kernel.h"

namespace dtc {

// A call of a kernel.
struct KernelUse {
  uint32_t kernel = 0;   // of the set
  KernelLaunch launch;   // without `blocks`, which the schedule decides
  bool fallback = false; // cuDNN's, where it is installed
  OpId op;
};

// A fused op, or another op that reads or writes values.
struct StepUse {
  OpId op;
  std::string name; // "matmul + k_gelu", "k_softmax", "all_reduce"
  bool library = false, view = false, copies = false;
  bool epilogue = false; // a kernel that reads what the matmul has just written
};

struct MatmulUse {
  GemmProblem<int64_t> problem;
};

struct ProgramUses {
  std::vector<KernelUse> kernels;
  std::vector<MatmulUse> matmuls;
  std::vector<StepUse> steps; // in program order
};

// Adds the program's fused ops to `set`, which has no cuDNN; `libraries` has, and says which calls are its.
[[nodiscard]] Result<ProgramUses> usesOf(Module&, FuncId entry, KernelSet& set, KernelSet& libraries);

} // namespace dtc
