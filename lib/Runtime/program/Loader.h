#pragma once
// Translates the scheduled functions of a program to a Program in three sweeps: lower each op to steps, compile
// kernels, and bind buffers on each device.
#include "dtc/IR/text/Naming.h"
#include "dtc/Support/Lines.h"
#include "program/LoadCalls.h"

#include <map>

namespace dtc {

class Loader {
public:
  Loader(Module& m, FuncId entry, Backend& backend, Program& program)
      : m_(m), entry_(entry), backend_(backend), program_(program), kernels_(backend.kernelOptions()),
        lines_(m.source) {}
  [[nodiscard]] Status load();
  double printMs = 0; // time of load() spent on printing kernel source

private:
  struct Content { // initial contents of a buffer: literals, constants, indices
    int64_t offset = 0;
    std::vector<std::vector<std::byte>> at; // by device; one entry if all are equal
    uint32_t program = 0;
  };

  void makePrograms();
  Status function(uint32_t program); // sweep 1 of one function
  void enter(uint32_t program);      // the function that the members below refer to
  Status readPlan();

  // Sweep 1
  Status block(BlockId b, StepList& out);
  Status op(OpId o, StepList& out);
  Status fused(OpId o, StepList& out);
  Status addRendezvous(OpId o, StepList& out, bool host);
  Status planHostOp(OpId o, RendezvousStep& step);
  void number(RendezvousStep& step, uint32_t index);
  Status done(OpId o, StepList& out);
  void overlap(RendezvousStep& step, uint32_t info);
  Status loadTime(OpId o);
  Status cond(OpId o, StepList& out);
  Status whileLoop(OpId o, StepList& out);
  Status forLoop(OpId o, StepList& out);
  Result<ForStep::Bound> bound(ValueId v);
  // Of a predicate or bound at `offset`, of the control step that has these lists; changes the offset.
  void agree(int64_t& offset, DType dtype, std::initializer_list<const StepList*> lists, OpId o,
             StepList& out);
  // Parallel copies: all sources are read before any destination is written, with temporaries if they
  // overlap.
  struct CopyPair {
    ValueId from, to;
    bool stacked = false; // to the current iteration's row of a stacked result
  };
  Status parallelCopies(std::span<const CopyPair> list, OpId o, StepList& out);
  Status copyStep(int64_t from, int64_t to, TypeId type, bool stacked, OpId o, StepList& out);

  Status fillContents();
  // Checks, before kernels are compiled, that all devices issue the same collectives in the same order.
  [[nodiscard]] Status checkSchedule();

  Result<int64_t> offsetOf(ValueId v); // of a value's buffer; allocates one for a literal
  int64_t extra(int64_t bytes);        // allocates memory after the plan's
  template <class T>
  static void add(ProgramStepKind kind, std::vector<T>& table, T step, uint32_t info, StepList& out) {
    out.push_back({kind, static_cast<uint32_t>(table.size()), info});
    table.push_back(std::move(step));
  }
  uint32_t info(OpId o, std::string name, std::string what, int64_t bytes = 0, int64_t flops = 0);
  Error at(OpId o, const Error& e) const; // adds the op to the message
  Error at(OpId o, const std::string& why, Error::Kind kind = Error::Input) const {
    return at(o, Error{kind, why});
  }

  DeviceProgram& own() { return program_.programs[current_]; }

  Module& m_;
  FuncId entry_;
  uint32_t current_ = 0; // index of the current function
  Backend& backend_;
  Program& program_;
  KernelSet kernels_;
  std::optional<Naming> names_; // value names of the current function, as printed
  LineTable lines_;
  std::vector<FusedStep> kernelSteps_, gemmSteps_; // gemmSteps_: all library calls
  struct OverlappedCollective {
    uint32_t number = 0, info = 0;
  };
  std::unordered_map<OpId, OverlappedCollective> overlappedOf_; // `…_start` ops without their `done` yet
  size_t numJoins_ = 0;
  std::vector<Content> contents_;
  std::unordered_map<std::string, int64_t> literalOfBytes_; // equal literals share a buffer
  struct Temporary {
    int64_t offset = 0, bytes = 0;
  };
  std::vector<Temporary> temporaries_; // of parallelCopies, reused by each call
  // The index of a rendezvous, by its devices and the number of those before it in a function.
  std::map<std::pair<std::vector<int64_t>, uint32_t>, uint32_t> rendezvous_;
  std::map<std::vector<int64_t>, uint32_t> issued_; // by the current function
};

} // namespace dtc
