// Collectives in per-device code: replica groups become axes of the mesh.
#include "dtc/IR/LocalShape.h"
#include "import/HloGroups.h"
#include "import/HloImporter.h"
#include "import/HloRegions.h"
#include "import/HloTable.h"
#include "sharding/DeviceNumber.h"
#include <algorithm>
#include <array>

namespace dtc {

namespace {

AttrId axesAttr(HloContext& c, std::span<const AxisRef> axes) { return axesAttr(c.module, axes); }

// The reduction of the region's only op; none for any other region.
OpName reductionOf(HloContext& c, ValueId x) {
  if (!c.expectRegions(1)) return {};
  const HloFold* fold = foldOf(c, c.op.regions[0], c.dtypeOf(x));
  if (fold && fold->reduce) return fold->reduce;
  c.fail("reduces by an unsupported function: expected add, multiply, maximum, minimum, and, or");
  return {};
}

// A collective over no axes is the identity.
bool reduceAll(HloContext& c) {
  auto axes = groupAxes(c, HloGroupKind::OfReplicas);
  const std::vector<ValueId> xs = c.tensors();
  if (!axes || xs.empty()) return false;
  for (size_t i = 0; i < xs.size(); ++i) {
    const OpName op = reductionOf(c, xs[i]);
    if (!op) return false;
    const ValueId y = axes->empty() ? xs[i]
                                    : c.emit("all_reduce", {xs[i]},
                                             {{"axes", axesAttr(c, *axes)}, {"op", c.stringAttr(op)}});
    if (!c.setResult(i, y)) return false;
  }
  return true;
}

bool gatherAll(HloContext& c) {
  auto axes = groupAxes(c, HloGroupKind::OfReplicas);
  auto dim = c.integer("all_gather_dim");
  if (!axes || !dim) return false;
  const std::vector<ValueId> xs = c.tensors();
  for (size_t i = 0; i < xs.size(); ++i) {
    const ValueId y = axes->empty() ? xs[i]
                                    : c.emit("all_gather", {xs[i]},
                                             {{"axes", axesAttr(c, *axes)}, {"dim", c.intAttr(*dim)}});
    if (!c.setResult(i, y)) return false;
  }
  return true;
}

bool reduceScatter(HloContext& c) {
  auto axes = groupAxes(c, HloGroupKind::OfReplicas);
  auto dim = c.integer("scatter_dimension");
  const ValueId x = c.operand(0);
  if (!axes || !dim || !x.valid()) return false;
  const OpName op = reductionOf(c, x);
  if (!op) return false;
  if (axes->empty()) return c.setResult(x);
  return c.setResult(
      c.emit("reduce_scatter", {x},
             {{"axes", axesAttr(c, *axes)}, {"op", c.stringAttr(op)}, {"dim", c.intAttr(*dim)}}));
}

ValueId exchanged(HloContext& c, ValueId x, const std::vector<AxisRef>& axes, int64_t split, int64_t concat) {
  return c.emit(
      "all_to_all", {x},
      {{"axes", axesAttr(c, axes)}, {"split_dim", c.intAttr(split)}, {"concat_dim", c.intAttr(concat)}});
}

// Parts of one dim change places: the parts become a dim of their own, which is split, and joined in another.
ValueId exchangedWithin(HloContext& c, ValueId x, const std::vector<AxisRef>& axes, int64_t dim,
                        int64_t parts) {
  const std::vector<int64_t> shape = c.shapeOf(x);
  std::vector<int64_t> apart = shape;
  apart[static_cast<size_t>(dim)] /= parts;
  apart.insert(apart.begin() + dim, {1, parts});
  return c.reshape(exchanged(c, c.reshape(x, apart), axes, dim + 1, dim), shape);
}

bool allToAll(HloContext& c) {
  auto axes = groupAxes(c, HloGroupKind::OfEither);
  auto split = c.integer("split_dimension"), concat = c.integer("concat_dimension");
  if (!axes || !split || !concat) return false;
  const std::vector<ValueId> xs = c.tensors();
  for (size_t i = 0; i < xs.size(); ++i) {
    ValueId y = xs[i];
    if (!axes->empty() && *split != *concat) {
      y = exchanged(c, y, *axes, *split, *concat);
    } else if (!axes->empty()) {
      const auto parts = c.integer("split_count");
      const std::vector<int64_t> shape = c.shapeOf(y);
      if (!parts) return false;
      if (*parts < 1 || *split < 0 || *split >= static_cast<int64_t>(shape.size()) ||
          shape[static_cast<size_t>(*split)] % *parts)
        return c.failAttr("split_count", "does not divide the dim");
      y = exchangedWithin(c, y, *axes, *split, *parts);
    }
    if (!c.setResult(i, y)) return false;
  }
  return true;
}

using Pairs = std::vector<std::array<int64_t, 2>>; // from, to

// The axes along which data moves, if it moves alike for every index along the others: `pairs` then become
// indices along those.
std::vector<AxisRef> axesOfPairs(Pairs& pairs, const Mesh& mesh) {
  std::vector<AxisRef> all, moved, fixed;
  for (const MeshAxis& a : mesh.axes) {
    if (a.size == 1) continue;
    const AxisRef axis{a.name};
    const bool moves = std::ranges::any_of(
        pairs, [&](auto& p) { return mesh.indexAlong(axis, p[0]) != mesh.indexAlong(axis, p[1]); });
    (moves ? moved : fixed).push_back(axis);
    all.push_back(axis);
  }
  std::vector<Pairs> groups(static_cast<size_t>(mesh.sizeOf(fixed)));
  for (const auto& p : pairs)
    groups[static_cast<size_t>(mesh.indexAlong(fixed, p[0]))].push_back(
        {mesh.indexAlong(moved, p[0]), mesh.indexAlong(moved, p[1])});
  for (Pairs& g : groups) std::ranges::sort(g);
  for (const Pairs& g : groups)
    if (g != groups[0]) return all;
  pairs = groups[0];
  return moved;
}

bool permute(HloContext& c) {
  const ValueId x = c.operand(0);
  auto groups = deviceGroups(c, "source_target_pairs", HloGroupKind::OfEither);
  if (!groups || !x.valid()) return false;
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  Pairs pairs;
  for (const std::vector<int64_t>& g : *groups) {
    if (g.size() != 2) return c.failAttr("source_target_pairs", "is not a table of pairs");
    pairs.push_back({g[0], g[1]});
  }
  const std::vector<AxisRef> axes = axesOfPairs(pairs, mesh);
  if (axes.empty() && !pairs.empty()) return c.setResult(x); // each device sends to itself
  std::vector<AttrId> list;
  for (const auto& p : pairs) list.push_back(c.intsAttr(p));
  return c.setResult(c.emit("permute", {x}, {{"axes", axesAttr(c, axes)}, {"pairs", c.listAttr(list)}}));
}

// Each group begins with the source of the broadcast.
bool broadcast(HloContext& c) {
  auto groups = deviceGroups(c, kReplicaGroups, HloGroupKind::OfEither);
  const ValueId x = c.operand(0);
  if (!groups || !x.valid()) return false;
  std::vector<int64_t> sources;
  for (std::vector<int64_t>& g : *groups) {
    sources.push_back(g.empty() ? 0 : g.front());
    std::ranges::sort(g);
  }
  const auto axes = axesOfGroups(c, *groups);
  if (!axes) return false;
  if (axes->empty()) return c.setResult(x);
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  const int64_t root = sources.empty() ? 0 : mesh.indexAlong(*axes, sources.front());
  for (int64_t source : sources)
    if (mesh.indexAlong(*axes, source) != root)
      return c.failAttr(kReplicaGroups,
                        "has groups whose first devices differ in their index along the axes of the mesh");
  return c.setResult(
      c.emit("broadcast_from", {x}, {{"axes", axesAttr(c, *axes)}, {"root", c.intAttr(root)}}));
}

// The device's number along these axes: its row-major index, or the mesh's device order.
bool setIndexResult(HloContext& c, std::span<const AxisRef> axes) {
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  ValueId index = c.emit("axis_index", {}, {{"axes", axesAttr(c, axes)}});
  if (!mesh.devices.empty()) {
    std::vector<AttrId> ids;
    for (int64_t d : mesh.devices) ids.push_back(c.intAttr(d));
    const std::array<int64_t, 1> shape = {static_cast<int64_t>(ids.size())};
    const ValueId table =
        c.emitTyped("constant", {}, {{"value", c.listAttr(ids)}}, c.tensorType(DType::I32, shape));
    index = c.emit("index_select", {table, index}, {{"dim", c.intAttr(0)}});
  }
  return c.setResult(c.convert(index, c.resultDType()));
}

std::vector<AxisRef> axesFrom(HloContext& c, size_t first, size_t end) {
  std::vector<AxisRef> axes;
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  for (size_t i = first; i < std::min(end, mesh.axes.size()); ++i)
    if (mesh.axes[i].size > 1) axes.push_back({mesh.axes[i].name});
  return axes;
}

constexpr size_t kAllAxes = ~size_t(0);

// Replicas and partitions together have one mesh axis each.
bool partitionId(HloContext& c) {
  const HloDevices& devices = c.importer.devices();
  if (devices.replicas > 1 && devices.partitions == 1) return c.setResult(c.splat(0, c.resultDType(), {}));
  return setIndexResult(c, axesFrom(c, devices.replicas > 1 ? 1 : 0, kAllAxes));
}

// One replica with one partition per device, unless the text uses replicas.
bool replicaId(HloContext& c) {
  const HloDevices& devices = c.importer.devices();
  if (devices.replicas <= 1) return c.setResult(c.splat(0, c.resultDType(), {}));
  return setIndexResult(c, axesFrom(c, 0, devices.partitions > 1 ? 1 : kAllAxes));
}

// Device numbers exist only in per-device code: a program of replicas or partitions, or a manual computation.
template <bool (*convert)(HloContext&)> bool onDevices(HloContext& c) {
  if (c.importer.shardy.manualMesh().valid()) return convert(c);
  return c.fail(
      "is allowed only in per-device code: expected a manual computation with `manual_axes` around it");
}

const HloRow kCollectiveRows[] = {
    {"stablehlo.all_gather", onDevices<gatherAll>},
    {"stablehlo.all_reduce", onDevices<reduceAll>},
    {"stablehlo.all_to_all", onDevices<allToAll>},
    {"stablehlo.collective_broadcast", onDevices<broadcast>},
    {"stablehlo.collective_permute", onDevices<permute>},
    {"stablehlo.cross-replica-sum", onDevices<reduceAll>},
    {"stablehlo.partition_id", onDevices<partitionId>},
    {"stablehlo.reduce_scatter", onDevices<reduceScatter>},
    {"stablehlo.replica_id", onDevices<replicaId>},
};

} // namespace

std::span<const HloRow> hloCollectiveRows() { return kCollectiveRows; }

} // namespace dtc
