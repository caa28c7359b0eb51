#pragma once
// Local functions whose regions are compiled one by one and run on the CPU, against the reference evaluator.
#include "dtc/Check/run/Compare.h"
#include "dtc/Emu/CudaEmu.h"
#include "dtc/Eval/Eval.h"
#include "dtc/Eval/RandomInputs.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Jit/CpuJit.h"
#include "dtc/Kernel/Kernel.h"
#include "dtc/Ops/record/Ops.h"
#include "dtc/Passes/fuse/Fuse.h"
#include <deque>
#include <gtest/gtest.h>

namespace dtc {

// One fused region of a module, its inputs, and what must come out of it.
struct KernelCase {
  std::string text; // for messages
  Module* module = nullptr;
  OpId fused;
  std::vector<Tensor> inputs;       // one per operand of the region
  std::vector<int64_t> coordinates; // sizes that are no numbers: value of each Dim, by the order they are met
  std::vector<Tensor> r64, rd;
};

class KernelCases {
public:
  explicit KernelCases(KernelOptions options) : set_(options) {}

  // All regions of a module whose functions are local and fused already. Inputs are random, [lo, hi) for integers.
  void add(Module& m, FuncId f, std::vector<Tensor> args, const std::string& text);
  // Compiles everything at once, runs it, and reports each difference as a test failure. `units`: runs a kernel's units
  // that many at a time (0: all at once).
  void runOnCpu(int64_t unitsAtATime);
  void runOnEmulator(); // under each of its schedules
  [[nodiscard]] const KernelSet& kernels() const { return set_; }

private:
  struct Planned {
    std::string text;
    KernelCall call;
    std::vector<Tensor> inputs, r64, rd;
    std::vector<int64_t> sizes;
  };
  void runOnEmulator(size_t schedule);
  void compare(const Planned& p, std::vector<Tensor>& outputs);
  KernelSet set_;
  std::deque<Planned> planned_;
};

// Arguments of a function, random.
[[nodiscard]] std::vector<Tensor> randomArguments(const Module& m, FuncId f);

} // namespace dtc
