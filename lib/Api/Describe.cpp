#include "dtc/Api/Describe.h"

#include "dtc/IR/LocalShape.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include "dtc/Runtime/run/Executable.h"
#include "dtc/Session/ArgumentSizes.h"
#include "dtc/Support/Words.h"

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

std::string nameIn(const TensorArchive& archive, const TensorInfo& argument) {
  for (const std::string* name : {&argument.userName, &argument.name})
    if (!name->empty() && archive.has(*name)) return *name;
  return "";
}

Status checkMatches(const TensorArchive& archive, const ProgramInfo& info) {
  if (holdsProgram(archive.path())) return Ok{}; // its program may use none of them
  for (const TensorInfo& a : info.arguments)
    if (!nameIn(archive, a).empty()) return Ok{};
  constexpr size_t kShown = 8;
  std::vector<std::string> tensors = archive.names(), arguments;
  for (const TensorInfo& a : info.arguments) arguments.push_back("%" + a.name);
  const auto shown = [](std::vector<std::string>& names) {
    const bool more = names.size() > kShown;
    if (more) names.resize(kShown);
    return joined(names) + (more ? ", …" : "");
  };
  return inputError("'" + archive.path() + "' has no tensor that is an argument: its tensors are " +
                    shown(tensors) + ", the arguments are " + shown(arguments));
}

static std::vector<int64_t> shapeOf(const Type& type) {
  std::vector<int64_t> shape;
  for (Dim d : type.dims) shape.push_back(d.isStatic() ? d.value() : -1);
  return shape;
}

static std::vector<std::string> sizesOf(const Module& m, const Type& type) {
  std::vector<std::string> sizes;
  for (Dim d : type.dims) sizes.push_back(printDim(d, m.dims, m.strings));
  return sizes;
}

ProgramSignature signatureOf(const Module& m, FuncId entry) {
  ProgramSignature out{describeProgram(m, entry, keptArgumentsOf(m, entry)), {}, {}};
  for (const FuncArg& a : m[entry].args) out.argumentSizes.push_back(sizesOf(m, globalTypeOf(m, a)));
  for (const FuncResult& r : m[entry].results) out.resultSizes.push_back(sizesOf(m, globalTypeOf(m, r)));
  return out;
}

ProgramInfo describeProgram(const Module& m, FuncId entry, const std::vector<bool>& kept) {
  ProgramInfo info;
  const Function& f = m[entry];
  for (size_t i = 0; i < f.args.size(); ++i) {
    const FuncArg& a = f.args[i];
    const Type& type = globalTypeOf(m, a);
    info.arguments.push_back(
        {std::string(m.strings[m[a.value].name]), textAttr(m, a.attrs, "name"), type.dtype, shapeOf(type),
         shardingText(m, a.globalType || !f.spmd ? m[a.value].sharding : ShardingId()), !kept[i]});
  }
  for (size_t i = 0; i < f.results.size(); ++i) {
    const FuncResult& r = f.results[i];
    const Type& type = globalTypeOf(m, r);
    info.results.push_back({r.label ? std::string(m.strings[r.label]) : std::to_string(i),
                            textAttr(m, r.attrs, "name"), type.dtype, shapeOf(type),
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
