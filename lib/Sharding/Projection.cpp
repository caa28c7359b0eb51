#include "dtc/Sharding/Projection.h"
#include "dtc/Sharding/Canonical.h"
#include <algorithm>

namespace dtc {

const FactorEntry* TensorProjection::find(uint16_t factor) const {
  for (const FactorEntry& e : entries)
    if (e.factor == factor) return &e;
  return nullptr;
}

static int64_t partSize(const DimPart& p, const Mesh& mesh) {
  return p.isAxis() ? mesh.axisSize(p.axis) : p.blocks;
}

int64_t partsProduct(std::span<const DimPart> parts, const Mesh& mesh) {
  int64_t product = 1;
  for (const DimPart& p : parts) product *= partSize(p, mesh);
  return product;
}

void canonicalizeParts(PartList& parts, const Mesh& mesh) {
  PartList out;
  for (const DimPart& p : parts) {
    if (!p.isAxis()) {
      if (p.blocks == 1) continue;
      if (!out.empty() && !out.back().isAxis()) {
        out.back().blocks *= p.blocks;
        continue;
      }
    } else if (isUnit(p.axis, mesh)) {
      continue;
    } else if (!out.empty() && out.back().isAxis() && out.back().axis.name == p.axis.name &&
               !p.axis.isFullAxis()) {
      AxisRef& last = out.back().axis;
      if (!last.isFullAxis() && last.pre * last.size == p.axis.pre) { // a:(1)2, a:(2)2 -> a:(1)4
        last = mesh.canonical({last.name, last.pre, last.size * p.axis.size});
        continue;
      }
    }
    out.push_back(p);
    if (p.isAxis()) out.back().axis = mesh.canonical(p.axis);
  }
  // a factor that is not sharded further is dropped
  while (!out.empty() && !out.back().isAxis()) out.pop_back();
  parts = std::move(out);
}

bool disjoint(std::span<const DimPart> a, std::span<const DimPart> b, const Mesh& mesh) {
  for (const DimPart& x : a)
    for (const DimPart& y : b)
      if (x.isAxis() && y.isAxis() && overlaps(x.axis, y.axis, mesh)) return false;
  return true;
}

// The common leading axis, if both begin with the same axis or one with a major sub-axis of the other.
static std::optional<AxisRef> commonMajor(const AxisRef& a, const AxisRef& b, const Mesh& mesh) {
  if (a.name != b.name || a.pre != b.pre) return std::nullopt;
  int64_t sa = mesh.axisSize(a), sb = mesh.axisSize(b);
  int64_t small = std::min(sa, sb), large = std::max(sa, sb);
  if (large % small != 0) return std::nullopt;
  return mesh.canonical({a.name, a.pre, small});
}

PartList commonPrefix(const PartList& a, const PartList& b, const Mesh& mesh) {
  PartList out;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) {
      out.push_back(a[i]);
      continue;
    }
    if (a[i].isAxis() && b[i].isAxis())
      if (auto major = commonMajor(a[i].axis, b[i].axis, mesh)) out.push_back({*major, 0});
    break;
  }
  return out;
}

bool takeMinor(std::vector<AxisRef>& list, const AxisRef& a, const Mesh& mesh) {
  const int64_t size = mesh.axisSize(a);
  if (size == 1) return true;
  if (list.empty()) return false;
  AxisRef& last = list.back();
  const int64_t have = mesh.axisSize(last);
  if (last.name != a.name || a.pre * size != last.pre * have || have % size != 0) return false;
  last = mesh.canonical({last.name, last.pre, have / size});
  if (have == size) list.pop_back();
  return true;
}

bool isPrefix(const PartList& prefix, const PartList& list, const Mesh& mesh) {
  return commonPrefix(prefix, list, mesh) == prefix;
}

// Takes the parts from the front of `rest` that `entry`, a factor of size `size`, can hold. The minor-most
// factor takes all. Returns false if the next part crosses the factor's end and cannot be split.
static bool takeParts(FactorEntry& entry, int64_t size, PartList& rest, const Mesh& mesh) {
  int64_t left = size;
  size_t taken = 0;
  bool fits = true;
  while (taken < rest.size()) {
    if (entry.minorMost) {
      entry.parts.push_back(rest[taken++]);
      continue;
    }
    if (left == 1) break;
    DimPart& p = rest[taken];
    int64_t s = partSize(p, mesh);
    if (left % s == 0) {
      entry.parts.push_back(p);
      left /= s;
      ++taken;
      continue;
    }
    if (s % left != 0) {
      fits = false;
      break;
    }
    // the axis is longer than the factor: its major part belongs here, its minor part to the next factor
    if (p.isAxis()) {
      entry.parts.push_back({mesh.canonical({p.axis.name, p.axis.pre, left}), 0});
      p.axis = {p.axis.name, p.axis.pre * left, s / left};
    } else {
      p.blocks /= left;
    }
    left = 1;
  }
  rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(taken));
  if (fits && !rest.empty() && left != 1) fits = false;
  while (!entry.parts.empty() && !entry.parts.back().isAxis()) entry.parts.pop_back();
  return fits;
}

static void projectDim(const DimMap& map, uint16_t dim, const Rule& rule, const DimSharding& sharding,
                       const Mesh& mesh, TensorProjection& out) {
  const std::span<const Term> terms = map.sharded();
  if (terms.empty()) {
    if (sharding.isSharded()) out.overflow.push_back({dim, sharding.parts});
    return;
  }
  PartList rest = sharding.parts;
  bool blocked = false;
  size_t first = out.entries.size();
  for (size_t i = 0; i < terms.size(); ++i) {
    FactorEntry& e = out.entries.emplace_back();
    e.factor = terms[i].factor;
    e.dim = dim;
    e.minorMost = i + 1 == terms.size();
    const Dim size = rule.factors[e.factor].size;
    if (!blocked && !rest.empty()) {
      if (e.minorMost || size.isStatic()) {
        if (!takeParts(e, e.minorMost ? 1 : size.value(), rest, mesh)) blocked = true;
      } else { // a symbolic factor: unknown how much of the list it holds
        blocked = true;
      }
    }
  }
  if (!rest.empty()) out.overflow.push_back({dim, rest});
  // A factor may be sharded further only while no minor factor is sharded: the list is ordered.
  bool minorSharded = blocked || !rest.empty();
  for (size_t i = out.entries.size(); i-- > first;) {
    out.entries[i].open = sharding.open && !minorSharded;
    minorSharded = minorSharded || !out.entries[i].parts.empty();
  }
}

TensorProjection projectDims(const TensorMap& map, const Rule& rule, std::span<const DimSharding> dims,
                             const Mesh& mesh) {
  TensorProjection out;
  projectDims(map, rule, dims, mesh, out);
  return out;
}

void projectDims(const TensorMap& map, const Rule& rule, std::span<const DimSharding> dims, const Mesh& mesh,
                 TensorProjection& out) {
  out.entries.reserve(dims.size());
  for (size_t d = 0; d < dims.size(); ++d)
    projectDim(map.dims[d], static_cast<uint16_t>(d), rule, dims[d], mesh, out);
}

std::optional<std::vector<DimSharding>> unprojectDims(const TensorMap& map, const Rule& rule,
                                                      std::span<const PartList> perFactor, const Mesh& mesh) {
  std::vector<DimSharding> out(map.dims.size());
  for (size_t d = 0; d < map.dims.size(); ++d) {
    const std::span<const Term> terms = map.dims[d].sharded();
    PartList& parts = out[d].parts;
    for (size_t i = 0; i < terms.size(); ++i) {
      const PartList& mine = perFactor[terms[i].factor];
      parts.insert(parts.end(), mine.begin(), mine.end());
      bool minorSharded = false;
      for (size_t j = i + 1; j < terms.size(); ++j)
        minorSharded = minorSharded || !perFactor[terms[j].factor].empty();
      const Dim size = rule.factors[terms[i].factor].size;
      bool minorMost = i + 1 == terms.size();
      if (minorMost || (mine.empty() && !minorSharded)) continue;
      if (!size.isStatic()) return std::nullopt;
      int64_t product = partsProduct(mine, mesh);
      if (size.value() % product != 0) return std::nullopt;
      if (minorSharded && size.value() > product) parts.push_back({{}, size.value() / product});
    }
    canonicalizeParts(parts, mesh);
    // A strided list must divide the dim (Sharding.h, localDim).
    if (out[d].strided()) {
      int64_t size = 1;
      for (const Term& t : terms) {
        const Dim factor = rule.factors[t.factor].size;
        if (!factor.isStatic()) return std::nullopt;
        size *= factor.value();
      }
      if (size % partsProduct(parts, mesh) != 0) return std::nullopt;
    }
  }
  return out;
}

} // namespace dtc
