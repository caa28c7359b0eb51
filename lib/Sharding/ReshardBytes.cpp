#include "dtc/Sharding/ReshardBytes.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>
#include <cmath>

namespace dtc {

int64_t estimateReshardBytes(const Sharding& from, const Sharding& to, const Mesh& mesh, int64_t bytes) {
  double toFactor = 1, heldFraction = 1, fromFactor = 1;
  for (size_t d = 0; d < to.dims.size(); ++d) {
    const PartList &f = from.dims[d].parts, &t = to.dims[d].parts;
    double common = static_cast<double>(partsProduct(commonPrefix(f, t, mesh), mesh));
    double fromProduct = static_cast<double>(partsProduct(f, mesh));
    toFactor *= static_cast<double>(partsProduct(t, mesh));
    fromFactor *= fromProduct;
    // the fraction of my new shard that I hold, if the axes that differ are independent
    heldFraction *= common / fromProduct;
  }
  double localTo = static_cast<double>(bytes) / toFactor, received = 0;
  double reduced = 1;
  bool scattered = true; // whether all pending axes shard the target
  for (const PendingAxis& p : from.pending) {
    if (std::find(to.pending.begin(), to.pending.end(), p) != to.pending.end()) continue;
    reduced *= static_cast<double>(mesh.axisSize(p.axis));
    bool sharded = false;
    for (const DimSharding& d : to.dims)
      for (const DimPart& part : d.parts)
        sharded = sharded || (part.isAxis() && overlaps(part.axis, p.axis, mesh));
    scattered = scattered && sharded;
  }
  if (reduced > 1) {
    double local = scattered ? localTo * reduced : static_cast<double>(bytes) / fromFactor;
    received += (scattered ? 1.0 : 2.0) * (reduced - 1) / reduced * local;
  }
  received += localTo * (1 - heldFraction);
  return std::llround(received);
}

} // namespace dtc
