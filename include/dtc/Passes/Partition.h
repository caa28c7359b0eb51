#pragma once
// partition: from one program for all devices to the program of one device.
//
// Needs every value with a closed sharding (propagate); gives spmd functions, whose types are the pieces that the shardings
// say: the quotient where a cut is even, "11/b" where it is not. It decides nothing: a `reshard` becomes the collectives of
// its plan (Sharding/Reshard.h), `shard` and `barrier` have done their work and go, `local` regions are what they say
// already and are inlined. Attributes that carry sizes are rewritten by the op's record (OpRecord::localise); ops that
// count along a cut dim are told where their piece begins (Factor::needsOffset). Runs before anything that must know the
// size of a buffer, a kernel or a message.
#include "dtc/Passes/Pass.h"
#include "dtc/Support/DType.h"

namespace dtc {

struct PartitionOptions {
  std::optional<DType> reduceDType; // what sums of floats travel in; nothing: as Sharding/Wire.h says
};

[[nodiscard]] bool partition(Module&, Diagnostics&, const PartitionOptions& = {});
[[nodiscard]] bool partitionPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo partitionInfo();

} // namespace dtc
