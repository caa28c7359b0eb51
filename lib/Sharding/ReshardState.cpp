#include "ReshardState.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>
#include <limits>

namespace dtc {
namespace {

// Boundaries within one mesh axis, ascending, each dividing the next: 1, …, its size.
struct ShardAxes {
  StrId name;
  int64_t size = 1;
  std::vector<int64_t> at;

  [[nodiscard]] bool has(int64_t b) const { return std::find(at.begin(), at.end(), b) != at.end(); }
  // Adds a boundary; false if it refines none of the existing sub-axes.
  bool add(int64_t b) {
    auto it = std::lower_bound(at.begin(), at.end(), b);
    if (it != at.end() && *it == b) return true;
    if (it == at.end() || it == at.begin() || *it % b != 0 || b % *(it - 1) != 0) return false;
    at.insert(it, b);
    return true;
  }
};

struct Refiner {
  const Mesh& mesh;
  std::vector<ShardAxes> axes;

  ShardAxes& shardAxesOf(StrId name) { return axes[static_cast<size_t>(mesh.axisIndex(name))]; }
  bool addAxis(const AxisRef& a) {
    if (a.isFullAxis()) return true;
    return shardAxesOf(a.name).add(a.pre) && shardAxesOf(a.name).add(a.pre * a.size);
  }
  // Splits axes of `mine` at the prefix products of `other`. True if a boundary was added.
  bool splitAt(const PartList& mine, const PartList& other) {
    std::vector<int64_t> bounds;
    int64_t product = 1;
    for (const DimPart& p : other) {
      auto next = checkedMul(product, p.isAxis() ? mesh.axisSize(p.axis) : p.blocks);
      if (!next) break;
      bounds.push_back(product = *next);
    }
    bool changed = false;
    product = 1;
    for (const DimPart& p : mine) {
      const int64_t size = p.isAxis() ? mesh.axisSize(p.axis) : p.blocks;
      auto end = checkedMul(product, size);
      if (!end) break;
      for (int64_t b : bounds) {
        if (!p.isAxis() || b <= product || b >= *end || b % product != 0 || *end % b != 0) continue;
        ShardAxes& divisions = shardAxesOf(p.axis.name);
        const int64_t at = p.axis.pre * (b / product);
        if (!divisions.has(at) && divisions.add(at)) changed = true;
      }
      product = *end;
    }
    return changed;
  }
};

} // namespace

bool PlanState::pendingOn(int atom) const {
  return std::any_of(pending.begin(), pending.end(), [&](auto& p) { return p.first == atom; });
}
bool PlanState::uses(int atom) const {
  for (const PartRow& row : dims)
    if (std::find(row.begin(), row.end(), atom) != row.end()) return true;
  return pendingOn(atom);
}

std::vector<AxisRef> commonAtoms(const Sharding& from, const Sharding& to, const Mesh& mesh,
                                 std::vector<StrId>& incompatible) {
  Refiner r{mesh, {}};
  for (const MeshAxis& a : mesh.axes) {
    r.axes.push_back({a.name, a.size, {1}});
    if (a.size > 1) r.axes.back().at.push_back(a.size);
  }
  for (const Sharding* s : {&from, &to}) {
    auto add = [&](const AxisRef& a) {
      if (r.addAxis(a)) return;
      if (std::find(incompatible.begin(), incompatible.end(), a.name) == incompatible.end())
        incompatible.push_back(a.name);
    };
    for (const DimSharding& d : s->dims)
      for (const DimPart& p : d.parts)
        if (p.isAxis()) add(p.axis);
    for (const PendingAxis& p : s->pending) add(p.axis);
  }
  if (incompatible.empty())
    for (bool again = true; again;) {
      again = false;
      for (size_t d = 0; d < from.dims.size(); ++d) {
        again = r.splitAt(from.dims[d].parts, to.dims[d].parts) || again;
        again = r.splitAt(to.dims[d].parts, from.dims[d].parts) || again;
      }
    }
  std::vector<AxisRef> atoms;
  for (const ShardAxes& c : r.axes) // an axis of size 1 has none
    for (size_t i = 0; i + 1 < c.at.size(); ++i)
      atoms.push_back(mesh.canonical({c.name, c.at[i], c.at[i + 1] / c.at[i]}));
  return atoms;
}

void normalize(PartRow& row) {
  size_t kept = 0;
  for (const Part p : row) {
    if (p == -1) continue;
    if (p < 0 && kept > 0 && row[kept - 1] < 0)
      row[kept - 1] = -(row[kept - 1] * p);
    else
      row[kept++] = p;
  }
  while (kept > 0 && row[kept - 1] < 0) --kept;
  row.resize(kept);
}

size_t PlanStateHash::operator()(const PlanState& s) const {
  uint64_t h = 0xcbf29ce484222325ull;
  auto add = [&](uint64_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15ull, h ^= h >> 29; };
  for (const PartRow& row : s.dims) {
    for (const Part p : row) add(static_cast<uint64_t>(p));
    add(0x5eed);
  }
  for (const auto& [atom, kind] : s.pending)
    add(static_cast<uint64_t>(atom) << 8 | static_cast<uint64_t>(kind));
  return h;
}

int64_t PlanSpace::productOf(std::span<const Part> parts) const {
  int64_t product = 1;
  for (Part p : parts)
    if (__builtin_mul_overflow(product, sizeOf(p), &product)) return std::numeric_limits<int64_t>::max();
  return product;
}

PlanState PlanSpace::stateOf(const Sharding& s) const {
  auto within = [&](const AxisRef& atom, const AxisRef& axis) {
    if (atom.name != axis.name) return false;
    if (axis.isFullAxis()) return true;
    return !atom.isFullAxis() && atom.pre >= axis.pre && atom.pre * atom.size <= axis.pre * axis.size;
  };
  PlanState out;
  for (const DimSharding& d : s.dims) {
    PartRow row;
    for (const DimPart& p : d.parts) {
      if (!p.isAxis())
        row.push_back(-p.blocks);
      else
        for (size_t a = 0; a < atoms.size(); ++a)
          if (within(atoms[a], p.axis)) row.push_back(static_cast<Part>(a));
    }
    normalize(row);
    out.dims.push_back(std::move(row));
  }
  for (size_t a = 0; a < atoms.size(); ++a)
    for (const PendingAxis& p : s.pending)
      if (within(atoms[a], p.axis)) out.pending.push_back({static_cast<int>(a), p.kind});
  return out;
}

std::vector<AxisRef> PlanSpace::axesOf(std::span<const Part> run) const {
  PartList parts;
  for (Part p : run) parts.push_back({atoms[static_cast<size_t>(p)], 0});
  canonicalizeParts(parts, mesh);
  std::vector<AxisRef> out;
  for (const DimPart& p : parts) out.push_back(p.axis);
  return out;
}

Sharding PlanSpace::shardingOf(const PlanState& s) const {
  Sharding out;
  out.mesh = meshId;
  for (const PartRow& row : s.dims) {
    DimSharding d;
    for (Part p : row) {
      if (p < 0)
        d.parts.push_back({{}, -p});
      else
        d.parts.push_back({atoms[static_cast<size_t>(p)], 0});
    }
    canonicalizeParts(d.parts, mesh);
    out.dims.push_back(std::move(d));
  }
  for (auto [atom, kind] : s.pending) {
    const AxisRef a = atoms[static_cast<size_t>(atom)];
    if (!out.pending.empty() && out.pending.back().kind == kind) {
      AxisRef& last = out.pending.back().axis;
      if (last.name == a.name && last.pre * last.size == a.pre) {
        last = mesh.canonical({a.name, last.pre, last.size * a.size});
        continue;
      }
    }
    out.pending.push_back({a, kind});
  }
  return out;
}

int64_t PlanSpace::localBytes(const PlanState& s) const {
  auto bytes = static_cast<double>(dtypeBytes(dtype));
  for (size_t d = 0; d < s.dims.size(); ++d) {
    int64_t k = 1;
    for (Part p : s.dims[d])
      if (p >= 0) k *= atomSize[static_cast<size_t>(p)];
    bytes *= static_cast<double>((shape[d].size + k - 1) / k);
  }
  return bytes < 9e18 ? static_cast<int64_t>(bytes) : std::numeric_limits<int64_t>::max();
}

bool PlanSpace::valid(const PlanState& s) const {
  for (size_t d = 0; d < s.dims.size(); ++d) {
    const PartRow& row = s.dims[d];
    if (std::all_of(row.begin(), row.end(), [](Part p) { return p >= 0; })) continue;
    const int64_t grid = productOf(row);
    if (grid == std::numeric_limits<int64_t>::max() || shape[d].divisor % grid != 0) return false;
  }
  return true;
}

} // namespace dtc
