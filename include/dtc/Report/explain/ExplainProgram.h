#pragma once
// explain for a whole program: each collective of the per-device program, its cost, the op and the line that
// require it, and the cheapest change of annotations that would remove it.
#include "dtc/IR/text/UserLocation.h"
#include "dtc/Passes/analysis/PipelineText.h"
#include "dtc/Passes/collectives/CollectiveMatmul.h"
#include "dtc/Passes/trace/TraceCollectives.h"
#include "dtc/Report/explain/AnnotationLinks.h"
#include "dtc/Report/explain/Explain.h"
#include "dtc/Support/Progress.h"
#include <functional>

namespace dtc {

// A sharding in the text, and its replacement.
struct AnnotationEdit {
  std::string of;              // "%w2", "the result"
  std::string userName;        // of an argument, where the text has another
  std::string location;        // "mlp.dt:5:13"
  uint32_t begin = 0, end = 0; // bytes of the text
  std::string before, after;   // "@pod{tp, _}", "@pod{_, _}"
};

// Of one run of a compiled program.
struct ScheduleCost {
  double seconds = 0;
  int64_t memoryBytes = 0; // the peak of the device that needs most
};

struct ProgramCollective {
  std::string kind;              // "all_reduce"
  std::vector<std::string> axes; // major to minor
  std::string value;             // "%y": in the text, as valuesOf accepts it
  bool generated = false; // the text lacks the value; `value` is the statement that it was generated for
  size_t moreValues = 0;  // of a bucket
  std::string name;       // of its steps in the schedule, if that is known: "gradient bucket of %w1, %w2"
  std::string userName;   // of an argument, where the text has another: "params['head']"
  std::string purpose;    // what it is computed for (UserNames): "layers.0.weight.grad"; or ""
  // Executions in one call of the function; nothing where iteration counts are not known before the run, 0 in the
  // branch of a conditional that takes less time.
  std::optional<int64_t> count;
  int64_t counted = 1;                  // in sums: an iteration count that is not known counts once
  std::optional<CollectivePrice> price; // per execution; nothing where a size is unknown
  double exposedSeconds = 0;            // of all executions: the time that computation waits for them
  // The reason, for each op that the message serves: several for a bucket.
  struct Source {
    std::string op, location, why; // of the op that requires it
    // Of a reshard: the value, named as above, and its shardings before and after.
    std::string value, userName, purpose, from, to;
    UserPlace user;        // in the user's own program, of which the text was generated
    std::string statement; // the name in the text of that op's result: "blocks_0_h"
    std::vector<ExplainStep> chain;
  };
  std::vector<Source> sources;
  // Applied together, these remove it; empty where none was found, and `noChange` gives the reason.
  std::vector<AnnotationEdit> change;
  std::string noChange;
  double secondsAfter = 0;     // of the changed program
  size_t collectivesAfter = 0; // of the changed program
  // Of the schedules, where both are known.
  std::optional<ScheduleCost> stepBefore, stepAfter;
  [[nodiscard]] bool slows() const {
    return stepBefore && stepAfter->seconds > stepBefore->seconds * (1 + 1e-9);
  }
  size_t group = 0; // of ProgramReport::groups
};

// Messages of one kind, over one run.
struct SummaryRow {
  std::string label;    // "tp", "all_reduce", "blocks_{0..125}"
  int64_t count = 0;    // executions: multiplied by the iteration counts of enclosing loops
  double bytes = 0;     // received per device
  double seconds = 0;   // on the nominal machine, without overlap
  size_t layers = 1;    // the number of layers of the label
  bool unknown = false; // the size of a message is unknown, and not in the sums
};

// Collectives that are equal except for their layer.
struct ExplainGroup {
  std::vector<size_t> members; // in program order; the first one is explained
  // the names of their results: "%blocks_{0..125}_attn_out"; "" where their patterns differ
  std::string value;
  std::string purpose; // the same of the results that they contribute to
  std::string name;    // of their steps in the schedule, if that is known
  std::string layer;   // "blocks_{0..125}"; "" where they belong to no layer
  SummaryRow total;    // without a label
};

struct ProgramSummary {
  std::vector<SummaryRow> axes, kinds; // in order of decreasing time
  std::vector<SummaryRow> layers;      // in program order
};

// The cost of the collectives over one axis, or over the same several, in one call, and lower bounds of it.
struct AxisCost {
  std::string axis;                     // "tp", "dp, tp"
  int64_t count = 0, bytesReceived = 0; // multiplied by the iteration counts of loops, where known
  double seconds = 0;                   // without overlap
  double latencySeconds = 0;            // lower bound: the latency of the messages
  double exposedSeconds = 0;            // the time that computation waits with the best overlap
};

// A function's communication contract, and the actual number of collectives.
struct ProgramContract {
  std::string of, contract; // "@layer (call 2 of it)", "all_reduce(tp) <= 1"
  std::string location;
  int64_t limit = 0, found = 0;
  bool exactly = false;
};

// What collective-matmul does for a target, in the program of `run` and `compile`.
struct RingReport {
  std::string target;
  std::vector<CollectiveRing> rings;
  OverlapTime before, after; // of the program
};

struct ProgramReport {
  std::vector<ProgramCollective> collectives; // in program order
  std::vector<ExplainGroup> groups;           // in the order of their first members
  ProgramSummary summary;
  std::vector<ProgramContract> contracts;     // all contracts hold
  std::vector<AxisCost> axes;                 // the used ones, in the mesh's order, then several together
  double computeSeconds = 0, commSeconds = 0; // of one device, on the nominal machine
  int64_t bytesReceived = 0;        // the sum of what the device that receives most receives, by message
  bool differs = false;             // that may be another one by message, and the sum more than any receives
  bool complete = true;             // every size and iteration count is known
  std::vector<std::string> assumed; // symbolic sizes that costs take as kNominalSymbol
  std::optional<PipelineRun> pipeline;
  SummaryRow repeated; // what `recompute` adds to `collectives`: values gathered again in the backward part
  std::optional<RingReport> rings;
};

// Prepares text for propagate; nothing where the text is invalid. Empty: nothing is tried.
using PrepareProgram = std::function<std::optional<Module>(SourceText)>;

struct ExplainOptions {
  PropagateOptions propagation;
  bool changes = true;   // search for changes
  bool chains = true;    // trace reasons back to annotations
  bool full = false;     // for each collective, not only for one of each group
  AnnotationLinks links; // of the module as written: what has to be changed together
  int64_t work = 100000; // ops propagated to try changes, at most
  // The cost of the schedule of a prepared program; empty: changes are compared without it.
  std::function<std::optional<ScheduleCost>(const Module&)> scheduleCost;
  int64_t stepWork = 20000; // ops compiled for it, at most
  Progress progress;        // called for each collective that is searched; may be empty
};

// The collectives of ops that communicate themselves.
[[nodiscard]] OpCollectives opCollectives(const CollectiveTrace&);

// The rings of the traced program on a GPU target. Nothing after an error was reported.
[[nodiscard]] std::optional<RingReport> explainRings(const CollectiveTrace&, const std::string& target,
                                                     Diagnostics&);

// `prepared` is the input of propagate; the trace belongs to it.
[[nodiscard]] ProgramReport explainCollectives(const Module& prepared, CollectiveTrace& trace,
                                               const ExplainOptions&, const PrepareProgram&);

struct StepCost; // StepCost.h

struct ExplainTextOptions {
  bool full = false; // every collective and decision
  size_t top =
      0; // the number of groups, in order of decreasing time; 0: all of a small program, few of a large one
};
[[nodiscard]] std::string collectivesText(const ProgramReport&, const std::vector<ExplainDecision>&,
                                          const ExplainTextOptions& = {});
[[nodiscard]] std::string limitsText(const ProgramReport&);
// One JSON document; docs/cli.md documents its fields.
[[nodiscard]] std::string programJson(const ProgramReport&, const std::vector<ExplainReshard>&,
                                      const std::vector<ExplainDecision>&, const StepCost* = nullptr);

} // namespace dtc
