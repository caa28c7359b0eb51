#pragma once
// One mesh seen through the axes of another over the same devices: shardings on either are then shardings on one.
#include "dtc/Sharding/Sharding.h"

namespace dtc {

struct MeshView {
  std::vector<std::vector<AxisRef>>
      axes; // by axis of the mesh that is seen: its sub-axes on the other, major to minor
  // Every device has the same index along an axis and along its sub-axes. False where no sub-axes say that ([2, 3] through [3, 2], or
  // an order of devices that is no order of axes): then the places of the mesh are other devices'.
  bool sameDevices = true;
};
// Nothing where the two are not over the same devices.
[[nodiscard]] std::optional<MeshView> viewMesh(const Mesh& seen, const Mesh& on);

// The same cuts and pending axes on the mesh `on`, which `view` is of. Nothing where a sub-axis of the sharding ends within a
// sub-axis of the view.
[[nodiscard]] std::optional<Sharding> throughView(const Sharding&, const Mesh& seen, const MeshView&,
                                                  MeshId on, const Mesh& onMesh);
// Likewise of one axis or sub-axis.
[[nodiscard]] std::optional<std::vector<AxisRef>> throughView(const AxisRef&, const Mesh& seen,
                                                              const MeshView&, const Mesh& onMesh);

} // namespace dtc
