#include "dtc/Sharding/Sharding.h"
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

// The order of the mesh; sub-axes of one axis major first.
bool meshOrder(const AxisRef& a, const AxisRef& b, const Mesh& mesh) {
  const int i = mesh.axisIndex(a.name), j = mesh.axisIndex(b.name);
  return i != j ? i < j : a.pre < b.pre;
}

// Joins sub-axes that continue each other: a:(1)2, a:(2)2 -> a:(1)4.
bool joins(const AxisRef& a, const AxisRef& b) {
  return a.name == b.name && !a.whole() && !b.whole() && a.pre * a.size == b.pre;
}

void canonicalize(Sharding& s, const Mesh& mesh) {
  for (DimSharding& d : s.dims) canonicalizeParts(d.parts, mesh);
  std::vector<PendingAxis> pending;
  for (PendingAxis& p : s.pending) p.axis = mesh.canonical(p.axis);
  std::sort(s.pending.begin(), s.pending.end(),
            [&](auto& a, auto& b) { return meshOrder(a.axis, b.axis, mesh); });
  for (const PendingAxis& p : s.pending) {
    if (!pending.empty() && pending.back().kind == p.kind && joins(pending.back().axis, p.axis)) {
      AxisRef& last = pending.back().axis;
      last = mesh.canonical({last.name, last.pre, last.size * p.axis.size});
    } else {
      pending.push_back(p);
    }
  }
  s.pending = std::move(pending);
  std::vector<AxisRef> replicated;
  for (AxisRef& a : s.replicated) a = mesh.canonical(a);
  std::sort(s.replicated.begin(), s.replicated.end(),
            [&](auto& a, auto& b) { return meshOrder(a, b, mesh); });
  for (const AxisRef& a : s.replicated) {
    if (!replicated.empty() && joins(replicated.back(), a)) {
      AxisRef& last = replicated.back();
      last = mesh.canonical({last.name, last.pre, last.size * a.size});
    } else {
      replicated.push_back(a);
    }
  }
  s.replicated = std::move(replicated);
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

std::string_view pendingName(PendingKind k) { return kPendingNames[static_cast<size_t>(k)]; }

std::optional<PendingKind> parsePendingKind(std::string_view name) {
  for (size_t i = 1; i < kPendingNames.size(); ++i)
    if (kPendingNames[i] == name) return static_cast<PendingKind>(i);
  return std::nullopt;
}

bool DimSharding::strided() const {
  return std::any_of(parts.begin(), parts.end(), [](const DimPart& p) { return !p.isAxis(); });
}

std::vector<AxisRef> DimSharding::axes() const {
  std::vector<AxisRef> list;
  for (const DimPart& p : parts)
    if (p.isAxis()) list.push_back(p.axis);
  return list;
}

bool Sharding::closed() const {
  return std::none_of(dims.begin(), dims.end(), [](const DimSharding& d) { return d.open; });
}
bool Sharding::anyCut() const {
  return std::any_of(dims.begin(), dims.end(), [](const DimSharding& d) { return d.cut(); });
}
PendingKind Sharding::pendingKind() const {
  return pending.empty() ? PendingKind::None : pending.front().kind;
}

// The cells of the grid (product of axes and factors, row-major) that differ in the factors only, in row-major order.
std::vector<Interval> dimPieces(const DimSharding& d, const Mesh& mesh, int64_t n, int64_t place) {
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
      cell += stride * (p.isAxis() ? mesh.indexAlong(p.axis, place) : rest % size);
      if (!p.isAxis()) rest /= size;
      stride *= size;
    }
    const Interval piece = dtc::piece(n, grid, cell);
    if (!out.empty() && out.back().end == piece.begin)
      out.back().end = piece.end;
    else
      out.push_back(piece);
  }
  return out;
}

int64_t dimPieceSize(const DimSharding& d, const Mesh& mesh, int64_t n, int64_t place) {
  const int64_t grid = partsProduct(d.parts, mesh);
  if (n % grid == 0) {
    for (const DimPart& p : d.parts)
      if (p.isAxis()) n /= mesh.axisSize(p.axis);
    return n;
  }
  int64_t size = 0;
  for (const Interval& i : dimPieces(d, mesh, n, place)) size += i.size();
  return size;
}

std::vector<int64_t> localShape(const Sharding& s, const Mesh& mesh, std::span<const int64_t> globalShape,
                                int64_t place) {
  std::vector<int64_t> shape(globalShape.size());
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = dimPieceSize(s.dims[i], mesh, globalShape[i], place);
  return shape;
}

std::optional<Dim> localDim(const DimSharding& d, const Mesh& mesh, Dim global, DimTable& dims) {
  if (!d.cut()) return global;
  DimExpr e = dims.expr(global);
  if (!e.cut.empty()) return std::nullopt; // a piece is cut no further
  PartList parts;
  for (const AxisRef& a : d.axes())
    if (mesh.axisSize(a) != 1) parts.push_back({a, 0}); // else it cuts nothing: not in the type
  canonicalizeParts(parts, mesh);
  const std::vector<AxisRef> axes = DimSharding{std::move(parts)}.axes();
  const int64_t devices = mesh.sizeOf(axes);
  if (d.strided() && e.coefficient % partsProduct(d.parts, mesh) != 0) return std::nullopt;
  if (e.coefficient % devices == 0)
    e.coefficient /= devices;
  else
    e.cut = axes;
  return dims.intern(std::move(e));
}

// Exact for every n: floor(i*n/(k*m)) at i = p*m + j is p*(n/k) + floor(j*(n/k)/m) where k divides n.
Dim normalPiece(Dim local, const Mesh& mesh, DimTable& dims) {
  if (local.isStatic() || dims.dynamic(local).cut.empty()) return local;
  DimExpr e = dims.dynamic(local);
  PartList rest;
  bool even = true; // all that is major to this axis cut evenly
  for (const AxisRef& a : e.cut) {
    const int64_t size = mesh.axisSize(a), part = even ? std::gcd(e.coefficient, size) : 1;
    e.coefficient /= part;
    even = part == size;
    if (!even) rest.push_back({mesh.canonical({a.name, a.pre * part, size / part}), 0});
  }
  canonicalizeParts(rest, mesh);
  e.cut = DimSharding{std::move(rest)}.axes();
  return dims.intern(std::move(e));
}

ShardingId ShardingTable::intern(Sharding s) {
  if (s.mesh.valid()) canonicalize(s, mesh(s.mesh));
  const size_t h = hashOf(s);
  for (auto [it, end] = byHash_.equal_range(h); it != end; ++it)
    if (storage_[it->second] == s) return ShardingId(it->second);
  const auto index = static_cast<uint32_t>(storage_.size());
  storage_.push_back(std::move(s));
  byHash_.emplace(h, index);
  return ShardingId(index);
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
