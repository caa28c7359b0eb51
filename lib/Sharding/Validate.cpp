// Validates a sharding and describes what is wrong.
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/Words.h"
#include <unordered_map>

namespace dtc {
namespace {

std::string axisNames(const Mesh& mesh, const StringTable& strings) {
  const std::string s = joined(mesh.axes, ", ", [&](const MeshAxis& a) { return strings[a.name]; });
  return s.empty() ? "it has no axes" : "its axes are " + s;
}

std::string validateAxis(const AxisRef& a, const Mesh& mesh, const StringTable& strings) {
  const int i = mesh.axisIndex(a.name);
  if (i < 0)
    return "mesh @" + std::string(strings[mesh.name]) + " has no axis '" + std::string(strings[a.name]) +
           "': " + axisNames(mesh, strings);
  if (a.isFullAxis()) return "";
  const int64_t fullSize = mesh.axes[static_cast<size_t>(i)].size;
  if (a.pre == 1 && a.size == fullSize) return "";
  const std::string what = "sub-axis '" + printAxis(a, strings) + "' ";
  if (a.size < 2) return what + "has size " + std::to_string(a.size) + ": expected at least 2";
  auto product = checkedMul(a.pre, a.size);
  if (a.pre < 1 || !product || fullSize % *product != 0)
    return what + "does not divide its axis: " + std::to_string(a.pre) + " * " + std::to_string(a.size) +
           " does not divide the " + std::to_string(fullSize) + " devices of axis '" +
           std::string(strings[a.name]) + "'";
  return "";
}

// Every axis that the sharding names, as written.
std::vector<AxisRef> allAxes(const Sharding& s) {
  std::vector<AxisRef> list;
  for (const DimSharding& d : s.dims)
    for (const DimPart& p : d.parts)
      if (p.isAxis()) list.push_back(p.axis);
  for (const PendingAxis& p : s.pending) list.push_back(p.axis);
  list.insert(list.end(), s.replicated.begin(), s.replicated.end());
  return list;
}

std::string repeatedAxis(const Sharding& s, const Mesh& mesh, const StringTable& strings) {
  std::unordered_map<StrId, std::vector<AxisRef>> seen; // by name
  for (const AxisRef& a : allAxes(s)) {
    std::vector<AxisRef>& before = seen[a.name];
    for (const AxisRef& b : before) {
      if (!overlaps(a, b, mesh)) continue;
      if (a == b) return "axis '" + printAxis(a, strings) + "' is used twice in this sharding";
      return "'" + printAxis(b, strings) + "' and '" + printAxis(a, strings) + "' overlap";
    }
    before.push_back(a);
  }
  return "";
}

std::string validatePending(const Sharding& s) {
  auto group = [](PendingKind k) { return k == PendingKind::Avg ? PendingKind::Sum : k; };
  for (const PendingAxis& p : s.pending)
    if (group(p.kind) != group(s.pending.front().kind))
      return "a value cannot be pending by '" + std::string(pendingName(s.pending.front().kind)) +
             "' and by '" + std::string(pendingName(p.kind)) + "' at once: reduce one of them first";
  return "";
}

// A strided list requires equal blocks.
std::string validateStrides(const DimSharding& d, size_t index, Dim size, const Mesh& mesh,
                            const DimTable& dims, const StringTable& strings) {
  std::optional<int64_t> grid = 1;
  for (const DimPart& p : d.parts) {
    if (!p.isAxis() && p.blocks < 1) return "expected a number of blocks of at least 1";
    grid = grid ? checkedMul(*grid, p.isAxis() ? mesh.axisSize(p.axis) : p.blocks) : grid;
  }
  if (!d.strided()) return "";
  const DimExpr e = dims.expr(size);
  if (grid && e.coefficient % *grid == 0) return "";
  return "dim " + std::to_string(index) + " is sharded in " +
         (grid ? std::to_string(*grid) : "more than 2^63") +
         " equal blocks, but they do not divide its size " + printDim(size, dims, strings);
}

} // namespace

std::string validateSharding(const Sharding& s, const Mesh& mesh, std::span<const Dim> globalShape,
                             const DimTable& dims, const StringTable& strings) {
  if (s.dims.size() != globalShape.size())
    return "the sharding has " + std::to_string(s.dims.size()) +
           (s.dims.size() == 1 ? " entry" : " entries") + ", the tensor has " +
           std::to_string(globalShape.size()) + (globalShape.size() == 1 ? " dim" : " dims");
  for (const AxisRef& a : allAxes(s))
    if (std::string p = validateAxis(a, mesh, strings); !p.empty()) return p;
  if (std::string p = repeatedAxis(s, mesh, strings); !p.empty()) return p;
  if (std::string p = validatePending(s); !p.empty()) return p;
  for (size_t i = 0; i < s.dims.size(); ++i)
    if (std::string p = validateStrides(s.dims[i], i, globalShape[i], mesh, dims, strings); !p.empty())
      return p;
  return "";
}

} // namespace dtc
