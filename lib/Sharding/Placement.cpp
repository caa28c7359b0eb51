// The per-axis view (PyTorch's placements) and the text form of both views.
#include "dtc/Sharding/Projection.h"
#include "dtc/Sharding/Sharding.h"
#include <algorithm>

namespace dtc {
// Adds one more axis to a dim's list: `blocks` blocks of the remaining shard, each sharded by `axis`. What
// remains of the dim, major to minor, is the list's factors and then everything after the list. False if the
// sizes do not divide.
static bool applyShard(PartList& parts, int64_t blocks, const AxisRef& axis, const Mesh& mesh) {
  PartList out;
  size_t i = 0;
  int64_t skip = blocks;
  for (; i < parts.size() && (skip > 1 || parts[i].isAxis()); ++i) {
    if (parts[i].isAxis()) {
      out.push_back(parts[i]);
      continue;
    }
    int64_t& left = parts[i].blocks;
    const int64_t s = std::min(skip, left);
    if (skip % s != 0 || left % s != 0) return false;
    out.push_back({{}, s});
    skip /= s;
    left /= s;
    if (left > 1) break; // the axis begins inside this factor
  }
  if (skip > 1) out.push_back({{}, skip});
  int64_t remaining = mesh.axisSize(axis), done = 1;
  auto takeAxis = [&](int64_t size) {
    out.push_back({mesh.canonical({axis.name, done, size}), 0});
    done *= size;
    remaining /= size;
  };
  for (; i < parts.size() && remaining > 1; ++i) {
    if (parts[i].isAxis()) {
      out.push_back(parts[i]);
      continue;
    }
    const int64_t left = parts[i].blocks, c = std::min(remaining, left);
    if (remaining % c != 0 || left % c != 0) return false;
    takeAxis(c);
    if (left > c) out.push_back({{}, left / c});
  }
  if (remaining > 1 || done == 1) takeAxis(remaining);
  out.insert(out.end(), parts.begin() + static_cast<ptrdiff_t>(i), parts.end());
  canonicalizeParts(out, mesh);
  parts = std::move(out);
  return true;
}

static std::string printDimSharding(const DimSharding& d, const StringTable& strings) {
  std::string s;
  for (const DimPart& p : d.parts) {
    if (!s.empty()) s += ", ";
    s += p.isAxis() ? printAxis(p.axis, strings) : std::to_string(p.blocks);
  }
  if (d.parts.size() > 1) s = "(" + s + ")";
  if (d.open)
    s += '?';
  else if (s.empty())
    s = "_";
  if (d.priority >= 0) s += " p" + std::to_string(d.priority);
  return s;
}

static std::string printDimStyle(const Sharding& s, const StringTable& strings) {
  std::string out = "{";
  for (size_t i = 0; i < s.dims.size(); ++i) out += (i ? ", " : "") + printDimSharding(s.dims[i], strings);
  bool first = true;
  auto clause = [&](std::string_view kind, const std::vector<AxisRef>& axes) {
    if (axes.empty()) return;
    out += first ? (s.dims.empty() ? "| " : " | ") : ", ";
    first = false;
    out += kind;
    for (size_t i = 0; i < axes.size(); ++i) out += (i ? ", " : "(") + printAxis(axes[i], strings);
    out += ')';
  };
  for (int k = static_cast<int>(PendingKind::Sum); k <= static_cast<int>(PendingKind::All); ++k) {
    std::vector<AxisRef> axes;
    for (const PendingAxis& p : s.pending)
      if (p.kind == static_cast<PendingKind>(k)) axes.push_back(p.axis);
    clause(pendingName(static_cast<PendingKind>(k)), axes);
  }
  clause("rep", s.replicated);
  return out + '}';
}

std::optional<Sharding> fromPlacements(std::span<const Placement> placements, MeshId id, const Mesh& mesh,
                                       size_t rank) {
  if (placements.size() != mesh.axes.size()) return std::nullopt;
  Sharding s;
  s.mesh = id;
  s.dims.resize(rank);
  for (size_t i = 0; i < placements.size(); ++i) {
    const Placement& p = placements[i];
    const AxisRef axis{mesh.axes[i].name};
    if (p.kind == Placement::P) s.pending.push_back({axis, p.pending});
    if (p.kind != Placement::S) continue;
    if (p.dim < 0 || static_cast<size_t>(p.dim) >= rank || p.blocks < 1) return std::nullopt;
    if (!applyShard(s.dims[static_cast<size_t>(p.dim)].parts, p.blocks, axis, mesh)) return std::nullopt;
  }
  return s;
}

std::optional<std::vector<Placement>> toPlacements(const Sharding& s, const Mesh& mesh) {
  if (!s.replicated.empty()) return std::nullopt;
  std::vector<Placement> out(mesh.axes.size());
  for (const PendingAxis& p : s.pending) {
    if (!p.axis.isFullAxis()) return std::nullopt;
    Placement& placement = out[static_cast<size_t>(mesh.axisIndex(p.axis.name))];
    placement.kind = Placement::P;
    placement.pending = p.kind;
  }
  for (size_t d = 0; d < s.dims.size(); ++d) {
    if (s.dims[d].open || s.dims[d].priority >= 0) return std::nullopt;
    const PartList& parts = s.dims[d].parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].isAxis()) continue;
      if (!parts[i].axis.isFullAxis()) return std::nullopt;
      const int mine = mesh.axisIndex(parts[i].axis.name);
      // Not yet sharded and major to it: factors, and axes that are later in the mesh.
      int64_t blocks = 1;
      for (size_t j = 0; j < i; ++j) {
        if (parts[j].isAxis() && mesh.axisIndex(parts[j].axis.name) < mine) continue;
        auto product = checkedMul(blocks, parts[j].isAxis() ? mesh.axisSize(parts[j].axis) : parts[j].blocks);
        if (!product) return std::nullopt;
        blocks = *product;
      }
      Placement& placement = out[static_cast<size_t>(mine)];
      placement.kind = Placement::S;
      placement.dim = static_cast<int>(d);
      placement.blocks = blocks;
    }
  }
  auto back = fromPlacements(out, s.mesh, mesh, s.dims.size());
  if (!back || back->dims != s.dims) return std::nullopt;
  return out;
}

std::string printSharding(const Sharding& s, const Mesh& mesh, const StringTable& strings,
                          ShardingStyle style) {
  if (style == ShardingStyle::Dim) return printDimStyle(s, strings);
  auto placements = toPlacements(s, mesh);
  if (!placements) return printDimStyle(s, strings);
  std::string out = "[";
  for (size_t i = 0; i < placements->size(); ++i) {
    const Placement& p = (*placements)[i];
    if (i) out += ", ";
    if (p.kind == Placement::R) out += 'R';
    if (p.kind == Placement::P) out += "P(" + std::string(pendingName(p.pending)) + ")";
    if (p.kind == Placement::S)
      out += "S(" + std::to_string(p.dim) + (p.blocks > 1 ? ", " + std::to_string(p.blocks) : "") + ")";
  }
  return out + ']';
}

} // namespace dtc
