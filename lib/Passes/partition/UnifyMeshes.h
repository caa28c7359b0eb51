#pragma once
// Unifies several meshes over the same devices before partitioning.
#include "dtc/IR/Module.h"
#include "dtc/Support/Diagnostics.h"

namespace dtc {

// Rewrites every sharding of a propagated function on its first mesh, using the sub-axes that correspond to
// the axes of the other meshes: a `reshard` across meshes is then planned like any other. False, with a
// diagnostic, if a mesh has other devices.
[[nodiscard]] bool unifyMeshes(Module&, FuncId, Diagnostics&);

} // namespace dtc
