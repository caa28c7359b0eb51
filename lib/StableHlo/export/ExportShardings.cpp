// Meshes and shardings as the Shardy dialect writes them.
#include "dtc/Support/Words.h"
#include "export/ExportContext.h"

namespace dtc {

static constexpr DiagKind kExportSharding{"export-sharding", "Shardy has no form for this sharding: {0}"};

std::string exportMesh(const Module& m, const Mesh& mesh) {
  std::string text = "sdy.mesh @" + std::string(m.strings[mesh.name]) + " = <[";
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    text += (i ? ", \"" : "\"") + std::string(m.strings[mesh.axes[i].name]) +
            "\"=" + std::to_string(mesh.axes[i].size);
  text += "]";
  if (!mesh.devices.empty()) {
    text += ", device_ids=[";
    for (size_t i = 0; i < mesh.devices.size(); ++i)
      text += (i ? ", " : "") + std::to_string(mesh.devices[i]);
    text += "]";
  }
  return text + ">";
}

static std::string axisText(const Module& m, const AxisRef& a) {
  std::string text = "\"" + std::string(m.strings[a.name]) + "\"";
  if (a.size != 0) text += ":(" + std::to_string(a.pre) + ")" + std::to_string(a.size);
  return text;
}

static std::string axesText(const Module& m, std::span<const AxisRef> axes) {
  return joined(axes, ", ", [&](const AxisRef& a) { return axisText(m, a); });
}

std::optional<std::string> exportSharding(const Module& m, ShardingId id, SourceRange at,
                                          Diagnostics& diags) {
  const Sharding& s = m.shardings[id];
  const Mesh& mesh = m.shardings.mesh(s.mesh);
  std::string text = "<@" + std::string(m.strings[mesh.name]) + ", [";
  for (size_t d = 0; d < s.dims.size(); ++d) {
    const DimSharding& dim = s.dims[d];
    if (dim.strided())
      return diags.fail(kExportSharding, at, "a strided shard (blocks that are sharded again)");
    std::string axes = axesText(m, dim.axes());
    if (dim.open) axes += axes.empty() ? "?" : ", ?";
    text += (d ? ", {" : "{") + axes + "}";
    if (dim.priority >= 0) text += "p" + std::to_string(dim.priority);
  }
  text += "]";
  if (!s.replicated.empty()) text += ", replicated={" + axesText(m, s.replicated) + "}";
  std::vector<AxisRef> pending;
  for (const PendingAxis& p : s.pending) {
    if (p.kind != PendingKind::Sum)
      return diags.fail(kExportSharding, at,
                        "only sums can be unreduced in Shardy, not " + std::string(pendingName(p.kind)));
    pending.push_back(p.axis);
  }
  if (!pending.empty()) text += ", unreduced={" + axesText(m, pending) + "}";
  return text + ">";
}

std::optional<std::string> shardySharding(const Module& m, ShardingId id) {
  Diagnostics none;
  return exportSharding(m, id, {}, none);
}

} // namespace dtc
