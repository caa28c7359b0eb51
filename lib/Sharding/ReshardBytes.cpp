#include "dtc/Sharding/ReshardBytes.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>
#include <cmath>

namespace dtc {

int64_t estimateReshardBytes(const Sharding& from, const Sharding& to, const Mesh& mesh, int64_t bytes) {
  double toCuts = 1, heldFraction = 1, fromCuts = 1;
  for (size_t d = 0; d < to.dims.size(); ++d) {
    const PartList &f = from.dims[d].parts, &t = to.dims[d].parts;
    double common = static_cast<double>(partsProduct(commonPrefix(f, t, mesh), mesh));
    double fromProduct = static_cast<double>(partsProduct(f, mesh));
    toCuts *= static_cast<double>(partsProduct(t, mesh));
    fromCuts *= fromProduct;
    heldFraction *=
        common / fromProduct; // of my new piece, what I hold where the cuts that differ are unrelated
  }
  double localTo = static_cast<double>(bytes) / toCuts, received = 0;
  double reduced = 1;
  bool scattered = true; // do the pending axes all cut the target?
  for (const PendingAxis& p : from.pending) {
    if (std::find(to.pending.begin(), to.pending.end(), p) != to.pending.end()) continue;
    reduced *= static_cast<double>(mesh.axisSize(p.axis));
    bool cuts = false;
    for (const DimSharding& d : to.dims)
      for (const DimPart& part : d.parts) cuts = cuts || (part.isAxis() && overlaps(part.axis, p.axis, mesh));
    scattered = scattered && cuts;
  }
  if (reduced > 1) {
    double local = scattered ? localTo * reduced : static_cast<double>(bytes) / fromCuts;
    received += (scattered ? 1.0 : 2.0) * (reduced - 1) / reduced * local;
  }
  received += localTo * (1 - heldFraction);
  return std::llround(received);
}

} // namespace dtc
