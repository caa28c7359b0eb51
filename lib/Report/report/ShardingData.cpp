// Meshes and shardings as data of the page.
#include "dtc/IR/text/Text.h"
#include "report/GlobalData.h"

namespace dtc {

namespace {

ReportValue axisData(const AxisRef& a, const StringTable& strings) {
  std::string name(strings[a.name]);
  if (a.isFullAxis()) return name;
  return {{"axis", std::move(name)}, {"pre", a.pre}, {"size", a.size}};
}

} // namespace

ReportValue shardingData(const Module& m, ShardingId id) {
  const Sharding& s = m.shardings[id];
  ReportValue dims = ReportValue::array(), pending = ReportValue::array();
  for (const DimSharding& d : s.dims) {
    ReportValue parts = ReportValue::array();
    for (const DimPart& p : d.parts)
      parts.push_back(p.isAxis() ? axisData(p.axis, m.strings) : ReportValue{{"blocks", p.blocks}});
    dims.push_back(std::move(parts));
  }
  for (const PendingAxis& p : s.pending)
    pending.push_back({{"axis", axisData(p.axis, m.strings)}, {"kind", std::string(pendingName(p.kind))}});
  ReportValue out = {{"text", printSharding(m, id)}, {"mesh", s.mesh.index}, {"dims", std::move(dims)}};
  if (!pending.empty()) out["pending"] = std::move(pending);
  return out;
}

ReportValue meshData(const Module& m) {
  ReportValue out = ReportValue::array();
  for (uint32_t i = 0; i < m.shardings.numMeshes(); ++i) {
    const Mesh& mesh = m.shardings.mesh(MeshId(i));
    ReportValue axes = ReportValue::array();
    for (const MeshAxis& a : mesh.axes)
      axes.push_back({{"name", std::string(m.strings[a.name])}, {"size", a.size}});
    ReportValue one = {
        {"name", std::string(m.strings[mesh.name])}, {"axes", axes}, {"devices", mesh.numDevices()}};
    if (!mesh.devices.empty()) one["order"] = mesh.devices;
    out.push_back(std::move(one));
  }
  return out;
}

} // namespace dtc
