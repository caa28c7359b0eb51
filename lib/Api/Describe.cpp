#include "dtc/Api/Describe.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Session/ArgumentSizes.h"

namespace dtc {

static std::string textAttr(const Module& m, const AttrList& attrs, std::string_view name) {
  const StrId key = m.strings.find(name);
  const AttrId id = key.valid() ? findAttr(attrs, key) : AttrId();
  return id.valid() ? std::string(m.strings[m.attrs[id].text]) : std::string();
}

static std::string shardingText(const Module& m, ShardingId id) {
  if (!id || m.shardings[id].fullyReplicated()) return {};
  return printSharding(m.shardings[id], m.shardings.meshOf(id), m.strings, ShardingStyle::Dim);
}

ProgramInfo describeProgram(const Module& m, FuncId entry, const std::vector<bool>& kept) {
  ProgramInfo info;
  const Function& f = m[entry];
  for (size_t i = 0; i < f.args.size(); ++i) {
    const FuncArg& a = f.args[i];
    const Type& type = globalTypeOf(m, a);
    info.arguments.push_back({std::string(m.strings[m[a.value].name]), textAttr(m, a.attrs, "name"),
                              type.dtype, type.staticShape(),
                              shardingText(m, a.globalType ? m[a.value].sharding : ShardingId()), !kept[i]});
  }
  for (size_t i = 0; i < f.results.size(); ++i) {
    const FuncResult& r = f.results[i];
    const Type& type = globalTypeOf(m, r);
    info.results.push_back({r.label ? std::string(m.strings[r.label]) : std::to_string(i),
                            textAttr(m, r.attrs, "name"), type.dtype, type.staticShape(),
                            shardingText(m, r.globalType ? r.sharding : ShardingId())});
  }
  for (auto [result, argument] : carriedResults(m, entry)) {
    info.arguments[argument].carried = static_cast<int64_t>(result);
    info.results[result].carried = static_cast<int64_t>(argument);
  }
  const Mesh mesh = meshValueOf(m, entry);
  if (mesh.name) info.mesh.name = m.strings[mesh.name];
  for (const MeshAxis& axis : mesh.axes) info.mesh.axes.emplace_back(m.strings[axis.name], axis.size);
  info.mesh.devices = mesh.devices;
  info.mesh.numDevices = mesh.numDevices();
  return info;
}

} // namespace dtc
