#include "sharding/PerDevice.h"
#include "sharding/DeviceNumber.h"
#include <algorithm>
#include <cctype>
#include <unordered_map>

namespace dtc {

bool asksForDevice(std::string_view name) {
  const size_t point = name.find('.');
  if (point == std::string_view::npos) return false;
  const std::string_view dialect = name.substr(0, point), op = name.substr(point + 1);
  if (dialect != "stablehlo" && dialect != "mhlo") return false;
  static constexpr std::string_view ops[] = {
      "all_gather",           "all_reduce",         "all_to_all",
      "collective_broadcast", "collective_permute", "cross-replica-sum",
      "partition_id",         "reduce_scatter",     "replica_id"};
  return std::ranges::find(ops, op) != std::end(ops);
}

namespace {

// The maximum number in "[[0, 1], [2, 3]]", or -1 for a constant given as bytes.
int64_t maxIn(std::string_view text) {
  int64_t max = -1;
  if (text.find('"') != std::string_view::npos) return max;
  for (size_t i = 0; i < text.size();) {
    int64_t n = -1;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); ++i)
      n = std::min<int64_t>((n < 0 ? 0 : n) * 10 + (text[i] - '0'), INT32_MAX - 1);
    max = std::max(max, n);
    if (n < 0) ++i;
  }
  return max;
}

// The product of the sizes in "#stablehlo.mesh_axis<name = "x", size = 2>, …"; bounded.
int64_t sizesIn(std::string_view text) {
  constexpr std::string_view word = "size = ";
  int64_t product = 1;
  for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size()) {
    const int64_t size = maxIn(text.substr(
        at + word.size(), text.find_first_not_of("0123456789", at + word.size()) - at - word.size()));
    product = size < 1 || product > INT32_MAX / size ? INT32_MAX : product * size;
  }
  return product;
}

using Functions = std::unordered_map<std::string_view, const MlirOp*>;

std::string_view calledBy(const MlirOp& op) {
  if (!op.name.ends_with("call") || op.name.ends_with("custom_call")) return {};
  for (const MlirNamedAttr& a : op.attrs)
    if (a.name == "callee") return a.value.text;
  return {};
}

// The functions called by these ops, transitively; those called by manual computations only, if requested.
void collectCalled(const std::vector<MlirOp>& ops, bool manualOnly, const Functions& all,
                   DeviceFunctions& out) {
  for (const MlirOp& op : ops) {
    const bool within = !manualOnly || op.name == "sdy.manual_computation";
    auto found = manualOnly ? all.end() : all.find(calledBy(op));
    if (found != all.end() && out.insert(found->first).second)
      for (const MlirRegion& r : found->second->regions) collectCalled(r.ops, false, all, out);
    for (const MlirRegion& r : op.regions) collectCalled(r.ops, !within, all, out);
  }
}

// The first op outside of manual computations that is allowed only in per-device code; `named`: the maximum
// device number in groups.
void scan(const std::vector<MlirOp>& ops, const MlirOp*& first, int64_t& named) {
  for (const MlirOp& op : ops) {
    if (op.name == "sdy.manual_computation") continue;
    if (asksForDevice(op.name)) {
      if (!first) first = &op;
      for (const MlirNamedAttr& a : op.attrs)
        if (a.name == "replica_groups" || a.name == "source_target_pairs")
          named =
              std::max(named, a.value.text.ends_with("replica_group_mesh_axes") ? sizesIn(a.value.body) - 1
                                                                                : maxIn(a.value.body));
    }
    for (const MlirRegion& r : op.regions) scan(r.ops, first, named);
  }
}

int64_t count(const MlirTree& tree, std::string_view name) {
  for (const MlirNamedAttr& a : tree.moduleAttrs)
    if (a.name == name) return a.value.integer;
  return 1;
}

} // namespace

DeviceFunctions deviceFunctions(const MlirTree& tree) {
  Functions all;
  for (const MlirOp& op : tree.ops)
    for (const MlirNamedAttr& a : op.attrs)
      if (op.name == "func.func" && a.name == "sym_name") all.emplace(a.value.text, &op);
  DeviceFunctions out;
  collectCalled(tree.ops, true, all, out);
  std::erase_if(out, [&](std::string_view name) { // functions that are device-independent stay global
    DeviceFunctions inner;
    const std::vector<MlirRegion>& regions = all.at(name)->regions;
    for (const MlirRegion& r : regions) collectCalled(r.ops, false, all, inner);
    inner.insert(name);
    return std::ranges::none_of(inner, [&](std::string_view f) {
      const MlirOp* first = nullptr;
      int64_t named = -1;
      for (const MlirRegion& r : all.at(f)->regions) scan(r.ops, first, named);
      return first != nullptr;
    });
  });
  return out;
}

std::optional<PerDeviceText> perDeviceText(const MlirTree& tree, const DeviceFunctions& inner) {
  PerDeviceText text;
  int64_t named = -1;
  for (const MlirOp& op : tree.ops) {
    const bool skipped = std::ranges::any_of(op.attrs, [&](const MlirNamedAttr& a) {
      return a.name == "sym_name" && inner.contains(a.value.text);
    });
    for (size_t r = 0; !skipped && r < op.regions.size(); ++r) scan(op.regions[r].ops, text.op, named);
  }
  if (!text.op) return std::nullopt;
  text.partitions = count(tree, "mhlo.num_partitions");
  text.replicas = count(tree, "mhlo.num_replicas");
  // If only partitions or only replicas are used, their number may come from the groups.
  if (text.replicas <= 1)
    text.partitions = std::max(text.partitions, named + 1);
  else if (text.partitions <= 1)
    text.replicas = std::max(text.replicas, named + 1);
  return text;
}

static void giveGlobalTypes(Module& m, Function& f, MeshId mesh) {
  const std::vector<MeshAxis>& axes = m.shardings.mesh(mesh).axes;
  const int64_t devices = m.shardings.mesh(mesh).numDevices();
  auto globalTypeOf = [&](TypeId local, ShardingId& sharding) {
    Type t = m.types[local];
    Sharding s;
    s.mesh = mesh;
    s.dims.resize(t.rank());
    if (t.rank() > 0) {
      t.dims[0] = Dim(t.dims[0].value() * devices);
      for (const MeshAxis& axis : axes) s.dims[0].parts.push_back({{axis.name}, 0});
    }
    sharding = m.shardings.intern(std::move(s));
    return m.types.intern(std::move(t));
  };
  for (FuncArg& a : f.args) a.globalType = globalTypeOf(m[a.value].type, m[a.value].sharding);
  for (FuncResult& r : f.results) r.globalType = globalTypeOf(r.type, r.sharding);
}

void makePerDevice(Module& m, MeshId mesh) {
  for (FuncId f : m.order) {
    m[f].spmd = true;
    giveGlobalTypes(m, m[f], mesh);
    foldDeviceNumbers(m, m[f].body, m.shardings.mesh(mesh));
  }
}

} // namespace dtc
