#pragma once
// partition: rewrites the global program into the local program of one device.
//
// Needs a closed sharding on every value (propagate); produces spmd functions with local types: the quotient
// if a dim is evenly sharded, "11/b" if not. It makes no decisions: a `reshard` becomes the collectives of
// its plan (Sharding/Reshard.h), `shard` and `barrier` are erased, and `local` regions, which are local
// already, are inlined. Attributes that carry sizes are rewritten by the op's record (OpRecord::localize);
// ops that compute indices along a sharded dim get the offset of their shard (Factor::needsOffset). Runs
// before any pass that needs the size of a buffer, a kernel or a message.
#include "dtc/Passes/Pass.h"
#include "dtc/Support/DType.h"

namespace dtc {

struct PartitionOptions {
  std::optional<DType> reduceDType; // communication dtype of float sums; empty: defaultCommDType
};

[[nodiscard]] bool partition(Module&, Diagnostics&, const PartitionOptions& = {});
[[nodiscard]] bool partitionPass(Module&, const PassOptions&, Diagnostics&);

} // namespace dtc
