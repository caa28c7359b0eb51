#include "import/HloGroups.h"
#include "dtc/Support/Checked.h"
#include "import/HloImporter.h"
#include "mlir/MlirLexer.h"
#include "sharding/DeviceNumber.h"

#include <algorithm>

namespace dtc {

namespace {

// The device coordinates of logical devices, for a mesh with a device order of its own.
std::vector<int64_t> coordinatesOf(const Mesh& mesh) {
  std::vector<int64_t> coordinates(static_cast<size_t>(mesh.numDevices()));
  for (size_t i = 0; i < coordinates.size(); ++i)
    coordinates[mesh.devices.empty() ? i : static_cast<size_t>(mesh.devices[i])] = static_cast<int64_t>(i);
  return coordinates;
}

// dense<[[0, 1], [2, 3]]>, or another form of the attribute. A row padded with -1 is a smaller group.
std::optional<HloGroups> tableOf(HloContext& c, std::string_view name) {
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
    c.failAttr(name, "is not a table of devices");
    return std::nullopt;
  }
  HloGroups groups(rows);
  for (size_t i = 0; i < flat->size(); ++i)
    if ((*flat)[i] >= 0) groups[i / columns].push_back((*flat)[i]);
  return groups;
}

// --- #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = […]>, axes = […]> ---

struct NamedSize {
  std::string_view name;
  int64_t size = 0, pre = 1; // of a sub-axis: the product of the sizes major to it
};

// "name = "x", size = 2", "name = "y", sub_axis_info = (1)2" in the body of an axis.
NamedSize axisOf(MlirLexer& lex) {
  NamedSize axis;
  while (!lex.atEnd()) {
    const MlirToken t = lex.next();
    if (t.isWord("name") && lex.accept('=')) axis.name = lex.next().text;
    if (t.isWord("size") && lex.accept('=')) axis.size = mlirInteger(lex.next().text).value_or(0);
    if (!t.isWord("sub_axis_info") || !lex.accept('=') || !lex.accept('(')) continue;
    axis.pre = mlirInteger(lex.next().text).value_or(0);
    if (lex.accept(')')) axis.size = mlirInteger(lex.next().text).value_or(0);
  }
  return axis;
}

// All axes of a kind that the text lists, in order: "stablehlo.mesh_axis<…>".
std::vector<NamedSize> axesNamed(HloContext& c, std::string_view body, std::string_view kind) {
  MlirLexer lex(c.module.source.text, body);
  std::vector<NamedSize> axes;
  while (!lex.atEnd()) {
    const MlirToken t = lex.next();
    if (t.kind != MlirTok::Hash || !t.text.ends_with(kind) || !lex.peek().is('<')) continue;
    const auto inner = lex.skipBalanced();
    if (!inner) return {};
    MlirLexer part(c.module.source.text, *inner);
    axes.push_back(axisOf(part));
  }
  return axes;
}

// The groups on the named mesh, row-major: one per index along the axes that are not listed.
std::optional<HloGroups> meshGroups(HloContext& c, std::string_view name, const MlirAttr& a) {
  const std::vector<NamedSize> mesh = axesNamed(c, a.body, "mesh_axis");
  std::vector<NamedSize> along = axesNamed(c, a.body, "axis_ref");
  int64_t devices = 1;
  std::vector<int64_t> strides(mesh.size(), 1);
  bool good = !mesh.empty();
  for (size_t i = mesh.size(); i-- > 0;) {
    strides[i] = devices;
    good = good && mesh[i].size > 0 && devices <= (int64_t(1) << 20) / std::max<int64_t>(mesh[i].size, 1);
    if (good) devices *= mesh[i].size;
  }
  std::vector<std::pair<int64_t, int64_t>> digits; // stride, size: of a group, major to minor
  int64_t length = 1;
  for (NamedSize& part : along) {
    const auto axis = std::ranges::find(mesh, part.name, &NamedSize::name);
    if (axis == mesh.end()) good = false;
    if (!good) break;
    if (part.size == 0) part.size = axis->size;
    good = part.size > 0 && part.pre > 0 && part.pre <= axis->size && part.size <= axis->size &&
           axis->size % (part.pre * part.size) == 0 && length <= devices / part.size;
    const int64_t inner = good ? axis->size / (part.pre * part.size) : 1;
    digits.emplace_back(strides[static_cast<size_t>(axis - mesh.begin())] * inner, part.size);
    length *= part.size;
  }
  if (!good) {
    c.failAttr(name, "names axes that its mesh does not have, or too many devices");
    return std::nullopt;
  }
  HloGroups groups;
  std::vector<bool> taken(static_cast<size_t>(devices));
  for (int64_t first = 0; first < devices; ++first) {
    if (taken[static_cast<size_t>(first)]) continue;
    std::vector<int64_t>& g = groups.emplace_back();
    for (int64_t i = 0; i < length; ++i) {
      int64_t device = first, rest = i;
      for (size_t d = digits.size(); d-- > 0;) {
        device += rest % digits[d].second * digits[d].first;
        rest /= digits[d].second;
      }
      if (device >= devices || taken[static_cast<size_t>(device)]) {
        c.failAttr(name, "names an axis twice");
        return std::nullopt;
      }
      taken[static_cast<size_t>(device)] = true;
      g.push_back(device);
    }
  }
  return groups;
}

// --- replicas and partitions together ---

bool hasChannel(HloContext& c) {
  const MlirAttr* handle = c.attr("channel_handle");
  if (!handle) handle = c.attr("channel_id");
  if (!handle) return false;
  if (handle->kind == MlirAttr::Int) return handle->integer > 0;
  const auto number = c.bodyInts(*handle, "handle");
  return number && !number->empty() && number->front() > 0;
}

// Device r * partitions + p is partition p of replica r.
HloGroups onGrid(HloContext& c, const HloGroups& groups, HloGroupKind kind) {
  const HloDevices& devices = c.importer.devices();
  const bool channel = hasChannel(c);
  HloGroups out;
  if (channel && kind == HloGroupKind::OfReplicas) { // replicas with all their partitions
    for (const std::vector<int64_t>& g : groups) {
      std::vector<int64_t>& all = out.emplace_back();
      for (int64_t r : g)
        for (int64_t p = 0; p < devices.partitions; ++p) all.push_back(r * devices.partitions + p);
    }
    return out;
  }
  const int64_t copies = channel ? devices.replicas : devices.partitions;
  for (int64_t copy = 0; copy < copies; ++copy)
    for (const std::vector<int64_t>& g : groups) {
      std::vector<int64_t>& one = out.emplace_back();
      for (int64_t n : g)
        one.push_back(channel ? copy * devices.partitions + n : n * devices.partitions + copy);
    }
  return out;
}

} // namespace

std::optional<HloGroups> deviceGroups(HloContext& c, std::string_view name, HloGroupKind kind) {
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  const HloDevices& devices = c.importer.devices();
  const MlirAttr* a = c.attr(name);
  const bool named = a && a->kind == MlirAttr::Dialect && a->text.ends_with("replica_group_mesh_axes");
  auto groups = named ? meshGroups(c, name, *a) : tableOf(c, name);
  if (!groups) return std::nullopt;
  const bool grid = devices.replicas > 1 && devices.partitions > 1 && !c.has("use_global_device_ids");
  const int64_t maxDevices = !grid                                             ? mesh.numDevices()
                             : hasChannel(c) && kind == HloGroupKind::OfEither ? devices.partitions
                                                                               : devices.replicas;
  for (const std::vector<int64_t>& g : *groups)
    for (int64_t number : g)
      if (number < 0 || number >= maxDevices) {
        c.failAttr(name, "lists a device that is not in the mesh");
        return std::nullopt;
      }
  if (grid && !groups->empty() && !groups->front().empty()) *groups = onGrid(c, *groups, kind);
  const std::vector<int64_t> coordinates = coordinatesOf(mesh);
  for (std::vector<int64_t>& g : *groups)
    for (int64_t& device : g) device = coordinates[static_cast<size_t>(device)];
  return groups;
}

std::optional<std::vector<AxisRef>> groupAxes(HloContext& c, HloGroupKind kind) {
  const auto groups = deviceGroups(c, kReplicaGroups, kind);
  return groups ? axesOfGroups(c, *groups) : std::nullopt;
}

std::optional<std::vector<AxisRef>> axesOfGroups(HloContext& c, const HloGroups& groups) {
  const Mesh& mesh = c.module.shardings.mesh(c.importer.shardy.manualMesh());
  const int64_t all = mesh.numDevices();
  std::vector<AxisRef> axes;
  if (groups.empty() || groups[0].empty()) {
    for (const MeshAxis& a : mesh.axes)
      if (a.size > 1) axes.push_back({a.name});
    return axes;
  }
  auto bad = [&](const char* why) {
    c.failAttr(kReplicaGroups, why);
    return std::nullopt;
  };
  int64_t covered = 0;
  for (const std::vector<int64_t>& g : groups) covered += static_cast<int64_t>(g.size());
  const std::vector<NumberDigit> digits = digitsOf(groups[0]);
  if (digits.empty() && groups[0].size() > 1)
    return bad("has groups that do not correspond to axes of the mesh");
  for (const NumberDigit& d : digits) {
    if (all % (d.stride * d.count) != 0) return bad("has groups that do not correspond to axes of the mesh");
    const std::vector<AxisRef> part = axesOfDigits({all / (d.stride * d.count), d.count}, mesh);
    axes.insert(axes.begin(), part.begin(), part.end());
  }
  for (const std::vector<int64_t>& g : groups)
    if (g != mesh.groupOf(axes, g[0])) return bad("has groups that correspond to different axes of the mesh");
  if (covered != all)
    return bad("omits devices of the mesh, which is unsupported: each device must be in a group");
  return axes;
}

} // namespace dtc
