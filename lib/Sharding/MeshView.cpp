#include "dtc/Sharding/MeshView.h"

#include "dtc/Sharding/Canonical.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>
#include <numeric>

namespace dtc {
namespace {

// A sub-axis of the viewing mesh; one step along it is `stride` coordinates of the viewed mesh.
struct AxisDigit {
  AxisRef axis;
  int64_t size = 1, stride = 1;
};

std::vector<int64_t> devicesOf(const Mesh& m) {
  if (!m.devices.empty()) return m.devices;
  std::vector<int64_t> out(static_cast<size_t>(m.numDevices()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

class Viewer {
public:
  Viewer(const Mesh& seen, const Mesh& on, std::vector<int64_t> coordinateOf)
      : seen_(seen), on_(on), coordinateOf_(std::move(coordinateOf)) {}

  std::optional<MeshView> faithful() {
    std::vector<AxisDigit> digits;
    int64_t step = on_.numDevices();
    for (const MeshAxis& a : on_.axes) {
      step /= a.size;
      if (!splitAxis(a, step, digits)) return std::nullopt;
    }
    MeshView view;
    int64_t stride = seen_.numDevices();
    for (const MeshAxis& a : seen_.axes) {
      const int64_t end = stride;
      stride /= a.size;
      std::vector<AxisDigit> own;
      for (const AxisDigit& d : digits)
        if (d.stride >= stride && d.stride < end) own.push_back(d);
      std::ranges::sort(own, [](const AxisDigit& x, const AxisDigit& y) { return x.stride > y.stride; });
      view.axes.push_back(joined(own));
    }
    return holds(view) ? std::optional(view) : std::nullopt;
  }

  // Replaces each prime factor of an axis by an equal one.
  MeshView relabelled() const {
    std::vector<AxisDigit> free;
    for (const MeshAxis& a : on_.axes)
      for (int64_t pre = 1, rest = a.size; rest > 1;) {
        const int64_t p = smallestFactor(rest);
        free.push_back({{a.name, pre, p}, p, 0});
        pre *= p, rest /= p;
      }
    MeshView view;
    view.sameDevices = false;
    for (const MeshAxis& a : seen_.axes) {
      std::vector<AxisDigit> own;
      for (int64_t rest = a.size; rest > 1;) {
        const int64_t p = smallestFactor(rest);
        const auto at = std::ranges::find_if(free, [&](const AxisDigit& d) { return d.size == p; });
        own.push_back(*at);
        free.erase(at);
        rest /= p;
      }
      view.axes.push_back(joined(own));
    }
    return view;
  }

private:
  static int64_t smallestFactor(int64_t n) {
    for (int64_t p = 2; p * p <= n; ++p)
      if (n % p == 0) return p;
    return n;
  }

  // The digits of one axis whose neighbors are `step` coordinates apart: runs of even strides, each within
  // one axis of the viewed mesh.
  bool splitAxis(const MeshAxis& a, int64_t step, std::vector<AxisDigit>& out) const {
    auto seenAt = [&](int64_t i) { return coordinateOf_[static_cast<size_t>(i * step)] - coordinateOf_[0]; };
    for (int64_t minor = 1; minor < a.size;) {
      const int64_t stride = seenAt(minor);
      if (stride <= 0) return false;
      const int64_t room = roomAbove(stride);
      int64_t size = 1;
      while (size < room && minor * size < a.size && seenAt(minor * size) == stride * size) ++size;
      while (size > 1 && (a.size % (minor * size) != 0 || room % size != 0)) --size;
      if (size == 1) return false;
      out.push_back({{a.name, a.size / (minor * size), size}, size, stride});
      minor *= size;
    }
    return true;
  }
  // The number of steps of this stride that fit in its axis.
  int64_t roomAbove(int64_t stride) const {
    int64_t end = seen_.numDevices();
    for (const MeshAxis& a : seen_.axes) {
      const int64_t own = end / a.size;
      if (stride >= own) return stride % own == 0 ? end / stride : 0;
      end = own;
    }
    return 0;
  }

  std::vector<AxisRef> joined(const std::vector<AxisDigit>& digits) const {
    PartList parts;
    for (const AxisDigit& d : digits) parts.push_back({on_.canonical(d.axis), 0});
    canonicalizeParts(parts, on_);
    return DimSharding{parts}.axes();
  }

  bool holds(const MeshView& view) const {
    for (size_t a = 0; a < seen_.axes.size(); ++a) {
      if (on_.sizeOf(view.axes[a]) != seen_.axes[a].size) return false;
      for (size_t p = 0; p < coordinateOf_.size(); ++p)
        if (on_.indexAlong(view.axes[a], static_cast<int64_t>(p)) !=
            seen_.indexAlong(AxisRef{seen_.axes[a].name}, coordinateOf_[p]))
          return false;
    }
    return true;
  }

  const Mesh &seen_, &on_;
  std::vector<int64_t> coordinateOf_; // by coordinate of `on`: the coordinate of the same device in `seen`
};

} // namespace

std::optional<MeshView> viewMesh(const Mesh& seen, const Mesh& on) {
  const std::vector<int64_t> theirs = devicesOf(seen), mine = devicesOf(on);
  if (theirs.size() != mine.size()) return std::nullopt;
  std::unordered_map<int64_t, int64_t> coordinateInSeen;
  for (size_t p = 0; p < theirs.size(); ++p) coordinateInSeen[theirs[p]] = static_cast<int64_t>(p);
  std::vector<int64_t> coordinateOf;
  for (int64_t device : mine) {
    const auto at = coordinateInSeen.find(device);
    if (at == coordinateInSeen.end()) return std::nullopt;
    coordinateOf.push_back(at->second);
  }
  Viewer viewer(seen, on, std::move(coordinateOf));
  auto view = viewer.faithful();
  return view ? view : viewer.relabelled();
}

std::optional<std::vector<AxisRef>> throughView(const AxisRef& axis, const Mesh& seen, const MeshView& view,
                                                const Mesh& onMesh) {
  const auto at = static_cast<size_t>(seen.axisIndex(axis.name));
  if (axis.isFullAxis()) return view.axes[at];
  // The parts of the axis's list between the digits at which the sub-axis begins and ends.
  std::vector<AxisRef> out;
  int64_t begin = 1; // the number of blocks of the parts before
  const int64_t first = axis.pre, last = axis.pre * axis.size;
  for (const AxisRef& a : view.axes[at]) {
    const int64_t size = onMesh.axisSize(a), end = begin * size;
    const int64_t from = std::max(begin, first), to = std::min(end, last);
    if (from < to) {
      if (from % begin != 0 || to % from != 0 || end % to != 0) return std::nullopt;
      const int64_t pre = a.isFullAxis() ? 1 : a.pre;
      out.push_back(onMesh.canonical({a.name, pre * (from / begin), to / from}));
    }
    begin = end;
  }
  return out;
}

std::optional<Sharding> throughView(const Sharding& s, const Mesh& seen, const MeshView& view, MeshId on,
                                    const Mesh& onMesh) {
  Sharding out;
  out.mesh = on;
  for (const DimSharding& d : s.dims) {
    DimSharding dim = d;
    dim.parts.clear();
    for (const DimPart& p : d.parts) {
      if (!p.isAxis()) {
        dim.parts.push_back(p);
        continue;
      }
      auto axes = throughView(p.axis, seen, view, onMesh);
      if (!axes) return std::nullopt;
      for (const AxisRef& a : *axes) dim.parts.push_back({a, 0});
    }
    out.dims.push_back(std::move(dim));
  }
  for (const PendingAxis& p : s.pending) {
    auto axes = throughView(p.axis, seen, view, onMesh);
    if (!axes) return std::nullopt;
    for (const AxisRef& a : *axes) out.pending.push_back({a, p.kind});
  }
  for (const AxisRef& r : s.replicated) {
    auto axes = throughView(r, seen, view, onMesh);
    if (!axes) return std::nullopt;
    out.replicated.insert(out.replicated.end(), axes->begin(), axes->end());
  }
  canonicalize(out, onMesh);
  return out;
}

bool isOfWholeAxes(const AxisRef& axis, MeshId on, const ShardingTable& all) {
  if (axis.isFullAxis()) return true;
  const Mesh& mesh = all.mesh(on);
  for (uint32_t i = 0; i < all.numMeshes(); ++i) {
    const auto view = MeshId(i) == on ? std::nullopt : viewMesh(all.mesh(MeshId(i)), mesh);
    if (!view || !view->sameDevices) continue;
    bool begins = false, ends = false;
    for (const auto& seen : view->axes)
      for (const AxisRef& a : seen) {
        if (a.name != axis.name || a.isFullAxis()) continue;
        begins |= a.pre == axis.pre;
        ends |= a.pre * a.size == axis.pre * axis.size;
      }
    if (begins && ends) return true;
  }
  return false;
}

} // namespace dtc
