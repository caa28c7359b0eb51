// The standard pipeline in order, then what stands outside it; one row a pass. A row's text stands in the pass's own file.
#include "dtc/Passes/Autodiff.h"
#include "dtc/Passes/Canonicalize.h"
#include "dtc/Passes/Decompose.h"
#include "dtc/Passes/FixReductionOrder.h"
#include "dtc/Passes/Fuse.h"
#include "dtc/Passes/IfToSelect.h"
#include "dtc/Passes/Inline.h"
#include "dtc/Passes/InlineRecompute.h"
#include "dtc/Passes/OptimizeCollectives.h"
#include "dtc/Passes/Partition.h"
#include "dtc/Passes/PlanMemory.h"
#include "dtc/Passes/Propagate.h"
#include "dtc/Passes/Specialize.h"
#include "dtc/Passes/SplitComplex.h"
#include "dtc/Passes/Unroll.h"

namespace dtc {

const std::vector<PassInfo>& passTable() {
  static const std::vector<PassInfo> table = {
      inlineInfo(),
      splitComplexInfo(),
      autodiffInfo(),
      decomposeInfo(),
      canonicalizeInfo(),
      propagateInfo(),
      partitionInfo(),
      optimizeCollectivesInfo(),
      inlineRecomputeInfo(),
      fuseInfo(),
      planMemoryInfo(),
      // Outside the pipeline.
      specializeInfo(),
      unrollInfo(),
      ifToSelectInfo(),
      fixReductionOrderInfo(),
  };
  return table;
}

const PassInfo* findPass(std::string_view name) {
  for (const PassInfo& p : passTable())
    if (p.name == name) return &p;
  return nullptr;
}

} // namespace dtc
