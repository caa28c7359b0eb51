#include "import/Shardy.h"
#include "dtc/Sharding/MeshView.h"
#include "dtc/Support/Checked.h"
#include "import/HloImporter.h"
#include <algorithm>
#include <array>

namespace dtc {

constexpr DiagKind kMesh{"shardy-mesh", "unsupported mesh: {0}"};
constexpr DiagKind kSharding{"shardy-sharding", "this sharding does not match its value: {0}"};

static const MlirAttr* shardingAttr(const std::vector<MlirNamedAttr>& attrs) {
  const MlirAttr* a = findAttr(attrs, "sdy.sharding");
  return a ? a : findAttr(attrs, "mhlo.sharding");
}

static bool isReserved(std::string_view name) {
  static constexpr std::string_view kWords[] = {"mesh",  "func", "spmd",  "of",  "in",  "return",
                                                "yield", "true", "false", "inf", "nan", "_"};
  return std::ranges::find(kWords, name) != std::end(kWords);
}

// --- meshes ---

MeshId Shardy::addMesh(const std::string& name, Mesh mesh) {
  std::string own = im_.validName(name);
  if (own.empty() || (own[0] >= '0' && own[0] <= '9')) own = "mesh_" + own;
  while (im_.module.shardings.findMesh(im_.module.strings.intern(own)).valid()) own += "_";
  mesh.name = im_.module.strings.intern(own);
  return im_.module.shardings.addMesh(std::move(mesh));
}

bool Shardy::declare(const std::string& name, const ShardyMesh& text, SourceRange where) {
  Named named;
  Mesh mesh;
  auto bad = [&](const std::string& why) { return im_.diags.fail(kMesh, where, why); };
  int64_t devices = 1;
  for (const ShardyAxis& a : text.axes) {
    std::string own = im_.validName(a.name);
    if (own.empty() || (own[0] >= '0' && own[0] <= '9') || isReserved(own)) own = "axis_" + own;
    for (const auto& [other, id] : named.axes)
      if (im_.module.strings[id] == own) own += "_";
    if (a.size < 1) return bad("the size of an axis must be at least 1");
    const auto all = checkedMul(devices, a.size);
    if (!all || *all > INT32_MAX) return bad("a mesh has at most 2^31-1 devices");
    devices = *all;
    named.axes.emplace_back(a.name, im_.module.strings.intern(own));
    mesh.axes.push_back({named.axes.back().second, a.size});
  }
  if (text.hasDevices) {
    std::vector<int64_t> sorted = text.devices;
    std::ranges::sort(sorted);
    const bool one = text.axes.empty() && sorted.size() == 1; // a maximal sharding: all on one device
    for (size_t i = 0; !one && i < sorted.size(); ++i)
      if (sorted[i] != static_cast<int64_t>(i))
        return bad("device_ids must list each device number exactly once");
    if (static_cast<int64_t>(sorted.size()) != devices)
      return bad("the number of device_ids differs from the product of the axis sizes");
    if (text.devices != sorted) named.devices = mesh.devices = text.devices;
  }
  // A mesh without axes means "replicated"; so does a mesh of a single device, since every device holds the
  // same values.
  if (!mesh.axes.empty()) named.mesh = meshLike(mesh);
  if (!mesh.axes.empty() && !named.mesh.valid()) named.mesh = addMesh(name, std::move(mesh));
  meshes_[name] = std::move(named);
  return true;
}

bool Shardy::sameAxes(const Mesh& a, const Mesh& b) {
  auto same = [](const MeshAxis& x, const MeshAxis& y) { return x.name == y.name && x.size == y.size; };
  return std::ranges::equal(a.axes, b.axes, same);
}

MeshId Shardy::meshLike(const Mesh& mesh) const {
  for (uint32_t i = 0; i < im_.module.shardings.numMeshes(); ++i) {
    const Mesh& other = im_.module.shardings.mesh(MeshId(i));
    if (sameAxes(other, mesh) && other.devices == mesh.devices) return MeshId(i);
  }
  return {};
}

std::vector<int64_t> Shardy::devicesOf(const std::vector<MlirNamedAttr>& attrs) {
  const MlirAttr* a = shardingAttr(attrs);
  a = a ? im_.tree.resolve(*a) : nullptr;
  if (!a || a->kind == MlirAttr::String) return {};
  const auto text = read(*a);
  auto found = text ? meshes_.find(text->mesh) : meshes_.end();
  return found == meshes_.end() ? std::vector<int64_t>() : found->second.devices;
}

bool Shardy::declareMeshes() {
  for (const MlirOp& op : im_.tree.ops) {
    if (op.name != "sdy.mesh") continue;
    std::string name;
    const MlirAttr* body = nullptr;
    for (const MlirAttr& item : op.items)
      (item.kind == MlirAttr::SymbolRef ? (void)(name = item.text) : (void)(body = &item));
    if (const MlirAttr* a = findAttr(op.attrs, "sym_name")) name = a->text;
    if (const MlirAttr* a = findAttr(op.attrs, "mesh")) body = im_.tree.resolve(*a);
    if (name.empty() || !body)
      return im_.diags.fail(kMesh, op.nameRange, "expected a mesh, as in `sdy.mesh @mesh = <[\"x\"=2]>`");
    ShardyReader reader(im_.module.source.text, body->body, im_.diags);
    ShardyMesh text;
    if (!reader.mesh(text) || !declare(name, text, op.nameRange)) return false;
  }
  return im_.gspmd.declareMesh();
}

bool Shardy::meshOf(const ShardyText& text, MeshId& out) {
  std::string name = text.mesh;
  if (name.empty()) {
    if (text.inlined.axes.empty()) return out = MeshId(), true;
    for (const ShardyAxis& a : text.inlined.axes) name += a.name + std::to_string(a.size) + "_";
    for (int64_t d : text.inlined.devices) name += "_" + std::to_string(d);
    if (!meshes_.contains(name) && !declare(name, text.inlined, text.range)) return false;
  }
  auto found = meshes_.find(name);
  if (found == meshes_.end())
    return im_.diags.fail(kMesh, text.range, "there is no mesh @" + name + " in this file");
  out = found->second.mesh;
  // An axis of the function's mesh for the same axis with another device order: the sharding is the same, and
  // the function's mesh determines the device order.
  const ShardingTable& all = im_.module.shardings;
  if (out.valid() && functionMesh_.valid() && sameAxes(all.mesh(out), all.mesh(functionMesh_)))
    out = functionMesh_;
  return true;
}

std::optional<AxisRef> Shardy::axisOf(const ShardyAxis& axis, MeshId id) {
  const Mesh& mesh = im_.module.shardings.mesh(id);
  for (const auto& [name, named] : meshes_) {
    if (named.mesh != id) continue;
    for (const auto& [text, own] : named.axes) {
      if (text != axis.name) continue;
      const int64_t fullSize = mesh.axisSize({own});
      const auto part = axis.size > 0 ? checkedMul(axis.pre, axis.size) : std::optional<int64_t>(fullSize);
      if (!part || *part == 0 || fullSize % *part != 0) break;
      return mesh.canonical({own, axis.pre, axis.size});
    }
  }
  return im_.diags.fail(kMesh, axis.range,
                        "it has no axis \"" + axis.name + "\", or the axis cannot be split like this");
}

// --- shardings ---

std::optional<ShardyText> Shardy::read(const MlirAttr& attr) {
  ShardyText text;
  ShardyReader reader(im_.module.source.text, attr.body, im_.diags);
  if (!reader.sharding(text)) return std::nullopt;
  text.range = attr.range;
  return text;
}

std::optional<std::vector<ShardyText>> Shardy::readAll(const MlirAttr& attr) {
  std::vector<ShardyText> all;
  ShardyReader reader(im_.module.source.text, attr.body, im_.diags);
  if (!reader.shardings(all)) return std::nullopt;
  for (ShardyText& t : all) t.range = attr.range;
  return all;
}

bool Shardy::readAxes(const MlirAttr& attr, std::vector<ShardyAxis>& out) {
  // `{"a"}` as pretty forms have it, `manual_axes{"a"}` between the brackets of #sdy<…>
  ShardyReader reader(im_.module.source.text, attr.kind == MlirAttr::Raw ? attr.text : attr.body, im_.diags);
  reader.words().acceptWord("manual_axes");
  return reader.axes(out);
}

std::optional<ShardingId> Shardy::sharding(const ShardyText& text, TypeId type) {
  auto own = shardingOnOwnMesh(text, type);
  return own ? std::optional(onFunctionMesh(*own)) : own;
}

ShardingId Shardy::onFunctionMesh(ShardingId id) const {
  ShardingTable& all = im_.module.shardings;
  if (!id.valid() || !functionMesh_.valid() || all[id].mesh == functionMesh_) return id;
  const Mesh &seen = all.mesh(all[id].mesh), &on = all.mesh(functionMesh_);
  if (seen.numDevices() == 1) { // the same on every device
    Sharding s;
    s.mesh = functionMesh_;
    for (DimSharding d : all[id].dims) {
      d.parts.clear();
      s.dims.push_back(std::move(d));
    }
    return all.intern(std::move(s));
  }
  const auto view = viewMesh(seen, on);
  if (!view || !view->sameDevices) return id;
  auto s = throughView(all[id], seen, *view, functionMesh_, on);
  return s ? all.intern(std::move(*s)) : id;
}

std::optional<ShardingId> Shardy::shardingOnOwnMesh(const ShardyText& text, TypeId type) {
  Sharding s;
  if (!meshOf(text, s.mesh)) return std::nullopt;
  const Type& t = im_.module.types[type];
  const bool named = s.mesh.valid();
  if (!named) s.mesh = functionMesh_;
  if (!s.mesh.valid()) return ShardingId(); // a program without a mesh
  s.dims.resize(t.rank());
  // on one device: replicated
  if (!named && text.dims.empty()) return im_.module.shardings.intern(std::move(s));
  auto bad = [&](const std::string& why) { return im_.diags.fail(kSharding, text.range, why); };
  if (text.dims.size() != t.rank())
    return bad("it has " + std::to_string(text.dims.size()) + " dims, but the value has " +
               std::to_string(t.rank()));
  for (size_t d = 0; d < text.dims.size(); ++d) {
    s.dims[d].open = text.dims[d].open;
    s.dims[d].priority = text.dims[d].axes.empty() && !text.dims[d].open ? -1 : text.dims[d].priority;
    for (const ShardyAxis& a : text.dims[d].axes) {
      auto axis = axisOf(a, s.mesh);
      if (!axis) return std::nullopt;
      s.dims[d].parts.push_back({*axis, 0});
    }
  }
  for (const ShardyAxis& a : text.replicated) {
    auto axis = axisOf(a, s.mesh);
    if (!axis) return std::nullopt;
    s.replicated.push_back(*axis);
  }
  static constexpr std::pair<std::string_view, PendingKind> kKinds[] = {
      {"sum", PendingKind::Sum}, {"add", PendingKind::Sum},  {"max", PendingKind::Max},
      {"min", PendingKind::Min}, {"mul", PendingKind::Prod}, {"prod", PendingKind::Prod}};
  const auto* kind =
      std::ranges::find(kKinds, text.reduction, &std::pair<std::string_view, PendingKind>::first);
  if (kind == std::end(kKinds))
    return bad("expected sum, max, min or mul as the reduction of an unreduced axis");
  for (const ShardyAxis& a : text.unreduced) {
    auto axis = axisOf(a, s.mesh);
    if (!axis) return std::nullopt;
    s.pending.push_back({*axis, kind->second});
  }
  const Mesh& mesh = im_.module.shardings.mesh(s.mesh);
  const std::string problem = validateSharding(s, mesh, t.dims, im_.module.dims, im_.module.strings);
  if (!problem.empty()) return bad(problem);
  return im_.module.shardings.intern(std::move(s));
}

// --- values ---

bool Shardy::annotateOne(const MlirAttr* attr, TypeId type, ShardingId& out) {
  const MlirAttr* a = attr ? im_.tree.resolve(*attr) : nullptr;
  if (!a) return true;
  std::optional<ShardingId> s;
  if (a->kind == MlirAttr::String) {
    auto all = im_.gspmd.shardings(*a, std::array{type});
    if (all) s = all->front();
  } else {
    auto text = read(*a);
    if (text) s = sharding(*text, type);
  }
  if (!s) return false;
  out = *s;
  return true;
}

// The mesh that a sharding's text names, if it has the most devices of all meshes; else invalid.
MeshId Shardy::meshNamed(std::string_view body) const {
  const size_t at = body.find('@');
  if (at == body.npos) return {};
  const std::string_view rest = body.substr(at + 1);
  const auto found = meshes_.find(std::string(rest.substr(0, rest.find_first_of(",>"))));
  if (found == meshes_.end() || !found->second.mesh.valid()) return {};
  const ShardingTable& all = im_.module.shardings;
  const int64_t devices = all.mesh(found->second.mesh).numDevices();
  for (uint32_t i = 0; i < all.numMeshes(); ++i)
    if (all.mesh(MeshId(i)).numDevices() > devices) return {};
  return found->second.mesh;
}

// The first attribute of a function or its ops that names such a mesh.
const MlirAttr* Shardy::firstSharding(const MlirOp& op) const {
  auto named = [&](const MlirAttr* a) {
    a = a ? im_.tree.resolve(*a) : nullptr;
    return a && meshNamed(a->body).valid();
  };
  auto anyOf = [&](const std::vector<MlirNamedAttr>& attrs) -> const MlirAttr* {
    for (const MlirNamedAttr& a : attrs)
      if ((a.name == "sdy.sharding" || a.name == "sharding" || a.name.ends_with("_shardings") ||
           a.name == "out_sharding") &&
          named(&a.value))
        return im_.tree.resolve(a.value);
    return nullptr;
  };
  if (const MlirAttr* a = anyOf(op.attrs)) return a;
  for (const MlirAttr& item : op.items)
    if (item.kind == MlirAttr::Raw && op.name.starts_with("sdy.") && named(&item)) return &item;
  for (const MlirRegion& r : op.regions)
    for (const MlirArg& arg : r.args)
      if (const MlirAttr* a = anyOf(arg.attrs)) return a;
  for (const auto& result : op.resultAttrs)
    if (const MlirAttr* a = anyOf(result)) return a;
  for (const MlirRegion& r : op.regions) {
    for (const MlirOp& inner : r.ops)
      if (const MlirAttr* a = firstSharding(inner)) return a;
  }
  return nullptr;
}

MeshId Shardy::meshOfFunction(const MlirOp& op) const {
  const MlirAttr* a = firstSharding(op);
  return a ? meshNamed(a->body) : MeshId();
}

// The mesh of the program's entry, if the function's own mesh has the same devices: functions are inlined.
void Shardy::enterFunction(const MlirOp& op) {
  const ShardingTable& all = im_.module.shardings;
  functionMesh_ = all.numMeshes() > 0 ? MeshId(0) : MeshId();
  if (all.numMeshes() < 2) return;
  MeshId own = meshOfFunction(op), entry;
  for (const MlirOp& other : im_.tree.ops) {
    const MlirAttr* name = other.name == "func.func" ? findAttr(other.attrs, "sym_name") : nullptr;
    if (name && name->text == "main") entry = meshOfFunction(other);
  }
  if (!own.valid()) own = entry;
  if (own.valid()) functionMesh_ = own;
  if (!own.valid() || !entry.valid() || own == entry) return;
  const auto view = viewMesh(all.mesh(own), all.mesh(entry));
  if (view && view->sameDevices) functionMesh_ = entry;
}

bool Shardy::annotateFunction(const MlirOp& op, FuncId f) {
  enterFunction(op);
  Module& m = im_.module;
  size_t at = 0;
  for (const MlirArg& a : op.regions[0].args) {
    std::vector<TypeId> types;
    if (!im_.flatten(a.type, a.range, op.name, types)) return false;
    if (types.size() == 1 && !annotateOne(shardingAttr(a.attrs), types[0], m[m[f].args[at].value].sharding))
      return false;
    at += types.size();
  }
  at = 0;
  for (size_t k = 0; k < op.resultTypes.size(); ++k) {
    std::vector<TypeId> types;
    if (!im_.flatten(op.resultTypes[k], op.nameRange, op.name, types)) return false;
    const MlirAttr* a = k < op.resultAttrs.size() ? shardingAttr(op.resultAttrs[k]) : nullptr;
    if (types.size() == 1 && !annotateOne(a, types[0], m[f].results[at].sharding)) return false;
    at += types.size();
  }
  if (m.shardings.numMeshes() > 1 && functionMesh_.valid())
    m[f].attrs.push_back({m.strings.intern("mesh"), m.attrs.symbol(m.shardings.mesh(functionMesh_).name)});
  return true;
}

bool Shardy::annotate(ValueId& v, ShardingId s, uint32_t fresh, uint32_t loc) {
  if (!s.valid() || !v.valid()) return true;
  Module& m = im_.module;
  // a hint along the free axes; none for a value that has one already or is not an op's result
  if (manual_.valid()) {
    if (m[v].kind == ValueKind::OpResult && !m[v].sharding.valid()) m[v].sharding = s;
    return true;
  }
  if (m[v].kind == ValueKind::OpResult && v.index >= fresh && !m[v].sharding.valid()) {
    m[v].sharding = s;
    return true;
  }
  const OpId o = im_.appendOp("shard", std::array{v}, im_.locationOf(loc), {}, m[v].loc);
  if (!o.valid()) return false;
  v = m.result(o);
  m[v].sharding = s;
  return true;
}

bool Shardy::annotateResults(const MlirOp& op, std::span<ValueId* const> results, uint32_t fresh) {
  const MlirAttr* attr = shardingAttr(op.attrs);
  attr = attr ? im_.tree.resolve(*attr) : nullptr;
  if (!attr || (manual_.valid() && (!free_ || attr->kind == MlirAttr::String))) return true;
  if (attr->kind == MlirAttr::String) {
    std::vector<TypeId> types;
    for (ValueId* v : results)
      if (!v || !v->valid())
        return true; // tokens
      else
        types.push_back(im_.module[*v].type);
    auto all = im_.gspmd.shardings(*attr, types);
    if (all) im_.gspmd.openUnspecified(op.attrs, *all);
    for (size_t i = 0; all && i < results.size(); ++i)
      if (!annotate(*results[i], (*all)[i], fresh, op.loc)) return false;
    return all.has_value();
  }
  auto all = readAll(*attr);
  if (!all) return false;
  if (results.empty()) return true; // of a call without results: the device it runs on
  if (all->size() != results.size())
    return im_.diags.fail(kSharding, attr->range,
                          "it has " + std::to_string(all->size()) + " shardings for " +
                              std::to_string(results.size()) + " results");
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i] || !results[i]->valid()) continue;
    auto s = sharding((*all)[i], im_.module[*results[i]].type);
    if (!s || !annotate(*results[i], *s, fresh, op.loc)) return false;
  }
  return true;
}

} // namespace dtc
