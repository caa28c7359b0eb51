#pragma once
// One mesh viewed through the axes of another mesh over the same devices, so that shardings on either can be
// expressed on one.
#include "dtc/Sharding/Sharding.h"

namespace dtc {

struct MeshView {
  // for each axis of the viewed mesh, its sub-axes on the other mesh, major to minor
  std::vector<std::vector<AxisRef>> axes;
  // True if every device has the same index along an axis and along its sub-axes. False if there are no such
  // sub-axes ([2, 3] viewed through [3, 2], or a device order that is not a permutation of axes): the device
  // coordinates then refer to different devices.
  bool sameDevices = true;
};
// Empty if the two meshes have different devices.
[[nodiscard]] std::optional<MeshView> viewMesh(const Mesh& seen, const Mesh& on);

// The same shard and pending axes on the mesh `on`, which `view` refers to. Empty if a sub-axis of the
// sharding ends inside a sub-axis of the view.
[[nodiscard]] std::optional<Sharding> throughView(const Sharding&, const Mesh& seen, const MeshView&,
                                                  MeshId on, const Mesh& onMesh);
// The same for one axis or sub-axis.
[[nodiscard]] std::optional<std::vector<AxisRef>> throughView(const AxisRef&, const Mesh& seen,
                                                              const MeshView&, const Mesh& onMesh);

// Whether an axis or sub-axis of a mesh is one or several whole axes of a mesh in the table, over the same devices.
[[nodiscard]] bool isOfWholeAxes(const AxisRef&, MeshId on, const ShardingTable&);

} // namespace dtc
