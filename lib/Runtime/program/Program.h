#pragma once
// A loaded program: flat lists of steps for each function of the program, and buffer addresses per device.
// Built once by Loader, executed by Runner without lookups or allocations.
#include "dtc/IR/DevicePrograms.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Runtime/backend/Backend.h"
#include "dtc/Runtime/program/StepInfo.h"

namespace dtc {

[[nodiscard]] int64_t clockNs(); // steady clock

enum class ProgramStepKind : uint8_t { Kernel, Gemm, Collective, Copy, Host, Cond, While, For, Join };

struct Step {
  ProgramStepKind kind = ProgramStepKind::Kernel;
  uint32_t index = 0; // into the table of its kind; for Join: RendezvousStep::aside of the joined collective
  uint32_t info = 0;  // into Program::infos
};
using StepList = std::vector<Step>;

// Kernel and Gemm: the backend's prepared step, by device; without parts on devices of other functions.
struct PlacedStep {
  std::vector<Backend::Placed> at;
};

// A rendezvous: a collective, or a host op that needs all devices (print). A device waits here until all
// members of its group have arrived.
struct RendezvousStep {
  CollectivePlan plan; // for a host op: one group of all devices
  OpId op;
  bool host = false;
  // A decision that devices agree on before the control step `op`: offsets of the one of the first device, and of the
  // result.
  struct Agreement {
    int64_t from = 0, to = 0;
  };
  std::optional<Agreement> agrees;
  uint32_t program = 0;             // index of its function
  std::vector<uint32_t> rendezvous; // by group of the plan, as far as the function runs on its devices
  // A host op of several processes: the operands of all devices, [device * numOperands + k].
  std::vector<std::vector<std::byte>> gathered; // by operand
  std::vector<const std::byte*> gatheredAt;
  // If set, overlapped with computation until the Join with this number; else in step order.
  std::optional<uint32_t> overlapped;
};

// One group of a collective. Its members may issue it in different functions.
struct Rendezvous {
  uint32_t step = 0;                      // the first of the steps that issue it: its plan is used by all
  uint32_t group = 0;                     // of that plan
  std::vector<const std::byte*> operands; // [member * numOperands + k]; null: in another process
  std::vector<std::byte*> results;
  std::vector<std::byte*> gathered; // in place of `results` for a host op of several processes
  uint32_t here = 0;                // number of members in this process
  [[nodiscard]] bool spans() const { return here < members; } // other processes
  uint32_t members = 0;
};

struct CopyStep {
  int64_t from = 0, to = 0;   // offsets in the arena
  bool stacked = false;       // `to` advances by `bytes` per iteration of the enclosing `for`
  std::vector<int64_t> bytes; // by device
};

struct CondStep {
  int64_t predicate = 0;
  StepList branch[2]; // branch[0] is taken if the predicate is true
};

struct WhileStep {
  StepList condition, body; // body: includes copies of carried values
  int64_t predicate = 0;
  int64_t maxIterations = -1;
};

struct ForStep {
  StepList body;
  // A bound is a constant, or read from memory if offset >= 0.
  struct Bound {
    int64_t constant = 0, offset = -1;
  } lo, hi;
  int64_t index = 0;          // memory offset of the i32 loop index
  int64_t maxIterations = -1; // limit on iterations; -1: unlimited
  int64_t stacked = -1;       // capacity of the stacked results in iterations; -1: no stacked results
};

// One function, and the devices that run it.
struct DeviceProgram {
  FuncId func;
  AbsentValues absent;              // have no memory
  std::vector<int64_t> coordinates; // ascending
  MemoryPlan plan;
  int64_t arenaBytes = 0; // the plan's, followed by literals and temporaries
  StepList frozenSteps;   // before the first run, and again when a frozen argument has changed
  StepList steps;         // of each run
  StepList carrySteps;    // between runs with --loop: copies carried results to their arguments
  std::unordered_map<ValueId, int64_t> literals; // memory offsets of literal operands

  // The memory offset of a value or literal, if it has a buffer.
  [[nodiscard]] std::optional<int64_t> offsetOf(ValueId) const;
};

struct Program {
  Mesh mesh;
  DeviceSlice here; // the devices of this process; others have no memory and run no steps
  std::vector<DeviceProgram> programs;
  std::vector<uint32_t> programOf; // by device: an index into `programs`
  std::vector<std::byte*> arenas;  // by device
  std::vector<PlacedStep> kernels, gemms;
  std::vector<RendezvousStep> rendezvousSteps;
  std::vector<CopyStep> copies;
  std::vector<CondStep> conds;
  std::vector<WhileStep> whiles;
  std::vector<ForStep> fors;
  std::vector<Rendezvous> rendezvous;
  std::vector<StepInfo> infos, loadTime;
  // Buffers that a run may have in memory of the caller: ascending, disjoint.
  struct Movable {
    int64_t begin = 0, end = 0; // offsets in the arena
    std::byte* at = nullptr;    // where it is now
  };
  std::vector<std::vector<Movable>> movable; // by device; empty: none

  // Where the byte at this offset of a device's arena is.
  [[nodiscard]] std::byte* address(int64_t coordinate, int64_t offset) const;
  [[nodiscard]] int64_t numDevices() const { return static_cast<int64_t>(arenas.size()); }
  [[nodiscard]] int64_t firstHere() const { return std::min(here.begin, numDevices()); }
  [[nodiscard]] int64_t endHere() const { return std::min(here.end, numDevices()); }
  [[nodiscard]] int64_t numHere() const { return endHere() - firstHere(); }
  [[nodiscard]] const DeviceProgram& at(int64_t coordinate) const {
    return programs[programOf[static_cast<size_t>(coordinate)]];
  }
};

// The step lists inside a control step.
template <class P> [[nodiscard]] auto innerLists(P& program, const Step& s) {
  using Lists = std::vector<decltype(&program.fors[0].body)>;
  if (s.kind == ProgramStepKind::Cond)
    return Lists{&program.conds[s.index].branch[0], &program.conds[s.index].branch[1]};
  if (s.kind == ProgramStepKind::While)
    return Lists{&program.whiles[s.index].condition, &program.whiles[s.index].body};
  return s.kind == ProgramStepKind::For ? Lists{&program.fors[s.index].body} : Lists{};
}

// The iterations of a `for`. Error (Input): more iterations than max_trips or than the capacity of its
// stacked results.
struct IterationRange {
  int64_t lo = 0, count = 0;
};
[[nodiscard]] Result<IterationRange> iterationRange(const ForStep& loop, int64_t lo, int64_t hi);
[[nodiscard]] Error tooManyIterations(int64_t maxIterations);
// Reads a predicate or loop bound from a device; waits for the device's pending work.
[[nodiscard]] Result<int64_t> readNumber(Backend& backend, const Program& program, int64_t coordinate,
                                         int64_t offset, DType dtype);

// Executes a host op (print, expect_*) after all devices have arrived.
[[nodiscard]] Status performHostOp(Module& m, const Program& program, Backend& backend,
                                   const RendezvousStep& step, const RunHooks& hooks);

// "gpt.dt:12:8: 'all_reduce'": the location prefix of errors; the driver renders the line with a caret.
[[nodiscard]] std::string whereText(const Module& m, OpId op);
// Adds the op to the error message, unless the message already begins with a location.
[[nodiscard]] Error located(const Module& m, OpId op, const Error& e);

} // namespace dtc
