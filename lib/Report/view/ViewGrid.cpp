// Shardings and meshes as grids: the device coordinates of each shard.
#include "dtc/IR/text/Text.h"
#include "dtc/Report/view/View.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <memory>
#include <set>

namespace dtc {
namespace {

// A sub-axis and this shard's index along it.
struct FixedAxis {
  AxisRef axis;
  int64_t index = 0;
};

// "2", "0-1", "0,2"
std::string listText(const std::vector<int64_t>& indices) {
  const auto count = static_cast<int64_t>(indices.size());
  if (count == 1) return std::to_string(indices[0]);
  if (count > 1 && indices.back() - indices.front() + 1 == count)
    return std::to_string(indices.front()) + "-" + std::to_string(indices.back());
  return joined(indices, ",");
}

// The indices along each axis of the devices that have the value.
std::vector<std::vector<int64_t>> indicesOf(const Mesh& mesh, const ViewHolders& holders) {
  std::vector<std::set<int64_t>> found(mesh.axes.size());
  for (size_t p = 0; p < holders.devices.size(); ++p)
    for (size_t a = 0; holders.devices[p] && a < mesh.axes.size(); ++a)
      found[a].insert(mesh.indexAlong(AxisRef{mesh.axes[a].name}, static_cast<int64_t>(p)));
  std::vector<std::vector<int64_t>> out;
  for (const auto& f : found) out.emplace_back(f.begin(), f.end());
  return out;
}

// "pp=3": the axes along which not all indices have it. Otherwise, their list: "[1, 2]".
std::string holdersText(const Mesh& mesh, const StringTable& strings, const ViewHolders& holders) {
  const auto count = static_cast<size_t>(std::ranges::count(holders.devices, true));
  const auto indices = indicesOf(mesh, holders);
  size_t product = 1;
  std::string axes;
  for (size_t a = 0; a < indices.size(); ++a) {
    product *= indices[a].size();
    if (static_cast<int64_t>(indices[a].size()) == mesh.axes[a].size) continue;
    axes += (axes.empty() ? "devices with " : ", ") + std::string(strings[mesh.axes[a].name]) + "=" +
            listText(indices[a]);
  }
  if (product == count && !axes.empty()) return axes;
  std::vector<int64_t> list;
  for (size_t p = 0; p < holders.devices.size(); ++p)
    if (holders.devices[p]) list.push_back(mesh.devices.empty() ? static_cast<int64_t>(p) : mesh.devices[p]);
  return "devices [" + joined(list, ", ") + "]";
}

// The indices of a mesh axis that hold a shard, of those that have the value: "2", "*" for all of them.
std::string indicesText(const Mesh& mesh, const MeshAxis& axis, std::span<const FixedAxis> fixed,
                        bool pending, const std::vector<int64_t>* having) {
  if (pending) return "+";
  // Without a loop over the axis, which may have 10^8 indices.
  const auto along = [&](const FixedAxis& f) { return f.axis.name == axis.name; };
  const auto first = std::ranges::find_if(fixed, along);
  if (first == fixed.end() && having && static_cast<int64_t>(having->size()) < axis.size)
    return listText(*having);
  if (first == fixed.end()) return axis.size > 1 ? "*" : "0";
  if (first->axis.isFullAxis()) return std::to_string(first->index);
  std::vector<int64_t> held;
  for (int64_t c = 0; c < axis.size; ++c) {
    bool here = true;
    for (const FixedAxis& f : fixed) {
      if (f.axis.name != axis.name) continue;
      const int64_t size = mesh.axisSize(f.axis), pre = f.axis.isFullAxis() ? 1 : f.axis.pre;
      here = here && c / (axis.size / (pre * size)) % size == f.index;
    }
    if (here) held.push_back(c);
  }
  const auto count = static_cast<int64_t>(held.size());
  if (count == axis.size && axis.size > 1) return "*";
  return listText(held);
}

std::string coordinates(const std::vector<std::string>& each) { return "(" + joined(each) + ")"; }

int64_t partSize(const DimPart& p, const Mesh& mesh) { return p.isAxis() ? mesh.axisSize(p.axis) : p.blocks; }

// A tensor and its sharding, owned by the grid's functions.
struct Shards {
  const Module* m;
  Sharding sharding;
  Mesh mesh;
  ViewHolders having;
  std::vector<std::optional<int64_t>> sizes = {}; // of the global tensor; nothing where symbolic
  std::vector<std::vector<int64_t>> indices = {}; // by axis: those that have it; empty: all

  [[nodiscard]] int64_t count(size_t d) const {
    int64_t n = 1;
    for (const DimPart& p : sharding.dims[d].parts) n *= partSize(p, mesh);
    return n;
  }
  [[nodiscard]] std::string label(size_t d, int64_t i) const {
    if (!sizes[d]) return count(d) == 1 ? "all" : "#" + std::to_string(i);
    Interval part = shardInterval(*sizes[d], count(d), i);
    if (part.size() == 0) return "none";
    std::string first = std::to_string(part.begin);
    return part.size() == 1 ? first : first + ".." + std::to_string(part.end - 1);
  }
  [[nodiscard]] std::string holders(std::span<const int64_t> at) const {
    std::vector<FixedAxis> fixed;
    for (size_t d = 0; d < at.size(); ++d) {
      int64_t rest = at[d];
      const auto& parts = sharding.dims[d].parts;
      for (size_t i = parts.size(); i-- > 0;) {
        const int64_t size = partSize(parts[i], mesh);
        if (parts[i].isAxis()) fixed.push_back({parts[i].axis, rest % size});
        rest /= size;
      }
    }
    std::vector<std::string> each;
    for (size_t k = 0; k < mesh.axes.size(); ++k) {
      const MeshAxis& a = mesh.axes[k];
      const bool pending = std::any_of(sharding.pending.begin(), sharding.pending.end(),
                                       [&](const PendingAxis& p) { return p.axis.name == a.name; });
      each.push_back(indicesText(mesh, a, fixed, pending, indices.empty() ? nullptr : &indices[k]));
    }
    return coordinates(each);
  }
};

// "32", or "3 or 4" where shards differ in size.
std::string shardSizeText(int64_t n, int64_t count) {
  std::string min = std::to_string(n / count);
  return n % count == 0 ? min : min + " or " + std::to_string(n / count + 1);
}

// "B", "B/2", "(B + 1)/2"
std::string symbolicShardText(const Module& m, Dim size, int64_t count) {
  std::string text = printDim(size, m.dims, m.strings);
  if (count == 1) return text;
  if (text.find_first_of(" +-*/") != std::string::npos) text = "(" + text + ")";
  return text + "/" + std::to_string(count);
}

std::vector<std::string> factsOf(const Shards& p, const Type& type) {
  int64_t shards = 1, largest = dtypeBytes(type.dtype), globalBytes = largest, parts = 1;
  std::string shape, counts;
  bool known = true;
  for (size_t d = 0; d < p.sizes.size(); ++d) {
    const int64_t count = p.count(d);
    shards *= count;
    counts += (d ? " x " : "") + std::to_string(count);
    shape += (d ? " x " : "") +
             (p.sizes[d] ? shardSizeText(*p.sizes[d], count) : symbolicShardText(*p.m, type.dims[d], count));
    known = known && p.sizes[d];
    if (!known) continue;
    largest *= (*p.sizes[d] + count - 1) / count;
    globalBytes *= *p.sizes[d];
  }
  for (const PendingAxis& a : p.sharding.pending) parts *= p.mesh.axisSize(a.axis);
  const int64_t holders = p.having.devices.empty()
                              ? p.mesh.numDevices()
                              : static_cast<int64_t>(std::ranges::count(p.having.devices, true));
  const int64_t copies = holders / (shards * parts);
  std::vector<std::string> facts;
  std::string line = std::to_string(shards) + (shards == 1 ? " shard" : " shards");
  if (p.sizes.size() > 1 && shards > 1) line += " (" + counts + ")";
  if (!shape.empty()) line += " of " + shape;
  facts.push_back(line);
  if (known) facts.push_back(bytesText(largest) + " per device, of " + bytesText(globalBytes));
  if (!p.having.known)
    facts.emplace_back("an op is merged with others: which devices compute it is not known");
  else if (copies * shards * parts == holders)
    facts.push_back(copies == 1 ? "each shard is held once"
                                : "each shard is held " + std::to_string(copies) + " times");
  if (!p.having.devices.empty())
    facts.push_back("only " + holdersText(p.mesh, p.m->strings, p.having) +
                    (p.having.computed ? " compute it" : " hold it: others have no memory for it"));
  if (parts > 1) {
    std::string axes;
    for (const PendingAxis& a : p.sharding.pending)
      axes += (axes.empty() ? "" : ", ") + printAxis(a.axis, p.m->strings);
    facts.push_back("pending: each shard is the " + std::string(pendingName(p.sharding.pendingKind())) +
                    " of " + std::to_string(parts) + " partial values, one per device along " + axes);
  }
  return facts;
}

std::string axisNames(const Mesh& mesh, const StringTable& strings) {
  std::vector<std::string> names;
  for (const MeshAxis& a : mesh.axes) names.emplace_back(strings[a.name]);
  return coordinates(names);
}

} // namespace

std::string headingOf(const ViewGrid::Dim& dim, int64_t index) {
  return (dim.name.empty() ? "" : dim.name + ": ") + dim.label(index);
}

// What a collective does before the value is read.
static std::string beforeText(const Module& m, ShardingId before) {
  const bool partial = !m.shardings[before].pending.empty();
  return "its op computes " + printSharding(m, before) +
         (partial ? ", partial values that a collective reduces" : ", which is resharded");
}

ViewGrid shardingGrid(const Module& m, std::string_view name, TypeId global, ShardingId s, ViewHolders having,
                      ShardingId before) {
  const Type& type = m.types[global];
  auto p = std::make_shared<Shards>(Shards{&m, m.shardings[s], m.shardings.meshOf(s), std::move(having)});
  if (p->having.devices.size() != static_cast<size_t>(p->mesh.numDevices()) ||
      std::ranges::count(p->having.devices, false) == 0)
    p->having.devices.clear();
  if (!p->having.devices.empty()) p->indices = indicesOf(p->mesh, p->having);
  for (Dim d : type.dims) p->sizes.push_back(d.isStatic() ? std::optional(d.value()) : std::nullopt);
  ViewGrid g;
  g.title = std::string(name) + ": " + printType(m, global) + " " + printSharding(m, s);
  g.facts = factsOf(*p, type);
  if (before.valid() && before != s) g.facts.push_back(beforeText(m, before));
  std::string legend = "devices " + axisNames(p->mesh, m.strings);
  if (p->sharding.pending.empty())
    legend += "; * means every index along that axis";
  else
    legend += "; * means every index along that axis, + every index with its partial value";
  g.facts.push_back(legend);
  for (size_t d = 0; d < p->sizes.size(); ++d) {
    ViewGrid::Dim dim{
        "dim " + std::to_string(d), p->count(d), [p, d](int64_t i) { return p->label(d, i); }, {}};
    if (p->sizes[d])
      dim.size = [p, d](int64_t i) { return shardInterval(*p->sizes[d], p->count(d), i).size(); };
    g.dims.push_back(std::move(dim));
  }
  g.cell = [p](std::span<const int64_t> at) { return p->holders(at); };
  g.marked = [p](std::span<const int64_t>) { return !p->sharding.pending.empty(); };
  return g;
}

ViewGrid meshGrid(const Module& m, MeshId id) {
  auto mesh = std::make_shared<Mesh>(m.shardings.mesh(id));
  ViewGrid g;
  g.title = "mesh @" + std::string(m.strings[mesh->name]) + " = [";
  for (const MeshAxis& a : mesh->axes) {
    std::string name(m.strings[a.name]);
    g.title += (g.dims.empty() ? "" : ", ") + name + "=" + std::to_string(a.size);
    g.dims.push_back({"", a.size, [name](int64_t i) { return name + "=" + std::to_string(i); }, {}});
  }
  g.title += "]";
  const int64_t n = mesh->numDevices();
  g.facts.push_back(n == 1 ? "1 device" : std::to_string(n) + " devices");
  g.cell = [mesh](std::span<const int64_t> at) {
    int64_t device = 0;
    for (size_t a = 0; a < at.size(); ++a) device = device * mesh->axes[a].size + at[a];
    return std::to_string(mesh->devices.empty() ? device : mesh->devices[static_cast<size_t>(device)]);
  };
  g.marked = [](std::span<const int64_t>) { return false; };
  return g;
}

} // namespace dtc
