// Programs with GSPMD sharding strings: the mesh that they imply, and each string as a sharding on it.
#include "import/HloImporter.h"
#include "sharding/DeviceNumber.h"
#include "sharding/GspmdManual.h"
#include "sharding/GspmdText.h"
#include <algorithm>
#include <array>
#include <set>

namespace dtc {

namespace {

constexpr DiagKind kGspmd{"gspmd-sharding", "this sharding does not match its value: {0}"};

bool isGspmd(const MlirNamedAttr& a) {
  return (a.name == "mhlo.sharding" || a.name == kGspmdManual) && a.value.kind == MlirAttr::String;
}

// Every sharding string of an op, its regions and its function's boundary.
template <class Fn> bool forEachString(const MlirOp& op, const Fn& fn) {
  auto list = [&](const std::vector<MlirNamedAttr>& attrs) {
    return std::ranges::all_of(attrs, [&](const MlirNamedAttr& a) { return !isGspmd(a) || fn(a.value); });
  };
  for (const MlirNamedAttr& a : op.attrs) // of a manual computation: each operand's, each result's
    for (const MlirAttr& inner : a.value.list)
      if (!list(inner.dict)) return false;
  if (!list(op.attrs)) return false;
  for (const auto& r : op.resultAttrs)
    if (!list(r)) return false;
  for (const MlirRegion& r : op.regions) {
    for (const MlirArg& a : r.args)
      if (!list(a.attrs)) return false;
    for (const MlirOp& inner : r.ops)
      if (!forEachString(inner, fn)) return false;
  }
  return true;
}

} // namespace

bool Gspmd::declareMesh() {
  std::set<int64_t> boundaries;
  int64_t devices = 0;
  bool manual = false;
  auto look = [&](const MlirAttr& a) -> bool {
    auto all = parseGspmd(im_.module.source.text, a.text, im_.diags);
    if (!all) return false;
    for (const GspmdSharding& s : *all) {
      manual |= s.kind == GspmdSharding::Manual;
      if (s.kind != GspmdSharding::Tiled) continue;
      if (devices != 0 && s.devices != devices)
        return im_.diags.fail(kGspmd, a.range,
                              "it is over " + std::to_string(s.devices) +
                                  " devices, but other shardings are over " + std::to_string(devices));
      devices = s.devices;
      for (const auto& dim : s.dims)
        for (const DigitRange& r : dim) boundaries.insert({r.pre, r.pre * r.size});
      for (const DigitRange& r : s.manual) boundaries.insert({r.pre, r.pre * r.size});
    }
    return true;
  };
  for (const MlirOp& op : im_.tree.ops)
    if (!forEachString(op, look)) return false;
  // all replicated or manual: the module declares the number of devices
  if (devices == 0 && manual && !im_.shardy.used()) {
    for (const MlirNamedAttr& a : im_.tree.moduleAttrs)
      if (a.name == "mhlo.num_partitions" && a.value.integer > 1 && a.value.integer <= INT32_MAX)
        devices = a.value.integer;
  }
  if (devices == 0) return true;
  boundaries.insert(devices);
  Mesh mesh;
  const std::vector<int64_t> sizes = axisSizes(boundaries, devices);
  for (size_t i = 0; i < sizes.size(); ++i)
    mesh.axes.push_back({im_.module.strings.intern(axisName(i)), sizes[i]});
  mesh_ = im_.shardy.addMesh("mesh", std::move(mesh));
  return true;
}

std::optional<std::vector<ShardingId>> Gspmd::shardings(const MlirAttr& attr, std::span<const TypeId> types,
                                                        bool ofShards) {
  auto all = parseGspmd(im_.module.source.text, attr.text, im_.diags);
  if (!all) return std::nullopt;
  auto bad = [&](const std::string& why) { return im_.diags.fail(kGspmd, attr.range, why); };
  if (all->size() == 1) all->resize(types.size(), all->front()); // for a tuple: each
  if (all->size() != types.size()) return bad("it has a different number of elements");
  std::vector<ShardingId> out;
  const MeshId mesh = mesh_.valid() ? mesh_ : im_.shardy.functionMesh();
  for (size_t i = 0; i < types.size(); ++i) {
    const GspmdSharding& text = (*all)[i];
    const Type& type = im_.module.types[types[i]];
    if (!mesh.valid() || text.kind == GspmdSharding::Manual || (!ofShards && !text.manual.empty())) {
      out.emplace_back();
      continue;
    }
    Sharding s;
    s.mesh = mesh;
    s.dims.resize(type.rank());
    if (text.kind == GspmdSharding::Tiled && text.dims.size() != type.rank())
      return bad("it has " + std::to_string(text.dims.size()) + " dims, but the value has " +
                 std::to_string(type.rank()));
    for (size_t d = 0; d < text.dims.size(); ++d)
      for (const DigitRange& r : text.dims[d])
        for (const AxisRef& a : axesOfDigits(r, im_.module.shardings.mesh(mesh)))
          s.dims[d].parts.push_back({a, 0});
    out.push_back(im_.module.shardings.intern(std::move(s)));
  }
  return out;
}

std::optional<ShardingId> Gspmd::sharding(const std::vector<MlirNamedAttr>& attrs, TypeId type,
                                          bool ofShards) {
  for (const MlirNamedAttr& a : attrs) {
    if (a.name != "mhlo.sharding" || a.value.kind != MlirAttr::String) continue;
    auto all = shardings(a.value, std::array{type}, ofShards);
    if (!all) return std::nullopt;
    openUnspecified(attrs, *all);
    return all->front();
  }
  Sharding replicated;
  replicated.mesh = mesh_.valid() ? mesh_ : im_.shardy.functionMesh();
  if (!replicated.mesh.valid()) return ShardingId();
  replicated.dims.resize(im_.module.types[type].rank());
  return im_.module.shardings.intern(std::move(replicated));
}

std::optional<std::vector<AxisRef>> Gspmd::manualAxes(const MlirAttr& attr, MeshId id) {
  auto all = parseGspmd(im_.module.source.text, attr.text, im_.diags);
  if (!all) return std::nullopt;
  const Mesh& mesh = im_.module.shardings.mesh(id);
  std::vector<AxisRef> axes;
  if (all->front().kind == GspmdSharding::Manual)
    for (const MeshAxis& a : mesh.axes) axes.push_back({a.name});
  std::vector<DigitRange> digits = all->front().manual;
  std::ranges::sort(digits, {}, &DigitRange::pre);
  for (const DigitRange& r : digits)
    for (const AxisRef& a : axesOfDigits(r, mesh)) axes.push_back(a);
  return axes;
}

// backend_config = "unspecified_dims=[0,2]": those dims stay open.
void Gspmd::openUnspecified(const std::vector<MlirNamedAttr>& attrs, std::vector<ShardingId>& shardings) {
  const MlirAttr* config = findAttr(attrs, "backend_config");
  if (!config || config->kind != MlirAttr::String) return;
  const size_t at = config->text.find("unspecified_dims=[");
  if (at == std::string_view::npos) return;
  std::vector<size_t> dims;
  for (size_t i = at + 18; i < config->text.size() && config->text[i] != ']'; ++i) {
    size_t d = 0;
    bool any = false;
    for (; i < config->text.size() && config->text[i] >= '0' && config->text[i] <= '9' && d < 4096;
         ++i, any = true)
      d = d * 10 + static_cast<size_t>(config->text[i] - '0');
    if (any) dims.push_back(d);
    if (i >= config->text.size() || config->text[i] == ']') break;
  }
  for (ShardingId& id : shardings) {
    if (!id.valid()) continue;
    Sharding s = im_.module.shardings[id];
    for (size_t d : dims)
      if (d < s.dims.size()) s.dims[d].open = true;
    id = im_.module.shardings.intern(std::move(s));
  }
}

} // namespace dtc
