#pragma once
// A compiled program as data: what `dtc diff` compares. It can be saved, and be compared by a later dtc.
#include "dtc/IR/Module.h"
#include "dtc/Session/ProgramText.h"
#include "dtc/Support/Result.h"

namespace dtc {

// An argument, an op or a result of a function.
struct SnapshotStatement {
  std::string function; // "" for the entry: "layer"
  std::string name; // "%h", "@layer:%3"; of a generated one the name of the statement that it was made for
  bool generated = false;
  std::string userName;          // where the user's program has another: "layers.0.weight"
  std::string op;                // "matmul", "argument", "result"
  std::string attributes;        // with literal operands: "{dim = 1} (_, 0.5)"
  std::vector<int32_t> operands; // indices of statements
  std::string type;              // global
  std::string annotation;        // the sharding in the text; "" if none is written
  std::string sharding;          // the propagated one; "" before propagate
  std::vector<int32_t> from;     // the statements that the sharding was propagated from
  int32_t origin = -1;           // of a compiled statement: the one in the text that it was made from
  std::string location;          // "mlp.dt:9:8", or of the user's own program
  std::string path;              // in the user's own program: "layers.0.attn"
  int32_t within = -1;           // the statement whose block it is in: a loop or a branch
  int64_t executions =
      0;              // of the loops that it is in, one of unknown length once; 0 in files of an earlier dtc
  double seconds = 0; // computation of one device, all executions
  uint32_t offset = UINT32_MAX; // in the text; unknown for a saved program
};

struct SnapshotCollective {
  std::string kind, axes;          // "all_reduce", "dp, tp"
  std::string value, op, location; // as of explain: "%y", 'matmul', "mlp.dt:9:8"
  std::string from, to;            // of a reshard: the shardings
  std::string layer;               // "blocks_{0..11}"; "" if it belongs to none
  int64_t bytes = 0;               // received per device in one execution
  int64_t count = 1;               // executions
  double seconds = 0, exposed = 0; // of all executions: in total, and not overlapped by computation
  std::vector<int32_t> statements; // that it communicates for: indices
};

// Messages of one kind in the schedule, of the device that receives most.
struct SnapshotMessages {
  std::string kind;                // "p2p"
  int64_t messages = 0, bytes = 0; // received, of a step
  double seconds = 0;
};

// A buffer that is live at the peak.
struct SnapshotBuffer {
  std::string value, what, type, location; // "%h" "argument" "f32[64, 512]" "mlp.dt:12"
  int64_t bytes = 0;
};

struct SnapshotMemory {
  int64_t peakBytes = 0; // of the device that needs most
  std::vector<SnapshotBuffer> alive;
};

struct ProgramSnapshot {
  enum Extent : uint8_t {
    Costs,   // collectives and totals alone: of `dtc explain --json`
    Written, // the program did not compile, or was not compiled
    Compiled
  } extent = Compiled;
  std::string name;                                          // of the file
  std::string version;                                       // of dtc
  std::vector<std::pair<std::string, std::string>> settings; // "mesh pod": "dp=2, tp=4"
  std::vector<SnapshotStatement> written;                    // of the text; without shardings but annotations
  std::vector<SnapshotStatement> statements; // of the entry after inlining and autodiff, with shardings
  std::vector<SnapshotCollective> collectives;
  double otherSeconds = 0; // computation that belongs to no statement
  // Of the schedule (StepCost): its time and received bytes, less those of the ops and collectives above. Ops are
  // fused, messages overlap, collectives are repeated, and a device computes its own stages alone.
  double scheduleSeconds = 0;
  int64_t scheduleBytes = 0;
  // By kind. Stages and rings send others than the collectives above, recomputation repeats some. Unknown without a
  // schedule, and in files of an earlier dtc.
  std::optional<std::vector<SnapshotMessages>> scheduleMessages;
  std::optional<SnapshotMemory> memory;
  std::string noMemory; // why `memory` is unknown
  bool complete = true; // all sizes and iteration counts are known
};

// Compiles the program and records it. Errors of the program are in the diagnostics, and the snapshot then has
// the extent Written, or lacks what comes after the error. `extent`: Written stops before the first pass.
[[nodiscard]] ProgramSnapshot takeSnapshot(const Module& written, FuncId entry, const LoweringFlags&,
                                           const std::string& target, ProgramSnapshot::Extent extent,
                                           Diagnostics&);

// One JSON document; docs/diff.md documents it.
[[nodiscard]] std::string snapshotJson(const ProgramSnapshot&);
// Whether a text is a saved snapshot, or a report of `dtc explain --json`.
[[nodiscard]] bool looksLikeSnapshot(std::string_view text);
// Error (Input): not such a document; the message names the element.
[[nodiscard]] Result<ProgramSnapshot> readSnapshot(const SourceText&);

} // namespace dtc
