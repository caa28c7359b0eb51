#pragma once
// Programs on several meshes over the same devices, before they are partitioned (private to lib/Passes).
#include "dtc/IR/Module.h"
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// Writes every sharding of a propagated function on its first mesh, in the sub-axes that the axes of the others are there: a
// `reshard` from mesh to mesh is then planned as any other. False where a mesh is over other devices, which is reported.
[[nodiscard]] bool unifyMeshes(Module&, FuncId, Diagnostics&);

} // namespace dtc
