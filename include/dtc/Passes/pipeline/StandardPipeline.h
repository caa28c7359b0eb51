#pragma once
// The pipeline of `run` and `compile`, starting at the level of the text.
#include "dtc/Passes/pipeline/Pipeline.h"

namespace dtc {

struct StandardPipeline {
  // Up to the unsharded program without gradients and composite ops: the reference program of --check.
  std::vector<PassStep> reference;
  // From there to the propagated program, and on to the scheduled one.
  std::vector<PassStep> propagate, lower;
  [[nodiscard]] std::vector<PassStep> all() const; // in order
};

struct StandardPipelineOptions {
  int optLevel = 1;                 // 0 disables optimizations (canonicalize, and fusion of more than one op)
  std::string policy;               // of propagate; empty: its default
  std::string reduceDType;          // of propagate and partition; empty: their default
  bool fixedReductionOrder = false; // fix-reduction-order before propagate, and each op a kernel of its own
  std::string target = "cpu";       // split's (Target.h)
  bool libraryGelu = false;         // fuse's
  bool strictNonFinite = false;     // propagate's
  bool wholeAxisResults = false;    // propagate's
  std::string recompute;            // before split: "gathers" or "cheap", or a budget: "8GiB"
  std::string rings;                // collective-matmul's; empty: auto, or off at level 0
  std::string pipeline;             // before split: the schedule of stages ("1f1b"); "none" or empty: none
  bool overlap = true;              // schedule's
  bool resultsApart = false;        // plan-memory's
};

// The rows of passTable() that text of this level still needs, in order. A fixed reduction order needs global
// text.
[[nodiscard]] StandardPipeline standardPipeline(Level from, const StandardPipelineOptions&);
[[nodiscard]] StandardPipeline standardPipeline(Level from, int optLevel, const std::string& policy,
                                                const std::string& reduceDType = {});

} // namespace dtc
