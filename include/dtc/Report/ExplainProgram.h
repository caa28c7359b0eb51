#pragma once
// explain, for a whole program: each collective of the program of one device, what it costs, the op and the line that need
// it, and the cheapest change of annotations that would remove it.
#include "dtc/Passes/TraceCollectives.h"
#include "dtc/Report/Explain.h"
#include "dtc/Support/Progress.h"
#include <functional>

namespace dtc {

// A sharding in the text, and what to write in its place.
struct AnnotationEdit {
  std::string of;              // "%w2", "the result %y"
  std::string place;           // "mlp.dt:5:13"
  uint32_t begin = 0, end = 0; // bytes of the text
  std::string before, after;   // "@pod{tp, _}", "@pod{_, _}"
};

struct ProgramCollective {
  std::string kind;              // "all_reduce"
  std::vector<std::string> axes; // major to minor
  std::string value;             // "%y"
  std::optional<int64_t>
      count; // times in one call of the function; nothing where trips are not known before the run
  std::optional<CollectivePrice> price; // of one time; nothing where a size is not known
  // Why, for each thing that the message is for: several where it is a bucket.
  struct Source {
    std::string op, place, why; // of the op that needs it
    bool userPlaced = false;    // the place is in the user's own program, before the text that was read
    std::string statement;      // the name that the text gives to what that op makes: "blocks_0_h"
    std::vector<ExplainStep> chain;
  };
  std::vector<Source> sources;
  // Applied together, these remove it; empty where none was found, and `noChange` says why.
  std::vector<AnnotationEdit> change;
  std::string noChange;
  double secondsAfter = 0;     // of the whole program then
  size_t collectivesAfter = 0; // that it then has
  size_t group = 0;            // of ProgramReport::groups
};

// Messages of one kind, over one run.
struct SummaryRow {
  std::string label;  // "tp", "all_reduce", "blocks_{0..125}"
  int64_t count = 0;  // executions: multiplied by the trip counts of enclosing loops
  double bytes = 0;   // received per device
  double seconds = 0; // on the nominal machine, one after the other
  size_t layers = 1;  // that the label stands for
};

// Collectives that are equal but for the layer that they belong to.
struct CollectiveGroup {
  std::vector<size_t> members; // in program order; the first is the one that is explained
  std::string value; // what they give: "%blocks_{0..125}_attn_out"; "" where their names differ in more
  std::string layer; // "blocks_{0..125}"; "" where they are of no layer
  SummaryRow total;  // without a label
};

struct ProgramSummary {
  std::vector<SummaryRow> axes, kinds; // the longest first
  std::vector<SummaryRow> layers;      // in program order
};

// What the collectives of one axis cost in one call, and the least that could be left of it.
struct AxisCost {
  std::string axis;
  int64_t count = 0, bytesReceived = 0; // a loop's times its trips, where they are known
  double seconds = 0;                   // one after the other, nothing else going on
  double latencySeconds = 0;            // the floor: what messages of no bytes would take
  double exposedSeconds =
      0; // what computing waits, if each began when its operand is there and ran beside the rest
};

// What a function promises of its collectives, and how many of them there are.
struct ProgramContract {
  std::string of, contract; // "@layer (call 2 of it)", "all_reduce(tp) <= 1"
  std::string place;
  int64_t limit = 0, found = 0;
  bool exactly = false;
};

struct ProgramReport {
  std::vector<ProgramCollective> collectives; // in program order
  std::vector<CollectiveGroup> groups;        // in the order of their first members
  ProgramSummary summary;
  std::vector<ProgramContract> contracts;     // they hold
  std::vector<AxisCost> axes;                 // in the mesh's order, those that are used
  double computeSeconds = 0, commSeconds = 0; // of one device, on the nominal machine
  int64_t bytesReceived = 0;
  bool complete = true; // every size and trip count is known
};

// Text to a program that propagate takes; nothing where the text is not right. Empty: nothing can be tried.
using PrepareProgram = std::function<std::optional<Module>(SourceText)>;

struct ExplainOptions {
  PropagateOptions propagation;
  bool changes = true;   // look for them
  bool full = false;     // for each collective, not only for one of each group
  int64_t work = 100000; // ops propagated to try changes, at most
  Progress progress;     // told of each collective for which they are looked for; may be empty
};

// `prepared` is what propagate takes; the trace is of it.
[[nodiscard]] ProgramReport explainCollectives(const Module& prepared, CollectiveTrace& trace,
                                               const ExplainOptions&, const PrepareProgram&);

struct ExplainTextOptions {
  bool full = false; // every collective and decision
  size_t top =
      0; // only so many groups, those that take longest; 0: all of a small program, few of a large one
};
[[nodiscard]] std::string collectivesText(const ProgramReport&, const std::vector<ExplainDecision>&,
                                          const ExplainTextOptions& = {});
[[nodiscard]] std::string limitsText(const ProgramReport&);
// One JSON document: docs/cli.md says what is in it.
[[nodiscard]] std::string programJson(const ProgramReport&, const std::vector<ExplainReshard>&,
                                      const std::vector<ExplainDecision>&);

} // namespace dtc
