#pragma once
// A loaded program: flat lists of steps, the same for all devices, and for each device where its buffers are. Built once
// by Loader (Load.cpp), executed by Runner (Runner.cpp); nothing is looked up or allocated while it runs.
#include "dtc/Passes/PlanMemory.h"
#include "dtc/Runtime/Backend.h"
#include "dtc/Runtime/Executable.h"

namespace dtc {

enum class StepKind : uint8_t { Kernel, Gemm, Collective, Copy, Host, Cond, While, For, Join };

struct Step {
  StepKind kind = StepKind::Kernel;
  uint32_t index = 0; // into the table of its kind; of Join: the number to join (Overlap.h)
  uint32_t info = 0;  // into Program::infos
};
using StepList = std::vector<Step>;

// Kernel and Gemm: what the backend made of it, by place.
struct PlacedStep {
  std::vector<Backend::Placed> at;
};

// Collectives, and ops of the host that need all devices (print): a device waits here until all of its group arrived.
struct MeetingStep {
  CollectivePlan plan; // of a host op: one group of all places, no operands
  OpId op;
  bool host = false;
  std::vector<std::vector<const std::byte*>> operands; // by group: [member * numOperands + k]
  std::vector<std::vector<std::byte*>> results;
  uint32_t firstMeeting = 0; // the number of its first group's meeting place
  // Runs beside computation until the Join of this number (Overlap.h); none: in the order of the steps.
  std::optional<uint32_t> aside;
};

struct CopyStep {
  int64_t from = 0, to = 0;   // offsets in the arena
  bool stacked = false;       // `to` moves on by `bytes` with each trip of the enclosing `for`
  std::vector<int64_t> bytes; // by place
};

struct CondStep {
  int64_t predicate = 0;
  StepList branch[2]; // the first where the predicate holds
};

struct WhileStep {
  StepList condition, body; // body: with the copies to the carried values
  int64_t predicate = 0;
  int64_t maxTrips = -1;
};

struct ForStep {
  StepList body;
  // A bound is a number, or where (offset) it is read.
  struct Bound {
    int64_t number = 0, offset = -1;
  } lo, hi;
  int64_t index = 0;     // where the trip's i32 number is kept
  int64_t maxTrips = -1; // more are an error; -1: any number
  int64_t stacked = -1;  // how many trips the stacked results have room for; -1: no stacked results
};

struct Program {
  Mesh mesh;
  FuncId func;
  MemoryPlan plan;
  int64_t arenaBytes = 0;         // the plan's, and literals and copies in flight behind it
  std::vector<std::byte*> arenas; // by place
  StepList steps;
  StepList carrySteps; // between two steps of a loop: carried results that lie elsewhere to their arguments
  std::vector<PlacedStep> kernels, gemms;
  std::vector<MeetingStep> meetings;
  std::vector<CopyStep> copies;
  std::vector<CondStep> conds;
  std::vector<WhileStep> whiles;
  std::vector<ForStep> fors;
  std::vector<StepInfo> infos, loadTime;
  std::unordered_map<ValueId, int64_t> literals; // where literal operands are kept
  uint32_t numMeetings = 0;                      // meeting places: one per group of each meeting step

  [[nodiscard]] int64_t places() const { return static_cast<int64_t>(arenas.size()); }
};

// What a `for` does, where it is legal. Errors (Input): more trips than its max_trips, or than its stacked results have room for.
struct ForTrips {
  int64_t lo = 0, count = 0;
};
[[nodiscard]] Result<ForTrips> tripsOf(const ForStep& loop, int64_t lo, int64_t hi);
[[nodiscard]] Error tooManyTrips(int64_t maxTrips);
// A predicate or a bound, as a place has it: waits for what the place does.
[[nodiscard]] Result<int64_t> readNumber(Backend& backend, const Program& program, int64_t place,
                                         int64_t offset, DType dtype);

// An op of the host (print, expect_*), when all devices have come to it.
[[nodiscard]] Status performHostOp(Module& m, const Program& program, Backend& backend,
                                   const MeetingStep& step, const RunHooks& hooks);

// "gpt.dt:12:8: 'all_reduce'": how errors name an op; the driver shows the line with a caret.
[[nodiscard]] std::string whereText(const Module& m, OpId op);
// The error with its op named, unless its message begins with a place already.
[[nodiscard]] Error located(const Module& m, OpId op, const Error& e);

} // namespace dtc
