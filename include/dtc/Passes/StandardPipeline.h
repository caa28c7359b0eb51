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

// The rows of passTable() that text of this level still needs, in order. `optLevel`: 0 leaves out what only makes programs
// faster (canonicalize, and fusion of more than one op). `policy` is propagate's, `reduceDType` propagate's and
// partition's; empty: as they are without.
[[nodiscard]] StandardPipeline standardPipeline(Level from, int optLevel, const std::string& policy,
                                                const std::string& reduceDType = {});

} // namespace dtc
