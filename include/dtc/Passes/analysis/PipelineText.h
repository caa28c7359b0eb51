#pragma once
// The pipeline in the text of a program whose devices differ, from the marks of its ops.
#include "dtc/IR/Module.h"
#include "dtc/Passes/analysis/PipelineOrder.h"

namespace dtc {

struct PipelineRun {
  std::string schedule; // "1f1b": of the entry's attribute `pipeline`
  PipelineShape shape;
  std::vector<std::vector<PipelineAction>> order; // as written, with times on the nominal machine
  double bubble = 0;                              // of that order, if messages take no time
  std::optional<double> closedForm;               // of the schedule, for stages of equal times
  int64_t messages = 0, bytes = 0; // of one step: `p2p` ops, and what they move, over all devices
};

// Whether the text marks stages, and the entry's mesh has an axis 'pp' for them.
[[nodiscard]] bool hasStages(const Module&, FuncId entry);

// Whether the program is one that the pass `pipeline` wrote.
[[nodiscard]] bool isPipeline(const Module&, FuncId entry);
// Nothing if the functions of the program have no marks, or marks of a stage on a device that does not compute it.
[[nodiscard]] std::optional<PipelineRun> readPipeline(Module&, FuncId entry);

// "pipeline 1f1b: 2 devices, 4 micro-batches; bubble 21.3 % (20.0 % if stages take equal times)"
[[nodiscard]] std::string pipelineTitle(const PipelineRun&);

} // namespace dtc
