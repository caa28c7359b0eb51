// The positions of a value's elements, as layouts.
#include "dtc/IR/text/Text.h"
#include "dtc/Report/view/View.h"
#include "dtc/Support/Layout.h"

namespace dtc {
namespace {

struct DimModes {
  std::vector<Layout> device, offset; // by factor of the dim, major to minor, then the unsharded rest
};

// The stride of a (sub-)axis in device coordinates.
int64_t deviceStride(const Mesh& mesh, const AxisRef& axis) {
  const auto index = static_cast<size_t>(mesh.axisIndex(axis.name));
  int64_t stride = 1;
  for (size_t a = mesh.axes.size(); a-- > index + 1;) stride *= mesh.axes[a].size;
  return axis.isFullAxis() ? stride : stride * (mesh.axes[index].size / (axis.pre * axis.size));
}

// For one dim of size n whose local elements have stride `stride`; nothing where its shards are uneven.
std::optional<DimModes> modesOf(const DimSharding& d, const Mesh& mesh, int64_t n, int64_t stride) {
  DimModes modes;
  int64_t left = n;
  for (const DimPart& p : d.parts) {
    const int64_t size = p.isAxis() ? mesh.axisSize(p.axis) : p.blocks;
    if (left % size != 0) return std::nullopt;
    left /= size;
  }
  int64_t blocks = 1; // of the remaining unsharded factors, which are in the buffer
  for (const DimPart& p : d.parts)
    if (!p.isAxis()) blocks *= p.blocks;
  for (const DimPart& p : d.parts) {
    if (p.isAxis()) {
      modes.device.emplace_back(mesh.axisSize(p.axis), deviceStride(mesh, p.axis));
      modes.offset.emplace_back(mesh.axisSize(p.axis), 0);
    } else {
      blocks /= p.blocks;
      modes.device.emplace_back(p.blocks, 0);
      modes.offset.emplace_back(p.blocks, stride * left * blocks);
    }
  }
  modes.device.emplace_back(left, 0);
  modes.offset.emplace_back(left, stride);
  return modes;
}

Layout modeOf(std::vector<Layout> parts) { return parts.size() == 1 ? parts[0] : Layout(std::move(parts)); }

} // namespace

std::string layoutView(const Module& m, std::string_view name, TypeId global, ShardingId s) {
  const Type& type = m.types[global];
  const Sharding& sharding = m.shardings[s];
  const Mesh& mesh = m.shardings.meshOf(s);
  std::string text = std::string(name) + ": " + printType(m, global) + " " + printSharding(m, s) + "\n";
  std::vector<Layout> device, offset;
  std::vector<int64_t> local;
  int64_t stride = 1;
  for (size_t d = type.rank(); d-- > 0;) {
    if (!type.dims[d].isStatic())
      return text + "  dim " + std::to_string(d) + " is symbolic: bind it with --dim\n";
    auto modes = modesOf(sharding.dims[d], mesh, type.dims[d].value(), stride);
    if (!modes)
      return text + "  dim " + std::to_string(d) +
             " is sharded unevenly, so no single layout exists; each device holds its shard in row-major "
             "order\n";
    const int64_t size = dimShardSize(sharding.dims[d], mesh, type.dims[d].value(), 0);
    device.insert(device.begin(), modeOf(std::move(modes->device)));
    offset.insert(offset.begin(), modeOf(std::move(modes->offset)));
    local.insert(local.begin(), size);
    stride *= size;
  }
  text += "  in the buffer of a device   " + layoutText(rowMajor(local)) + "\n";
  text += "  from global to device       " + layoutText(Layout(std::move(device))) + "\n";
  return text + "  from global to offset       " + layoutText(Layout(std::move(offset))) + "\n";
}

} // namespace dtc
