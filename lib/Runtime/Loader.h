#pragma once
// From a scheduled function to a Program, in three sweeps: what each op becomes, kernels compiled, devices placed.
#include "Program.h"
#include "dtc/IR/Naming.h"
#include "dtc/Support/Lines.h"

namespace dtc {

class Loader {
public:
  Loader(Module& m, FuncId f, Backend& backend, Program& program)
      : m_(m), func_(f), backend_(backend), program_(program), kernels_(backend.kernelOptions()),
        names_(m, f), lines_(m.source.text) {}
  [[nodiscard]] Status load(bool reuseMemory, bool overlaps);
  double printMs = 0; // of load(): the time that went into the kernels' texts

private:
  // What one step of kind Kernel or Gemm is made from, kept until the devices have memory.
  struct FusedStep {
    OpId op;
    FusedCall call;
    uint32_t info = 0;
  };
  struct Content { // bytes that a buffer holds from the start: literals, constants, indices
    int64_t offset = 0;
    std::vector<std::vector<std::byte>> at; // by place; one entry where all are equal
  };

  Status planArena(bool reuseMemory, bool overlaps);

  // Sweep 1 (Loader.cpp, LoadControl.cpp)
  Status block(BlockId b, StepList& out);
  Status op(OpId o, StepList& out);
  Status fused(OpId o, StepList& out);
  Status meeting(OpId o, StepList& out, bool host);
  Status loadTime(OpId o);
  Status cond(OpId o, StepList& out);
  Status whileLoop(OpId o, StepList& out);
  Status forLoop(OpId o, StepList& out);
  Result<ForStep::Bound> bound(ValueId v);
  // Copies that happen at the same time: where one would overwrite what another still reads, by way of a temporary.
  struct Move {
    ValueId from, to;
    bool stacked = false; // to row `trip` of a stacked result
  };
  Status moves(std::span<const Move> list, OpId o, StepList& out);
  Status copyStep(int64_t from, int64_t to, TypeId type, bool stacked, OpId o, StepList& out);

  // Sweep 3 (LoadCalls.cpp)
  Status placeAll();
  Status placeKernel(const FusedStep& step, PlacedStep& out);
  Status placeGemm(const FusedStep& step, PlacedStep& out);
  Status placeConv(const FusedStep& step, PlacedStep& out);
  Status placeAttention(const FusedStep& step, PlacedStep& out);
  PlacedKernel kernelAt(OpId o, const KernelCall& call, int64_t place);
  PlacedAttention attentionAt(OpId o, const AttentionCall& call, int64_t place);
  PlacedGemm gemmAt(OpId o, const GemmCall& call, int64_t place);
  std::string nameOf(const GemmCall& call) const; // "matmul, residual + k_relu"
  Status placeMeeting(MeetingStep& step);
  Status fillContents();
  void countWork();

  // Before kernels are compiled (CheckSchedule.cpp): all devices issue the same collectives in the same order.
  [[nodiscard]] Status checkSchedule();

  Result<int64_t> offsetOf(ValueId v); // of a value's buffer; literals get one
  int64_t extra(int64_t bytes);        // memory behind the plan's
  std::byte* addressOf(int64_t place, int64_t offset) {
    return program_.arenas[static_cast<size_t>(place)] + offset;
  }
  // A constant, or one of a device's own indices, on one place.
  Result<std::vector<Tensor>> valuesOn(OpId o, int64_t place);
  uint32_t info(OpId o, std::string name, std::string what, int64_t bytes = 0, int64_t flops = 0);
  Error at(OpId o, const Error& e) const; // names the op
  Error at(OpId o, const std::string& why, Error::Kind kind = Error::Input) const {
    return at(o, Error{kind, why});
  }

  Module& m_;
  FuncId func_;
  Backend& backend_;
  Program& program_;
  KernelSet kernels_;
  Naming names_; // as the program is printed
  LineTable lines_;
  std::vector<FusedStep> kernelSteps_, gemmSteps_; // gemmSteps_: all that a library does
  std::vector<Content> contents_;
  std::unordered_map<std::string, int64_t> literalOfBytes_; // equal literals share a place
  struct Temporary {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Temporary> temporaries_; // of moves: in use only while one list of them is carried out
};

} // namespace dtc
