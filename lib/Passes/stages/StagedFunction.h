#pragma once
// A local function as a list of ops, each with its place in a pipeline: the stage that computes it, and whether that is
// the forward or the backward part of which micro-batch.
#include "analysis/Reads.h"
#include "analysis/StageMarks.h"
#include "dtc/IR/Module.h"
#include "dtc/Passes/analysis/PipelineOrder.h"
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/Diagnostics.h"

namespace dtc {

struct StagedStep {
  static constexpr int kAnywhere = -1; // computed by each device that reads it
  enum class Part : uint8_t { Before, Inside, After };
  OpId op;
  Part part = Part::Before; // of the micro-batches
  int microbatch = 0;       // of a step inside
  int stage = kAnywhere;
  PipelinePhase phase = PipelinePhase::Forward;
};

struct StagedFunction {
  std::vector<StagedStep> steps; // operands first
  std::vector<ValueId> results;
  int microbatches = 1;
  int stages = 1;
  bool hasBackward = false;
};

// The ops of the function, with the loop over micro-batches unrolled: the `for` whose block contains marks. A function
// without such a loop is one micro-batch. The new ops belong to the function's block, which is not changed. With
// `splitSums`, each stage adds up its own terms of a sum over micro-batches. False, with a diagnostic, if there are
// several such loops, or its bounds are not constants.
[[nodiscard]] bool unrollMicroBatches(Module&, FuncId, bool splitSums, StagedFunction& out, Diagnostics&);

// Sets the stage and the phase of each step. The marks, at least `numStages` of them, are divided into that many
// stages of about equal numbers. An op without a mark that reads only arguments and constants is computed anywhere; another is in the
// stage of its largest operand. With `splitWeights`, a backward op from which nothing that another stage reads is
// derived has the phase Weights. False, with a diagnostic, if an op does not fit.
[[nodiscard]] bool assignStages(Module&, StagedFunction&, const Mesh&, int numStages, bool splitWeights,
                                Diagnostics&);

} // namespace dtc
