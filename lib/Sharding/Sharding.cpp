#include "dtc/Sharding/Canonical.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>
#include <array>
#include <numeric>

namespace dtc {
namespace {

constexpr std::array<std::string_view, 8> kPendingNames = {"none", "sum", "avg", "prod",
                                                           "max",  "min", "any", "all"};

int64_t sizeOfPart(const DimPart& p, const Mesh& mesh) {
  return p.isAxis() ? mesh.axisSize(p.axis) : p.blocks;
}

// Mesh order; sub-axes of one axis major first.
bool meshOrder(const AxisRef& a, const AxisRef& b, const Mesh& mesh) {
  const int i = mesh.axisIndex(a.name), j = mesh.axisIndex(b.name);
  return i != j ? i < j : a.pre < b.pre;
}

// Joins consecutive sub-axes: a:(1)2, a:(2)2 -> a:(1)4.
bool joins(const AxisRef& a, const AxisRef& b) {
  return a.name == b.name && !a.isFullAxis() && !b.isFullAxis() && a.pre * a.size == b.pre;
}

AxisRef& axisOf(AxisRef& a) { return a; }
AxisRef& axisOf(PendingAxis& p) { return p.axis; }
bool sameKind(const AxisRef&, const AxisRef&) { return true; }
bool sameKind(const PendingAxis& a, const PendingAxis& b) { return a.kind == b.kind; }

// Sorts in mesh order, joins sub-axes, drops axes of size 1. `Entry`: AxisRef or PendingAxis.
template <class Entry> void canonicalizeAxes(std::vector<Entry>& list, const Mesh& mesh) {
  std::erase_if(list, [&](Entry& e) { return isUnit(axisOf(e), mesh); });
  for (Entry& e : list) axisOf(e) = mesh.canonical(axisOf(e));
  std::ranges::sort(list, [&](Entry a, Entry b) { return meshOrder(axisOf(a), axisOf(b), mesh); });
  std::vector<Entry> out;
  for (Entry& e : list) {
    if (!out.empty() && sameKind(out.back(), e) && joins(axisOf(out.back()), axisOf(e))) {
      AxisRef& last = axisOf(out.back());
      last = mesh.canonical({last.name, last.pre, last.size * axisOf(e).size});
    } else {
      out.push_back(e);
    }
  }
  list = std::move(out);
}

size_t hashOf(const Sharding& s) {
  size_t h = s.mesh.index;
  auto mix = [&](int64_t v) { h = (h ^ static_cast<uint64_t>(v)) * 0x9E3779B97F4A7C15ull; };
  auto mixAxis = [&](const AxisRef& a) { mix(a.name.index), mix(a.pre), mix(a.size); };
  for (const DimSharding& d : s.dims) {
    mix(d.open), mix(d.priority), mix(static_cast<int64_t>(d.parts.size()));
    for (const DimPart& p : d.parts) mixAxis(p.axis), mix(p.blocks);
  }
  for (const PendingAxis& p : s.pending) mixAxis(p.axis), mix(static_cast<int64_t>(p.kind));
  mix(-1);
  for (const AxisRef& a : s.replicated) mixAxis(a);
  return h;
}

} // namespace

void canonicalizePending(std::vector<PendingAxis>& pending, const Mesh& mesh) {
  canonicalizeAxes(pending, mesh);
}

void canonicalize(Sharding& s, const Mesh& mesh) {
  for (DimSharding& d : s.dims) {
    canonicalizeParts(d.parts, mesh);
    if (!d.isSharded() && !d.open) d.priority = -1; // the priority was of axes of size 1
  }
  canonicalizeAxes(s.pending, mesh);
  canonicalizeAxes(s.replicated, mesh);
}

std::string_view pendingName(PendingKind k) { return kPendingNames[static_cast<size_t>(k)]; }

std::optional<PendingKind> parsePendingKind(std::string_view name) {
  for (size_t i = 1; i < kPendingNames.size(); ++i)
    if (kPendingNames[i] == name) return static_cast<PendingKind>(i);
  return std::nullopt;
}

bool DimSharding::strided() const {
  return std::ranges::any_of(parts, [](const DimPart& p) { return !p.isAxis(); });
}

std::vector<AxisRef> DimSharding::axes() const {
  std::vector<AxisRef> list;
  for (const DimPart& p : parts)
    if (p.isAxis()) list.push_back(p.axis);
  return list;
}

bool Sharding::closed() const {
  return std::ranges::none_of(dims, [](const DimSharding& d) { return d.open; });
}
bool Sharding::anySharded() const {
  return std::ranges::any_of(dims, [](const DimSharding& d) { return d.isSharded(); });
}
PendingKind Sharding::pendingKind() const {
  return pending.empty() ? PendingKind::None : pending.front().kind;
}

// The cells of the grid (product of axes and factors, row-major) that differ only in the factors, in
// row-major order.
std::vector<Interval> dimShards(const DimSharding& d, const Mesh& mesh, int64_t n, int64_t coordinate) {
  int64_t grid = 1, blocks = 1;
  for (const DimPart& p : d.parts) {
    grid *= sizeOfPart(p, mesh);
    if (!p.isAxis()) blocks *= p.blocks;
  }
  std::vector<Interval> out;
  for (int64_t b = 0; b < blocks; ++b) {
    int64_t cell = 0, stride = 1, rest = b;
    for (size_t i = d.parts.size(); i-- > 0;) {
      const DimPart& p = d.parts[i];
      const int64_t size = sizeOfPart(p, mesh);
      cell += stride * (p.isAxis() ? mesh.indexAlong(p.axis, coordinate) : rest % size);
      if (!p.isAxis()) rest /= size;
      stride *= size;
    }
    const Interval shard = shardInterval(n, grid, cell);
    if (!out.empty() && out.back().end == shard.begin)
      out.back().end = shard.end;
    else
      out.push_back(shard);
  }
  return out;
}

int64_t dimShardSize(const DimSharding& d, const Mesh& mesh, int64_t n, int64_t coordinate) {
  const int64_t grid = partsProduct(d.parts, mesh);
  if (n % grid == 0) {
    for (const DimPart& p : d.parts)
      if (p.isAxis()) n /= mesh.axisSize(p.axis);
    return n;
  }
  int64_t size = 0;
  for (const Interval& i : dimShards(d, mesh, n, coordinate)) size += i.size();
  return size;
}

std::vector<int64_t> localShape(const Sharding& s, const Mesh& mesh, std::span<const int64_t> globalShape,
                                int64_t coordinate) {
  std::vector<int64_t> shape(globalShape.size());
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = dimShardSize(s.dims[i], mesh, globalShape[i], coordinate);
  return shape;
}

std::optional<Dim> localDim(const DimSharding& d, const Mesh& mesh, Dim global, DimTable& dims) {
  if (!d.isSharded()) return global;
  DimExpr e = dims.expr(global);
  if (!e.axes.empty()) return std::nullopt; // a shard is not sharded further
  if (d.strided()) {
    if (e.coefficient % partsProduct(d.parts, mesh) != 0) return std::nullopt;
    e.coefficient /= mesh.sizeOf(d.axes());
    return dims.intern(std::move(e));
  }
  e.axes = d.axes();
  return canonicalShard(std::move(e), mesh, dims);
}

// Exact for every n: if k divides n, floor(i*n/(k*m)) at i = p*m + j is p*(n/k) + floor(j*(n/k)/m).
void divideOut(DimExpr& e, const Mesh& mesh) {
  PartList parts;
  for (const AxisRef& a : e.axes) parts.push_back({a, 0});
  canonicalizeParts(parts, mesh); // a factor may divide two joined sub-axes although it divides neither
  e.axes = DimSharding{std::move(parts)}.axes();
  size_t even = 0; // the number of axes that shard evenly
  for (; even < e.axes.size(); ++even) {
    AxisRef& a = e.axes[even];
    const int64_t size = mesh.axisSize(a), part = std::gcd(e.coefficient, size);
    e.coefficient /= part;
    if (part == size) continue;
    a = mesh.canonical({a.name, a.pre * part, size / part});
    break;
  }
  e.axes.erase(e.axes.begin(), e.axes.begin() + static_cast<ptrdiff_t>(even));
}

Dim canonicalShard(DimExpr e, const Mesh& mesh, DimTable& dims) {
  divideOut(e, mesh);
  if (e.axes.empty() || e.axes[0].pre == 1) return dims.intern(std::move(e));
  // 3/a:(2)2 is written as 6/a, sharded along a, unless the rest names the major part of the axis.
  const AxisRef first = e.axes[0], major{first.name, 1, first.pre};
  const bool free = std::none_of(e.axes.begin() + 1, e.axes.end(),
                                 [&](const AxisRef& a) { return overlaps(a, major, mesh); });
  if (const auto global = checkedMul(e.coefficient, first.pre); global && free) {
    e.coefficient = *global;
    e.axes[0] = mesh.canonical({first.name, 1, first.pre * first.size});
  }
  return dims.intern(std::move(e));
}

Dim canonicalShard(Dim local, const Mesh& mesh, DimTable& dims) {
  DimExpr e = dims.expr(local);
  divideOut(e, mesh);
  return dims.intern(std::move(e));
}

ShardingId ShardingTable::intern(Sharding s) {
  if (s.mesh.valid()) canonicalize(s, mesh(s.mesh));
  const auto next = static_cast<uint32_t>(storage_.size());
  const uint32_t id = index_.findOrAdd(hashOf(s), next, [&](uint32_t i) { return storage_[i] == s; });
  if (id == next) storage_.push_back(std::move(s));
  return ShardingId(id);
}

MeshId ShardingTable::addMesh(Mesh m) {
  meshes_.push_back(std::move(m));
  return MeshId(numMeshes() - 1);
}

MeshId ShardingTable::findMesh(StrId name) const {
  for (uint32_t i = 0; i < meshes_.size(); ++i)
    if (meshes_[i].name == name) return MeshId(i);
  return {};
}

ShardingId ShardingTable::replicated(MeshId mesh, size_t rank) {
  Sharding s;
  s.mesh = mesh;
  s.dims.resize(rank);
  return intern(std::move(s));
}

} // namespace dtc
