#include "import/Shardings.h"
#include "dtc/Support/Checked.h"

#include <algorithm>

namespace dtc::onnx {

static constexpr int64_t kMaxDevices = 1 << 20;

// The devices of each shard, in the row-major order of the grid of shards; then those with copies of it, which are
// the grid's last dim.
Result<Shardings::Layout> Shardings::layoutOf(const ShardingSpec& s, int64_t& devices) const {
  const auto bad = [&](const std::string& why) {
    return inputError("byte " + std::to_string(s.offset) + ": the sharding of '" + s.tensorName + "' " + why);
  };
  std::vector<int64_t> list;
  size_t copies = 0;
  for (int64_t d : s.devices) {
    const auto group = std::ranges::find(s.groups, d, &std::pair<int64_t, std::vector<int64_t>>::first);
    const std::vector<int64_t> members = group == s.groups.end() ? std::vector<int64_t>{d} : group->second;
    if (copies != 0 && members.size() != copies) return bad("has groups of different sizes");
    copies = members.size();
    list.insert(list.end(), members.begin(), members.end());
    if (list.size() > kMaxDevices) return bad("has more than a million devices");
  }
  std::vector<int64_t> sizes;
  int64_t shards = 1;
  for (const ShardedDim& d : s.dims) {
    if (d.numShards.size() != 1) return bad("shards parts of a dim differently, which dtc does not support");
    const auto all = checkedMul(shards, d.numShards[0]);
    if (d.numShards[0] < 1 || !all || *all > kMaxDevices)
      return bad("has a number of shards that is out of range");
    sizes.push_back(d.numShards[0]);
    shards = *all;
  }
  const auto count = static_cast<int64_t>(list.size());
  if (count == 0) return bad("has no devices");
  if (count % shards != 0)
    return bad("has " + std::to_string(shards) + " shards, but " + std::to_string(count) + " devices");
  sizes.push_back(count / shards);
  if (devices != 0 && count != devices)
    return bad("is over " + std::to_string(count) + " devices, but others are over " +
               std::to_string(devices));
  devices = count;
  const auto order = digitOrder(list);
  const auto digits = order ? splitDigits(sizes, *order) : std::nullopt;
  if (!digits) return bad("has an order of devices that is not a transposed grid of all devices");
  Layout out;
  for (size_t i = 0; i < s.dims.size(); ++i) out.dims.emplace_back(s.dims[i].axis, (*digits)[i]);
  return out;
}

Status Shardings::declareMesh() {
  if (program_.annotations.empty()) return Ok{};
  int64_t devices = 0;
  std::set<int64_t> boundaries;
  for (const Program::Annotation& a : program_.annotations) {
    DTC_TRY(auto layout, layoutOf(*a.sharding, devices));
    for (const auto& [axis, digits] : layout.dims)
      for (const DigitRange& r : digits) boundaries.insert({r.pre, r.pre * r.size});
    ofNode_.emplace(a.node, layouts_.size());
    layouts_.push_back(std::move(layout));
  }
  boundaries.insert(devices);
  Mesh mesh;
  mesh.name = m_.strings.intern("mesh");
  const std::vector<int64_t> sizes = axisSizes(boundaries, devices);
  for (size_t i = 0; i < sizes.size(); ++i)
    mesh.axes.push_back({m_.strings.intern(axisName(i)), sizes.at(i)});
  mesh_ = m_.shardings.addMesh(std::move(mesh));
  return Ok{};
}

void Shardings::annotate(const OnnxContext& c, const ImportResults& results) {
  const auto [first, last] = ofNode_.equal_range(&c.node);
  for (auto at = first; at != last; ++at) {
    const size_t i = at->second;
    const Program::Annotation& a = program_.annotations[i];
    ValueId v = c.scope.value({a.value});
    for (size_t r = 0; r < c.node.results.size() && r < results.values.size(); ++r)
      if (c.node.results[r].valid() && c.node.results[r].index == a.value) v = results.values[r];
    if (!v.valid() || m_[v].sharding.valid() || m_[v].kind == ValueKind::Literal) continue;
    Sharding s;
    s.mesh = mesh_;
    s.dims.resize(m_.typeOf(v).rank());
    for (const auto& [axis, digits] : layouts_[i].dims)
      for (const DigitRange& r : digits)
        for (const AxisRef& part : axesOfDigits(r, m_.shardings.mesh(mesh_)))
          s.dims[static_cast<size_t>(c.dim(axis, s.dims.size()))].parts.push_back({part, 0});
    m_[v].sharding = m_.shardings.intern(std::move(s));
  }
}

} // namespace dtc::onnx
