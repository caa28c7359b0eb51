#pragma once
// The pipeline that `run` and `compile` take a program through, from whatever level its text is at.
#include "dtc/Passes/Pipeline.h"

namespace dtc {

struct StandardPipeline {
  // Up to the unsharded program without gradients and decompositions: what --check runs as the reference.
  std::vector<PassStep> reference;
  // From there to where every value has its sharding, and on to the scheduled text.
  std::vector<PassStep> propagate, lower;
};

struct StandardPipelineOptions {
  int optLevel =
      1; // 0 leaves out what only makes programs faster (canonicalize, and fusion of more than one op)
  std::string policy;               // propagate's; empty: as it is without
  std::string reduceDType;          // propagate's and partition's; empty: as they are without
  bool fixedReductionOrder = false; // fix-reduction-order before propagate, and each op a kernel of its own
  // The target is a GPU, which has kernels of ops that are otherwise made of others: fuse{groups=whole,whole=true,narrow=true}.
  bool gpu = false;
  bool strictNonFinite = false; // propagate's
};

// The rows of passTable() that text of this level still needs, in order. A fixed order of reductions asks for global text.
[[nodiscard]] StandardPipeline standardPipeline(Level from, const StandardPipelineOptions&);
[[nodiscard]] StandardPipeline standardPipeline(Level from, int optLevel, const std::string& policy,
                                                const std::string& reduceDType = {});

} // namespace dtc
