// Collectives in the code of one device: which devices a group joins, as axes of the mesh.
#include "DeviceNumber.h"
#include "HloImporter.h"
#include "HloTable.h"
#include <algorithm>
#include <array>

namespace dtc {

namespace {

// The places of logical devices: of a mesh with an order of its own, where each stands.
std::vector<int64_t> placesOf(const Mesh& mesh) {
  std::vector<int64_t> places(static_cast<size_t>(mesh.numDevices()));
  for (size_t i = 0; i < places.size(); ++i)
    places[mesh.devices.empty() ? i : static_cast<size_t>(mesh.devices[i])] = static_cast<int64_t>(i);
  return places;
}

using Groups = std::vector<std::vector<int64_t>>;

// dense<[[0, 1], [2, 3]]>, or of the attribute's other forms. A row may end in -1: smaller groups.
std::optional<Groups> groupsOf(HloContext& c, std::string_view name) {
  const MlirAttr* a = c.attr(name);
  if (!a) {
    c.fail("needs " + std::string(name));
    return std::nullopt;
  }
  auto flat = c.ints(name);
  if (!flat) return std::nullopt;
  const size_t rows =
      a->type && a->type->dims.size() == 2 ? static_cast<size_t>(std::max<int64_t>(a->type->dims[0], 0)) : 1;
  const size_t columns = a->type && a->type->dims.size() == 2
                             ? static_cast<size_t>(std::max<int64_t>(a->type->dims[1], 0))
                             : flat->size();
  if (flat->size() == 1 && rows * columns > 1) flat->resize(rows * columns, flat->front());
  if (rows * columns != flat->size()) {
    c.failAttr(name, "is no table of devices");
    return std::nullopt;
  }
  Groups groups(rows);
  for (size_t i = 0; i < flat->size(); ++i)
    if ((*flat)[i] >= 0) groups[i / columns].push_back((*flat)[i]);
  return groups;
}

// The axes, major to minor, along which the groups run; nothing after a report. No groups: all devices.
std::optional<std::vector<AxisRef>> groupAxes(HloContext& c, std::string_view name) {
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  auto groups = groupsOf(c, name);
  if (!groups) return std::nullopt;
  const int64_t all = mesh.numDevices();
  std::vector<AxisRef> axes;
  if (groups->empty() || (*groups)[0].empty()) {
    for (const MeshAxis& a : mesh.axes) axes.push_back({a.name});
    return axes;
  }
  auto bad = [&](const char* why) {
    c.failAttr(name, why);
    return std::nullopt;
  };
  const std::vector<int64_t> places = placesOf(mesh);
  int64_t covered = 0;
  for (std::vector<int64_t>& g : *groups)
    for (int64_t& device : g) {
      if (device >= all) return bad("names a device that the mesh does not have");
      device = places[static_cast<size_t>(device)];
      ++covered;
    }
  const std::vector<Digit> digits = digitsOf((*groups)[0]);
  if (digits.empty() && (*groups)[0].size() > 1) return bad("has groups that run along no axes of the mesh");
  for (const Digit& d : digits) {
    if (all % (d.stride * d.count) != 0) return bad("has groups that run along no axes of the mesh");
    const std::vector<AxisRef> part = axesOfDigits({all / (d.stride * d.count), d.count}, mesh);
    axes.insert(axes.begin(), part.begin(), part.end());
  }
  for (const std::vector<int64_t>& g : *groups)
    if (g != mesh.groupOf(axes, g[0]))
      return bad("has groups that do not all run along the same axes of the mesh");
  if (covered != all) return bad("leaves devices out: what those have afterwards has no meaning here");
  return axes;
}

AttrId axesAttr(HloContext& c, std::span<const AxisRef> axes) { return axesAttribute(c.module, axes); }

// "sum" and its kin, from the region's only op; nullptr where it is another.
const char* reductionOf(HloContext& c, ValueId x) {
  if (!c.expectRegions(1)) return nullptr;
  const std::string_view op = c.regionOp(c.op.regions[0]);
  const bool isBool = c.dtypeOf(x) == DType::Bool;
  if (op == "add") return isBool ? "any" : "sum";
  if (op == "multiply") return isBool ? "all" : "prod";
  if (op == "maximum") return isBool ? "any" : "max";
  if (op == "minimum") return isBool ? "all" : "min";
  if (op == "or" && isBool) return "any";
  if (op == "and" && isBool) return "all";
  c.fail("reduces by a function that is none of add, multiply, maximum, minimum, and, or");
  return nullptr;
}

// Along no axes there is nothing to do.
bool reduceAll(HloContext& c) {
  auto axes = groupAxes(c, "replica_groups");
  const std::vector<ValueId> xs = c.tensors();
  if (!axes || xs.empty()) return false;
  for (size_t i = 0; i < xs.size(); ++i) {
    const char* op = reductionOf(c, xs[i]);
    if (!op) return false;
    const ValueId y = axes->empty() ? xs[i]
                                    : c.emit("all_reduce", {xs[i]},
                                             {{"axes", axesAttr(c, *axes)}, {"op", c.stringAttr(op)}});
    if (!c.give(i, y)) return false;
  }
  return true;
}

bool gatherAll(HloContext& c) {
  auto axes = groupAxes(c, "replica_groups");
  auto dim = c.integer("all_gather_dim");
  if (!axes || !dim) return false;
  const std::vector<ValueId> xs = c.tensors();
  for (size_t i = 0; i < xs.size(); ++i) {
    const ValueId y = axes->empty() ? xs[i]
                                    : c.emit("all_gather", {xs[i]},
                                             {{"axes", axesAttr(c, *axes)}, {"dim", c.intAttr(*dim)}});
    if (!c.give(i, y)) return false;
  }
  return true;
}

bool reduceScatter(HloContext& c) {
  auto axes = groupAxes(c, "replica_groups");
  auto dim = c.integer("scatter_dimension");
  const ValueId x = c.operand(0);
  if (!axes || !dim || !x.valid()) return false;
  const char* op = reductionOf(c, x);
  if (!op) return false;
  if (axes->empty()) return c.give(x);
  return c.give(c.emit("reduce_scatter", {x},
                       {{"axes", axesAttr(c, *axes)}, {"op", c.stringAttr(op)}, {"dim", c.intAttr(*dim)}}));
}

bool allToAll(HloContext& c) {
  auto axes = groupAxes(c, "replica_groups");
  auto split = c.integer("split_dimension"), concat = c.integer("concat_dimension");
  if (!axes || !split || !concat) return false;
  const std::vector<ValueId> xs = c.tensors();
  for (size_t i = 0; i < xs.size(); ++i) {
    const ValueId y = axes->empty() ? xs[i]
                                    : c.emit("all_to_all", {xs[i]},
                                             {{"axes", axesAttr(c, *axes)},
                                              {"split_dim", c.intAttr(*split)},
                                              {"concat_dim", c.intAttr(*concat)}});
    if (!c.give(i, y)) return false;
  }
  return true;
}

using Pairs = std::vector<std::array<int64_t, 2>>; // from, to

// The axes along which data goes, if it goes alike for every index along the others: `pairs` are then indices along those.
std::vector<AxisRef> axesOfPairs(Pairs& pairs, const Mesh& mesh) {
  std::vector<AxisRef> all, moved, fixed;
  for (const MeshAxis& a : mesh.axes) {
    const AxisRef axis{a.name};
    const bool moves = std::ranges::any_of(
        pairs, [&](auto& p) { return mesh.indexAlong(axis, p[0]) != mesh.indexAlong(axis, p[1]); });
    (moves ? moved : fixed).push_back(axis);
    all.push_back(axis);
  }
  if (moved.empty()) return all;
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
  auto flat = c.ints("source_target_pairs");
  const ValueId x = c.operand(0);
  if (!flat || !x.valid()) return false;
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  const std::vector<int64_t> places = placesOf(mesh);
  Pairs pairs;
  for (size_t i = 0; i + 1 < flat->size(); i += 2) {
    auto& pair = pairs.emplace_back();
    for (size_t k = 0; k < 2; ++k) {
      const int64_t device = (*flat)[i + k];
      if (device < 0 || device >= mesh.numDevices())
        return c.failAttr("source_target_pairs", "names a device that the mesh does not have");
      pair[k] = places[static_cast<size_t>(device)];
    }
  }
  const std::vector<AxisRef> axes = axesOfPairs(pairs, mesh);
  std::vector<AttrId> list;
  for (const auto& p : pairs) list.push_back(c.intsAttr(p));
  return c.give(c.emit("permute", {x}, {{"axes", axesAttr(c, axes)}, {"pairs", c.listAttr(list)}}));
}

bool broadcast(HloContext& c) {
  auto axes = groupAxes(c, "replica_groups");
  const ValueId x = c.operand(0);
  if (!axes || !x.valid()) return false;
  return c.give(axes->empty() ? x : c.emit("broadcast_from", {x}, {{"axes", axesAttr(c, *axes)}}));
}

// The device's number: its place, or what the mesh calls that.
bool partitionId(HloContext& c) {
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  std::vector<AxisRef> all;
  for (const MeshAxis& a : mesh.axes) all.push_back({a.name});
  ValueId place = c.emit("axis_index", {}, {{"axes", axesAttr(c, all)}});
  if (!mesh.devices.empty()) {
    std::vector<AttrId> ids;
    for (int64_t d : mesh.devices) ids.push_back(c.intAttr(d));
    const std::array<int64_t, 1> shape = {static_cast<int64_t>(ids.size())};
    const ValueId table =
        c.emitTyped("constant", {}, {{"value", c.listAttr(ids)}}, c.tensorType(DType::I32, shape));
    place = c.emit("index_select", {table, place}, {{"dim", c.intAttr(0)}});
  }
  return c.give(c.convert(place, c.resultDType()));
}

// One replica of as many partitions as there are devices, unless the text is for replicas.
bool replicaId(HloContext& c) {
  if (c.importer.replicas()) return partitionId(c);
  return c.give(c.splat(0, c.resultDType(), {}));
}

const HloRow kRows[] = {
    {"stablehlo.all_gather", gatherAll},       {"stablehlo.all_reduce", reduceAll},
    {"stablehlo.all_to_all", allToAll},        {"stablehlo.collective_broadcast", broadcast},
    {"stablehlo.collective_permute", permute}, {"stablehlo.cross-replica-sum", reduceAll},
    {"stablehlo.partition_id", partitionId},   {"stablehlo.reduce_scatter", reduceScatter},
    {"stablehlo.replica_id", replicaId},
};

} // namespace

std::span<const HloRow> hloCollectiveRows() { return kRows; }

} // namespace dtc
