#pragma once
// The static analysis of a program's kernels for a GPU: what the compiled code says about each kernel's
// speed (Cuda/KernelFacts.h), how many library calls a matmul is, and how often each large value passes
// through memory.
#include "dtc/Cuda/KernelFacts.h"
#include "dtc/IR/Module.h"
#include "dtc/Support/Result.h"

namespace dtc {

// The uses of one kernel with the same sizes.
struct KernelRow {
  std::string name, schedule;
  int64_t uses = 0;
  bool fallback = false; // cuDNN's call, where it is installed
  KernelFacts facts;
  KernelEstimate estimate;
  std::vector<KernelComplaint> complaints;
  // The time beyond the roofline, of all uses.
  [[nodiscard]] double lostSeconds() const;
};

// The matmuls of one shape.
struct MatmulRow {
  std::string shape;           // "8 x [1024, 768] x [768, 64], bf16"
  int64_t uses = 0, calls = 1; // of the library, for each
};

// Values of at least kSmallBytes that a program writes and reads more often than it must. A value is written
// once; each library call reads it; generated kernels of which none depends on another could read it
// together.
struct PassesRow {
  std::string writer, type, where; // "matmul + k_gelu", "bf16[8, 1024, 768]", "gpt.dt:41"
  std::vector<std::string> readers;
  int64_t uses = 0, bytes = 0, passes = 0, least = 0;
};

struct ProgramKernels {
  std::vector<KernelRow> kernels; // those that lose most first
  std::vector<MatmulRow> matmuls;
  std::vector<PassesRow> passes; // the largest excess first
};

// Requires scheduled local text. Compiles each kernel for the target (Nvrtc's errors).
[[nodiscard]] Result<ProgramKernels> programKernels(Module&, FuncId entry, const Target&);

[[nodiscard]] std::string kernelsText(const ProgramKernels&, std::string_view target);
[[nodiscard]] std::string
kernelsJson(const ProgramKernels&); // {"kernels": […], "matmuls": […], "passes": […]}

} // namespace dtc
