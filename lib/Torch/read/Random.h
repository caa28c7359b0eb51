#pragma once
// PyTorch's random numbers come from a generator that is not part of the program. An imported program draws dtc's,
// from an argument `seed: u64[2]`: the same seed gives the same numbers on every mesh (docs/from-pytorch.md).
#include "dtc/Import/graph/Graph.h"

namespace dtc {

// Adds the argument to programs that draw random numbers. Each node that does has the arguments "dtc.seed" and
// "dtc.stream", its number.
void addSeed(ImportFile&);

} // namespace dtc
