#include "read/Placement.h"

#include "dtc/IR/text/Text.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Counted.h"
#include "dtc/Support/Json.h"
#include "read/Arguments.h"

#include <algorithm>
#include <limits>

namespace dtc {
namespace {

using nlohmann::json;

constexpr size_t kMaxAxes = 32;

[[noreturn]] void misplaced(const std::string& what) { throw TorchSchemaError{what}; }

// What the text's grammar calls a name.
const std::string& meshWord(const json& j) {
  const std::string& name = stringOf(j, "a name");
  const auto letter = [](char c) { return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (name.empty() || name.size() > 100 || !letter(name[0]) ||
      !std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); }))
    misplaced("has a mesh or an axis that is called " + jsonString(name.substr(0, 40)));
  return name;
}

void readMesh(const json& j, TorchPlacement& out) {
  out.mesh = meshWord(memberOf(j, "name"));
  int64_t devices = 1;
  for (const json& axis : listOf(j, "axes")) {
    if (!axis.is_array() || axis.size() != 2) misplaced("has a mesh axis that is not [name, size]");
    const int64_t size = integerOf(axis[1]);
    if (size < 1 || size > std::numeric_limits<int32_t>::max() / devices || out.axes.size() == kMaxAxes)
      misplaced("has a mesh that is too large");
    const std::string& name = meshWord(axis[0]);
    if (std::ranges::any_of(out.axes, [&](const auto& a) { return a.first == name; }))
      misplaced("has two mesh axes " + jsonString(name));
    devices *= size;
    out.axes.emplace_back(name, size);
  }
}

// `what`: "shardings", "names".
void readTexts(const json& placement, const char* member, const std::string& what,
               std::map<std::string, std::string, std::less<>>& out) {
  const json* j = findMember(placement, member);
  if (!j) return;
  if (!j->is_object()) misplaced("has " + what + " that are not an object");
  for (const auto& [name, text] : j->items())
    out.emplace(name, stringOf(text, ("one of its " + what).c_str()));
}

void readGroups(const json& groups, TorchPlacement& out) {
  if (!groups.is_object()) misplaced("has process groups that are not an object");
  for (const auto& [name, axes] : groups.items()) {
    std::vector<std::string>& list = out.groups[name];
    if (!axes.is_array() || axes.empty() || axes.size() > kMaxAxes)
      misplaced("has a process group without a list of axes");
    for (const json& axis : axes) {
      if (std::ranges::find(list, meshWord(axis)) != list.end())
        misplaced("has a process group along one axis twice");
      list.push_back(meshWord(axis));
      if (std::ranges::none_of(out.axes, [&](const auto& a) { return a.first == list.back(); }))
        misplaced("has a process group along " + jsonString(list.back()) + ", which the mesh does not have");
    }
  }
}

// Empty, with the reason: the text does not fit a tensor of that rank.
std::optional<Sharding> shardingOf(Module& m, const std::string& text, size_t rank, std::string& why) {
  Sharding s;
  Diagnostics diags;
  if (!parseSharding(text, m, MeshId(0), s, diags)) {
    why = diags.all().empty() ? "expected a sharding" : diags.all()[0].message();
  } else if (s.dims.size() != rank) {
    why = "it has " + counted(s.dims.size(), "dim") + ", but the tensor has " + std::to_string(rank);
  } else {
    return s;
  }
  return std::nullopt;
}

// The type of the whole tensor; empty if it has symbolic sizes or is too large.
std::optional<Type> globalType(const Module& m, Type local, const Sharding& s) {
  for (size_t i = 0; i < local.dims.size(); ++i) {
    const std::vector<AxisRef> axes = s.dims[i].axes();
    if (axes.empty()) continue;
    const auto size = local.dims[i].isStatic()
                          ? checkedMul(local.dims[i].value(), m.shardings.mesh(s.mesh).sizeOf(axes))
                          : std::nullopt;
    if (!size) return std::nullopt;
    local.dims[i] = Dim(*size);
  }
  return local;
}

class Placer {
public:
  Placer(Module& m, bool local) : m_(m), local_(local) {}
  // Sets the sharding, and the global type of a local program.
  Status place(const std::string& name, const std::string& text, TypeId type, ShardingId& sharding,
               TypeId& global) {
    std::string why;
    const auto s = shardingOf(m_, text, m_.types[type].rank(), why);
    if (!s) return inputError("has a wrong sharding of " + jsonString(name) + ": " + why);
    for (const DimSharding& d : s->dims)
      for (const DimPart& p : d.parts)
        if (p.isAxis() && m_.shardings.mesh(s->mesh).axisIndex(p.axis.name) < 0)
          return inputError("has a sharding of " + jsonString(name) + " over an unknown axis");
    if (local_) {
      const auto whole = globalType(m_, m_.types[type], *s);
      if (!whole) return inputError("has shards of " + jsonString(name) + " whose sizes are not numbers");
      global = m_.types.intern(*whole);
    }
    sharding = m_.shardings.intern(*s);
    return Ok{};
  }

private:
  Module& m_;
  bool local_;
};

} // namespace

TorchPlacement readPlacement(const json& program) {
  TorchPlacement out;
  const json* j = findMember(program, "dtc");
  if (!j) return out;
  if (const json* mesh = findMember(*j, "mesh")) readMesh(*mesh, out);
  readTexts(*j, "inputs", "shardings", out.inputs);
  readTexts(*j, "outputs", "shardings", out.outputs);
  readTexts(*j, "names", "names", out.names);
  const auto flag = [&](const char* name) {
    const json* member = findMember(*j, name);
    return member && member->is_boolean() && member->get<bool>();
  };
  out.local = flag("local"), out.captured = flag("captured");
  if (out.mesh.empty() && (out.local || !out.inputs.empty() || !out.outputs.empty()))
    misplaced("has shardings but no mesh");
  if (const json* groups = findMember(*j, "groups")) readGroups(*groups, out);
  if (const json* frozen = findMember(*j, "frozen")) {
    if (!frozen->is_array() || !std::ranges::all_of(*frozen, [](const json& n) { return n.is_string(); }))
      misplaced("has frozen inputs that are not names");
    for (const json& name : *frozen) out.frozen.push_back(name.get<std::string>());
  }
  return out;
}

void declareMesh(Module& m, const TorchPlacement& placement) {
  if (placement.mesh.empty()) return;
  Mesh mesh;
  mesh.name = m.strings.intern(placement.mesh);
  for (const auto& [name, size] : placement.axes) mesh.axes.push_back({m.strings.intern(name), size});
  m.shardings.addMesh(std::move(mesh));
}

void nameGroups(ImportFile& file, const TorchPlacement& placement) {
  for (ImportGraph& g : file.graphs)
    for (ImportNode& n : g.nodes) {
      const auto named = std::ranges::find(n.arguments, "group_name", &ImportArgument::name);
      const auto* group = named == n.arguments.end() ? nullptr : std::get_if<std::string>(&named->value);
      if (!group) continue;
      if (const auto found = placement.groups.find(*group); found != placement.groups.end())
        n.arguments.push_back({"dtc.axes", found->second});
    }
}

void markFrozen(Module& m, const ImportFile& file, const TorchPlacement& placement) {
  const ImportGraph& g = file.graphs[0];
  for (size_t i = 0; i < g.inputs.size(); ++i)
    if (std::ranges::find(placement.frozen, file.values[g.inputs[i].value.index].name) !=
        placement.frozen.end())
      m[m.order[0]].args[i].attrs.push_back({m.strings.intern("frozen"), m.attrs.boolean(true)});
}

Status placeArguments(Module& m, const ImportFile& file, const TorchPlacement& placement) {
  if (placement.mesh.empty()) return Ok{};
  Function& f = m[m.order[0]];
  const ImportGraph& g = file.graphs[0];
  Placer placer(m, placement.local);
  const auto textOf = [&](const auto& table, const std::string& name, TypeId type) -> std::string {
    if (const auto found = table.find(name); found != table.end()) return found->second;
    if (!placement.local) return "";
    std::string closed = "{"; // the same on all devices
    for (size_t i = 0; i < m.types[type].rank(); ++i) closed += i ? ", _" : "_";
    return closed + "}";
  };
  const auto setName = [&](const std::string& name, AttrList& attrs) {
    const StrId key = m.strings.intern("name");
    if (const auto found = placement.names.find(name);
        found != placement.names.end() && !findAttr(attrs, key).valid())
      attrs.push_back({key, m.attrs.string(m.strings.intern(found->second))});
  };
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    FuncArg& a = f.args[i];
    const std::string& name = file.values[g.inputs[i].value.index].name;
    setName(name, a.attrs);
    const std::string text = textOf(placement.inputs, name, m[a.value].type);
    if (text.empty()) continue;
    if (Status s = placer.place(name, text, m[a.value].type, m[a.value].sharding, a.globalType); !s) return s;
  }
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    FuncResult& r = f.results[i];
    const auto* ref = std::get_if<ImportValueRef>(&g.outputs[i].value);
    const std::string name = ref && ref->valid() ? file.values[ref->index].name : "";
    setName(name, r.attrs);
    const std::string text = textOf(placement.outputs, name, r.type);
    if (text.empty()) continue;
    if (Status s = placer.place(name, text, r.type, r.sharding, r.globalType); !s) return s;
  }
  f.spmd = placement.local;
  return Ok{};
}

} // namespace dtc
