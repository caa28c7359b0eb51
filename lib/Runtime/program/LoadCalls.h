#pragma once
// Binds the calls of a program to its devices: sizes and buffer addresses, and the step that the backend prepares
// from them.
#include "program/Program.h"

namespace dtc {

// The source of a step of kind Kernel or Gemm, kept until device memory is allocated.
struct FusedStep {
  OpId op;
  FusedCall call;
  uint32_t info = 0;
  uint32_t program = 0;
};

[[nodiscard]] std::string nameOf(const KernelSet&, const GemmCall&); // "matmul, residual + k_relu"

// For a program with memory, in which every operand and result has a buffer.
class CallPlacer {
public:
  CallPlacer(const Module& m, Backend& backend, const KernelSet& kernels, Program& program)
      : m_(m), backend_(backend), kernels_(kernels), program_(program) {}
  [[nodiscard]] Status place(const FusedStep& step, PlacedStep& out);
  [[nodiscard]] Status place(const RendezvousStep& step);

private:
  // The call with the sizes and addresses of device p.
  [[nodiscard]] PlacedKernel bound(OpId o, const KernelCall& call, int64_t p) const;
  [[nodiscard]] PlacedGemm bound(OpId o, const GemmCall& call, int64_t p) const;
  [[nodiscard]] PlacedConv bound(OpId o, const ConvCall& call, int64_t p) const;
  [[nodiscard]] PlacedAttention bound(OpId o, const AttentionCall& call, int64_t p) const;
  [[nodiscard]] PlacedFactorization bound(OpId o, const FactorizationCall& call, int64_t p) const;
  [[nodiscard]] std::byte* addressOf(ValueId v, int64_t p) const;
  void countWork(const FusedStep& step, StepInfo& info) const;

  const Module& m_;
  Backend& backend_;
  const KernelSet& kernels_;
  Program& program_;
};

} // namespace dtc
