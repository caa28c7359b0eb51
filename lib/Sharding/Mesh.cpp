#include "dtc/Sharding/Canonical.h"
#include <unordered_map>

namespace dtc {
namespace {

// The product of the sizes of the axes minor to axis `i`.
int64_t strideOf(const Mesh& m, size_t i) {
  int64_t stride = 1;
  for (size_t j = i + 1; j < m.axes.size(); ++j) stride *= m.axes[j].size;
  return stride;
}

// A sub-axis as a digit of the coordinate's row-major index: (coordinate / stride) % size.
struct Digit {
  int64_t stride = 1, size = 1;
};
Digit digitOf(const Mesh& m, const AxisRef& a) {
  const int i = m.axisIndex(a.name);
  if (i < 0) return {};
  const int64_t fullSize = m.axes[static_cast<size_t>(i)].size, stride = strideOf(m, static_cast<size_t>(i));
  if (a.isFullAxis()) return {stride, fullSize};
  return {stride * (fullSize / (a.pre * a.size)), a.size};
}

// The position of the axis of that name, from a per-thread index of the most recent axes; -1 if unknown
// there. A stale index is harmless, because its answer is verified.
int remembered(const std::vector<MeshAxis>& axes, StrId name) {
  struct Index {
    const MeshAxis* of = nullptr;
    size_t size = 0;
    std::unordered_map<StrId, size_t> at;
  };
  static thread_local Index index;
  if (index.of != axes.data() || index.size != axes.size()) {
    index = {axes.data(), axes.size(), {}};
    for (size_t i = 0; i < axes.size(); ++i) index.at.emplace(axes[i].name, i);
  }
  const auto found = index.at.find(name);
  const bool holds = found != index.at.end() && axes[found->second].name == name;
  return holds ? static_cast<int>(found->second) : -1;
}

} // namespace

int64_t Mesh::numDevices() const {
  int64_t n = 1;
  for (const MeshAxis& a : axes) n *= a.size;
  return n;
}

int Mesh::axisIndex(StrId axisName) const {
  constexpr size_t kFew = 16; // a linear search is as fast for so few
  if (axes.size() > kFew)
    if (const int at = remembered(axes, axisName); at >= 0) return at;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == axisName) return static_cast<int>(i);
  return -1;
}

int64_t Mesh::axisSize(const AxisRef& a) const {
  if (!a.isFullAxis()) return a.size;
  const int i = axisIndex(a.name);
  return i < 0 ? 1 : axes[static_cast<size_t>(i)].size;
}

int64_t Mesh::indexAlong(const AxisRef& a, int64_t coordinate) const {
  const Digit d = digitOf(*this, a);
  return coordinate / d.stride % d.size;
}

int64_t Mesh::indexAlong(std::span<const AxisRef> list, int64_t coordinate) const {
  int64_t index = 0;
  for (const AxisRef& a : list) index = index * axisSize(a) + indexAlong(a, coordinate);
  return index;
}

int64_t Mesh::sizeOf(std::span<const AxisRef> list) const {
  int64_t size = 1;
  for (const AxisRef& a : list) size *= axisSize(a);
  return size;
}

std::vector<int64_t> Mesh::groupOf(std::span<const AxisRef> list, int64_t coordinate) const {
  std::vector<Digit> digits;
  for (const AxisRef& a : list) {
    digits.push_back(digitOf(*this, a));
    coordinate -= coordinate / digits.back().stride % digits.back().size * digits.back().stride;
  }
  std::vector<int64_t> group(static_cast<size_t>(sizeOf(list)));
  for (size_t i = 0; i < group.size(); ++i) {
    auto index = static_cast<int64_t>(i);
    int64_t p = coordinate;
    for (size_t d = digits.size(); d-- > 0; index /= digits[d].size)
      p += index % digits[d].size * digits[d].stride;
    group[i] = p;
  }
  return group;
}

bool isUnit(const AxisRef& a, const Mesh& mesh) {
  if (!a.isFullAxis()) return a.size == 1;
  const int i = mesh.axisIndex(a.name);
  return i >= 0 && mesh.axes[static_cast<size_t>(i)].size == 1;
}

AxisRef Mesh::canonical(AxisRef a) const {
  if (!a.isFullAxis() && a.pre == 1 && a.size == axisSize({a.name})) a.size = 0;
  if (a.isFullAxis()) a.pre = 1;
  return a;
}

bool overlaps(const AxisRef& a, const AxisRef& b, const Mesh& mesh) {
  if (a.name != b.name) return false;
  if (a.isFullAxis() || b.isFullAxis()) return true;
  const int64_t endA = a.pre * mesh.axisSize(a), endB = b.pre * mesh.axisSize(b);
  // Disjoint if one ends on a digit boundary at or before the other's begin.
  return b.pre % endA != 0 && a.pre % endB != 0;
}

} // namespace dtc
