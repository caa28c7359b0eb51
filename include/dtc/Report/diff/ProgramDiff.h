#pragma once
// diff: what changed between two programs, from causes to consequences: settings and statements, propagated
// shardings, collectives, computation, memory. The changes add up to the difference of the totals.
#include "dtc/Report/diff/ProgramSnapshot.h"
#include "dtc/Support/DiagnosticsJson.h"

namespace dtc {

// A difference of the programs themselves. Equal ones are one cause: "%blocks_{0..11}_w1".
struct DiffCause {
  enum Kind : uint8_t { Setting, Annotation, Attributes, Op, Operands, Type, Added, Removed } kind = Setting;
  std::string what;          // "mesh pod", "%w1"
  std::string op;            // "argument", "matmul"
  std::string before, after; // "@pod{_, tp}"; of Added and Removed the statement
  std::string location;      // in B; of Removed in A
  size_t count = 1;          // equal ones
  size_t statements = 1;     // of all
};

inline constexpr int kNoCause = -1; // otherwise an index of ProgramDiff::causes

// The statements of the texts that a change belongs to: indices of ProgramDiff::statements.
using DiffRowsOf = std::vector<size_t>;

// A statement of the texts.
struct DiffStatement {
  int32_t a = -1, b = -1;           // index of ProgramSnapshot::written; -1 where there is none
  std::vector<int> causes;          // that it is part of
  int follows = kNoCause;           // the cause that its sharding, type or collectives follow from
  std::string shardingA, shardingB; // propagated; "" if unknown
  double secondsA = 0, secondsB = 0;
};

// A propagated sharding.
struct DiffSharding {
  std::string what, op, before, after, location;
  size_t count = 1;
  int cause = kNoCause;
  DiffRowsOf of;
};

struct DiffSums {
  int64_t messages = 0, bytes = 0;
  double seconds = 0, exposed = 0;
  void add(const DiffSums& other);
  friend bool operator==(const DiffSums&, const DiffSums&) = default;
};

// A collective of A alone (kindB is empty), of B alone (kindA is empty), or one that changed.
struct DiffCollective {
  std::string kindA, axesA, kindB, axesB;
  std::string what, op, location, layer;
  int64_t bytesA = 0, bytesB = 0; // of one execution
  DiffSums a, b;
  size_t count = 1;
  int cause = kNoCause;
  DiffRowsOf of;
};

// The computation of a statement.
struct DiffComputation {
  std::string what, op, location;
  double a = 0, b = 0; // seconds
  size_t count = 1;
  int cause = kNoCause;
  DiffRowsOf of;
};

// Buffers that are live at the peak of A, of B or of both.
struct DiffBuffer {
  std::string what, kind, typeA, typeB, location; // "" where it is not live
  int64_t a = 0, b = 0;                           // bytes
  size_t count = 1;
};

struct DiffRow {
  std::string label; // "tp", "all_reduce", "blocks_{0..11}"
  DiffSums a, b;
};

struct DiffTotals {
  DiffSums communication;
  double computeSeconds = 0;
  double scheduleSeconds = 0; // what the schedule adds to computation and exposed communication, or saves
  int64_t scheduleBytes = 0;  // likewise to the received bytes
  double seconds = 0;         // of a step: the schedule's (StepCost)
  int64_t receivedBytes = 0;  // likewise
  std::optional<int64_t> peakBytes;
};

struct ProgramDiff {
  std::string nameA, nameB, versionA, versionB;
  bool comparesStatements = true;        // false: one has costs alone
  bool comparesCosts = true;             // false: one did not compile
  std::vector<DiffCause> causes;         // the smallest first
  std::vector<DiffStatement> statements; // all of B, then those of A alone
  std::vector<DiffSharding> shardings;
  std::vector<DiffCollective> collectives;   // by decreasing change of their time
  std::vector<DiffComputation> computations; // likewise
  std::vector<DiffBuffer> buffers;           // by decreasing change of their bytes
  std::vector<DiffRow> axes, kinds, layers;  // those that changed, "" for none
  std::vector<DiffRow> scheduleKinds; // likewise, of the schedule, if one sends others than its collectives
  DiffTotals a, b;
  std::string noMemory; // why the memory of one is unknown
  // One has no schedule, such as that of a size that is not bound: the sums before it are compared.
  bool beforeSchedule = false;
  bool hasStages = false; // one is a pipeline: its messages and computation are those of all stages
  bool complete = true;
  std::vector<DiagnosticRecord> problemsA, problemsB; // of programs that do not compile; set by the caller
  size_t types = 0;                                   // statements whose types follow from those of others
  size_t generated = 0;                               // compiled statements of A or B alone
  [[nodiscard]] bool empty() const;
};

[[nodiscard]] ProgramDiff diffPrograms(const ProgramSnapshot& a, const ProgramSnapshot& b);

// A limit for B: "+1%" or "+64MiB" of growth, or the amount itself.
struct DiffBudget {
  enum Of : uint8_t { Bytes, Time, Memory } of = Bytes;
  std::string text; // "+1%"
  enum Kind : uint8_t { Percent, Growth, Amount } kind = Percent;
  double value = 0; // percent, bytes or seconds
};
// Error (Usage): not such a limit.
[[nodiscard]] Result<DiffBudget> parseBudget(DiffBudget::Of, const std::string& text);
// Why the budget does not hold: "received bytes grew by 2.1 %, …"; nothing if it holds.
[[nodiscard]] std::optional<std::string> exceeded(const DiffBudget&, const ProgramDiff&);
// What is assumed to check it: "--max-bytes: the number of iterations …"; "" if all costs are known.
[[nodiscard]] std::string assumptionOf(const DiffBudget&, const ProgramDiff&);

struct DiffTextOptions {
  size_t width = 80;
  size_t top = 8; // rows of each section
  bool color = false;
};
[[nodiscard]] std::string diffText(const ProgramDiff&, const DiffTextOptions&);
// One JSON document; docs/diff.md documents its fields.
[[nodiscard]] std::string diffJson(const ProgramDiff&, std::span<const DiffBudget>);

} // namespace dtc
