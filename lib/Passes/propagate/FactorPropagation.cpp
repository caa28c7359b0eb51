#include "propagate/FactorPropagation.h"
#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <utility>

namespace dtc {

namespace {

using Axes = std::vector<AxisRef>; // major to minor

// The sharding of one factor in one tensor.
struct FactorSharding {
  uint16_t factor = 0;
  Axes axes;
  // the part of the dim's list that straddles the factor's end; the factor then keeps its sharding
  Axes overflow;
  bool closed = false;    // no axis may be appended
  bool minorMost = false; // last of its dim: may be sharded unevenly
  bool plain = false;     // the only factor of its dim
  PartList strided;       // of a plain factor with unsharded factors in its dim's list; moves as one unit
};

// One tensor, by its factors.
struct Projected {
  std::vector<FactorSharding> shardings; // in the order of dims, major to minor within a dim
  Axes kept;                             // axes of dims that have no factor
  const FactorSharding* find(uint16_t factor) const {
    for (const FactorSharding& c : shardings)
      if (c.factor == factor) return &c;
    return nullptr;
  }
  FactorSharding* find(uint16_t factor) {
    return const_cast<FactorSharding*>(std::as_const(*this).find(factor));
  }
};

// --- Axes ---

int64_t endOf(const AxisRef& a, const Mesh& mesh) { return a.pre * mesh.axisSize(a); }

// True if `a` is the major part of `b`, or equal to it.
bool beginsAxis(const AxisRef& a, const AxisRef& b, const Mesh& mesh) {
  return a.name == b.name && a.pre == b.pre && mesh.axisSize(b) % mesh.axisSize(a) == 0;
}

bool contains(const AxisRef& outer, const AxisRef& inner, const Mesh& mesh) {
  return outer.name == inner.name && inner.pre % outer.pre == 0 &&
         endOf(outer, mesh) % endOf(inner, mesh) == 0;
}

// True if the axis can be split so that both consist of its parts.
bool coexist(const AxisRef& a, const AxisRef& b, const Mesh& mesh) {
  std::array<int64_t, 4> ends = {a.pre, b.pre, endOf(a, mesh), endOf(b, mesh)};
  std::sort(ends.begin(), ends.end());
  for (size_t i = 0; i + 1 < ends.size(); ++i)
    if (ends[i + 1] % ends[i] != 0) return false;
  return true;
}

// The longest major part of `a` that is disjoint from `other`.
std::optional<AxisRef> without(const AxisRef& a, const AxisRef& other, const Mesh& mesh) {
  if (a.name != other.name) return a;
  if (!coexist(a, other, mesh)) return std::nullopt;
  if (!overlaps(a, other, mesh)) return a;
  if (a.pre >= other.pre) return std::nullopt;
  return mesh.canonical({a.name, a.pre, other.pre / a.pre});
}

std::optional<AxisRef> without(AxisRef a, const Axes& others, const Mesh& mesh) {
  for (const AxisRef& other : others) {
    auto rest = without(a, other, mesh);
    if (!rest) return std::nullopt;
    a = *rest;
  }
  return a;
}

// True if `all` starts with `begin`.
bool beginsList(const Axes& begin, const Axes& all, const Mesh& mesh) {
  if (begin.empty()) return true;
  if (begin.size() > all.size()) return false;
  for (size_t i = 0; i + 1 < begin.size(); ++i)
    if (begin[i] != all[i]) return false;
  return begin.back() == all[begin.size() - 1] || beginsAxis(begin.back(), all[begin.size() - 1], mesh);
}
bool goesOnFrom(const Axes& begin, const Axes& all, const Mesh& mesh) {
  return begin != all && beginsList(begin, all, mesh);
}

int64_t sizeOf(const Axes& axes, const Mesh& mesh) { return mesh.sizeOf(axes); }

// Appends, merging with the last axis if contiguous.
void appendAxis(Axes& axes, const AxisRef& a, const Mesh& mesh) {
  if (!axes.empty()) {
    AxisRef& last = axes.back();
    if (last.name == a.name && !last.isFullAxis() && !a.isFullAxis() && last.pre * last.size == a.pre) {
      last = mesh.canonical({a.name, last.pre, last.size * a.size});
      return;
    }
  }
  axes.push_back(mesh.canonical(a));
}

// --- To factors and back ---

class Projector {
public:
  Projector(const Rule& rule, const Mesh& mesh) : rule_(rule), mesh_(mesh) {}

  Projected project(const FactorTensor& t) const {
    Projected out;
    if (!t.map) return out;
    out.shardings.reserve(t.dims.size());
    for (size_t d = 0; d < t.map->dims.size(); ++d) projectDim(t.map->dims[d], t.dims[d], out);
    return out;
  }

  // The dims of the tensor, from its factors. Dims without factors are unchanged.
  std::vector<DimSharding> dimsOf(const FactorTensor& t, const Projected& p) const {
    std::vector<DimSharding> dims(t.dims.begin(), t.dims.end());
    size_t next = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const DimMap& map = t.map->dims[d];
      if (isOwn(map)) continue;
      const size_t end = next + map.sharded().size();
      if (!dims[d].strided())
        dims[d].parts = p.shardings[next].strided.empty() ? partsOf(p, next, end) : p.shardings[next].strided;
      next = end;
    }
    return dims;
  }

private:
  static bool isOwn(const DimMap& map) { return map.sharded().empty(); }

  void projectDim(const DimMap& map, const DimSharding& sharding, Projected& out) const {
    if (isOwn(map)) {
      const Axes axes = sharding.axes();
      out.kept.insert(out.kept.end(), axes.begin(), axes.end());
      return;
    }
    Axes rest; // up to the first unsharded factor; the rest of the list does not refer to the op's factors
    size_t taken = 0;
    for (; taken < sharding.parts.size() && sharding.parts[taken].isAxis(); ++taken)
      rest.push_back(sharding.parts[taken].axis);
    const bool strided = taken < sharding.parts.size();
    bool blocked = false;
    const std::span<const Term> terms = map.sharded();
    for (size_t i = 0; i < terms.size(); ++i) {
      FactorSharding projected;
      projected.plain = map.plain();
      if (projected.plain && strided) projected.strided = sharding.parts;
      projected.factor = terms[i].factor;
      projected.minorMost = i + 1 == terms.size();
      projected.closed = blocked || strided || !sharding.open;
      if (!blocked) fill(projected, rest);
      blocked = blocked || !projected.overflow.empty();
      out.shardings.push_back(std::move(projected));
    }
    for (; strided && taken < sharding.parts.size(); ++taken)
      if (sharding.parts[taken].isAxis()) out.shardings.back().overflow.push_back(sharding.parts[taken].axis);
  }

  // Takes from the front of `rest` what fits into the factor; splits an axis that is longer.
  void fill(FactorSharding& projected, Axes& rest) const {
    if (projected.minorMost) {
      for (const AxisRef& a : rest) appendAxis(projected.axes, a, mesh_);
      rest.clear();
      return;
    }
    const Dim size = rule_.factors[projected.factor].size;
    int64_t left = size.isStatic() ? size.value() : 0; // the capacity of a symbolic factor is unknown
    size_t used = 0;
    while (left > 0 && used < rest.size()) {
      AxisRef& a = rest[used];
      const int64_t n = mesh_.axisSize(a), common = std::gcd(left, n);
      if (n != 1 && common == 1) break;
      if (n > common) { // the major part belongs to this factor, the minor part to the next one
        projected.axes.push_back(mesh_.canonical({a.name, a.pre, common}));
        a = {a.name, a.pre * common, n / common};
        left /= common;
        continue;
      }
      projected.axes.push_back(mesh_.canonical(a));
      left /= n;
      ++used;
    }
    rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(used));
    if (left == 1) return;
    for (const AxisRef& a : rest) appendAxis(projected.overflow, a, mesh_);
    rest.clear();
  }

  // A list continues in the next factor only if it fully shards this one; otherwise it would be strided.
  PartList partsOf(const Projected& p, size_t begin, size_t end) const {
    Axes axes;
    for (size_t i = begin; i < end; ++i) {
      const FactorSharding& projected = p.shardings[i];
      for (const AxisRef& a : projected.axes) appendAxis(axes, a, mesh_);
      for (const AxisRef& a : projected.overflow) appendAxis(axes, a, mesh_);
      const Dim size = rule_.factors[projected.factor].size;
      if (!projected.overflow.empty() || !size.isStatic() || sizeOf(projected.axes, mesh_) < size.value())
        break;
    }
    PartList parts;
    for (const AxisRef& a : axes) parts.push_back({a, 0});
    return parts;
  }

  const Rule& rule_;
  const Mesh& mesh_;
};

// --- Propagation ---

class Mover {
public:
  Mover(const FactorPropagation& moves, const FlowTable& flows)
      : m_(moves), flows_(flows), projector_(moves.rule, moves.mesh) {
    tensors_.reserve(moves.tensors.size());
    for (const FactorTensor& t : moves.tensors) tensors_.push_back(projector_.project(t));
  }

  // True if all tensors are sharded alike along every factor.
  bool agreed() const {
    for (uint16_t f = 0; f < m_.rule.factors.size(); ++f) {
      const FactorSharding* first = nullptr;
      for (const Projected& t : tensors_) {
        const FactorSharding* projected = t.find(f);
        if (!projected) continue;
        if (first && (first->axes != projected->axes || first->strided != projected->strided)) return false;
        first = projected;
      }
    }
    return true;
  }

  std::vector<TensorUpdate> run() {
    bool any = false;
    for (uint16_t f = 0; f < m_.rule.factors.size(); ++f) {
      wanted_.push_back(agreedAxes(f));
      strided_.push_back(flows_[f] == Flow::None ? PartList() : stridedList(f));
      any = any || !wanted_.back().empty() || !strided_.back().empty();
    }
    if (!any) return {};
    const std::vector<uint16_t> order = factorOrder();
    std::vector<bool> grown(tensors_.size());
    for (size_t t = m_.numOperands; t < tensors_.size(); ++t) grown[t] = grow(t, order, false);
    for (size_t t = 0; t < m_.numOperands; ++t) grown[t] = grow(t, order, m_.elementwise);
    std::vector<TensorUpdate> moved;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (!grown[t]) continue;
      std::vector<DimSharding> dims = projector_.dimsOf(m_.tensors[t], tensors_[t]);
      if (!std::equal(dims.begin(), dims.end(), m_.tensors[t].dims.begin()))
        moved.push_back({t, std::move(dims)});
    }
    return moved;
  }

private:
  // Merges two lists: if one is a prefix of the other, the longer one (if `grows`); otherwise the common
  // prefix.
  static Axes merge(const Axes& a, const Axes& b, bool& grows, const Mesh& mesh) {
    Axes out;
    size_t i = 0;
    for (; i < a.size() && i < b.size(); ++i) {
      if (a[i] == b[i]) {
        out.push_back(a[i]);
      } else if (beginsAxis(b[i], a[i], mesh)) {
        const bool last = i + 1 == b.size();
        out.push_back(last ? a[i] : b[i]);
        if (!last) return grows = false, out;
      } else if (beginsAxis(a[i], b[i], mesh)) {
        const bool longer = grows && i + 1 == a.size();
        out.push_back(longer ? b[i] : a[i]);
        if (!longer) return grows = false, out;
      } else {
        return grows = false, out;
      }
    }
    out.insert(out.end(), a.begin() + static_cast<ptrdiff_t>(i), a.end());
    if (grows && i < b.size()) out.insert(out.end(), b.begin() + static_cast<ptrdiff_t>(i), b.end());
    return out;
  }

  // The axes to propagate along a factor: from operands and results, or from one side where the other does
  // not conflict.
  Axes agreedAxes(uint16_t f) const {
    Axes axes;
    bool grows = true;
    if (flows_[f] == Flow::None) return axes;
    auto fold = [&](size_t begin, size_t end) {
      for (size_t t = begin; t < end; ++t)
        if (const FactorSharding* projected = tensors_[t].find(f))
          axes = merge(axes, projected->axes, grows, m_.mesh);
    };
    const bool backward = flows_[f] == Flow::Backward;
    const size_t n = m_.numOperands, all = tensors_.size();
    backward ? fold(n, all) : fold(0, n);
    if (flows_[f] != Flow::Both) grows = false;
    backward ? fold(0, n) : fold(n, all);
    return axes;
  }

  // The first strided list along a factor along which no tensor is sharded otherwise.
  PartList stridedList(uint16_t f) const {
    PartList list;
    const FactorKind kind = m_.rule.factors[f].kind;
    if (kind != FactorKind::Pass && kind != FactorKind::Place) return list; // sizes may differ
    for (const Projected& t : tensors_) {
      const FactorSharding* projected = t.find(f);
      if (!projected) continue;
      if (projected->strided.empty() && (!projected->axes.empty() || !projected->overflow.empty())) return {};
      if (list.empty()) list = projected->strided;
    }
    return list;
  }

  // Priority: the largest tensor first; for elementwise ops the most sharded one; then the earlier one.
  std::vector<uint16_t> factorOrder() const {
    struct Source {
      int64_t size = -1, index = -1;
    };
    std::vector<Source> sources(wanted_.size());
    for (size_t t = 0; t < tensors_.size(); ++t) {
      int64_t size = 1;
      for (const FactorSharding& c : tensors_[t].shardings) {
        const Dim n = m_.rule.factors[c.factor].size;
        size = checkedMul(size, n.isStatic() ? n.value() : 1).value_or(INT64_MAX);
      }
      for (const FactorSharding& c : tensors_[t].shardings) {
        const bool source = !wanted_[c.factor].empty() && beginsList(wanted_[c.factor], c.axes, m_.mesh);
        if (source && size > sources[c.factor].size) sources[c.factor] = {size, static_cast<int64_t>(t)};
      }
    }
    for (const FactorSharding& c : projector_.project(m_.primal).shardings)
      if (!c.axes.empty() && !wanted_[c.factor].empty() && beginsList(wanted_[c.factor], c.axes, m_.mesh))
        sources[c.factor].size = INT64_MAX;
    auto key = [&](uint16_t f) {
      const int64_t shards = m_.elementwise ? sizeOf(wanted_[f], m_.mesh) : 0;
      return std::tuple(-sources[f].size, -shards, sources[f].index, f);
    };
    std::vector<uint16_t> order(wanted_.size());
    std::iota(order.begin(), order.end(), uint16_t{0});
    std::sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) { return key(a) < key(b); });
    return order;
  }

  // `asResult`: no further than the results, now that they are updated. A replicated operand of an
  // elementwise op gains nothing from its neighbor's axes if the result cannot have them.
  bool grow(size_t t, const std::vector<uint16_t>& order, bool asResult) {
    bool grown = false;
    for (uint16_t f : order) {
      FactorSharding* projected = tensors_[t].find(f);
      if (!projected) continue;
      if (!strided_[f].empty()) {
        grown = takeStrided(t, *projected) || grown;
        continue;
      }
      Axes axes = wanted_[f];
      truncate(axes,
               [&](const AxisRef& a, int64_t before) { return fits(a, before, *projected, m_.tensors[t]); });
      if (!goesOnFrom(projected->axes, axes, m_.mesh)) continue;
      truncate(axes, [&](const AxisRef& a, int64_t) { return freeOfOthers(a, f, tensors_[t]); });
      if (m_.tiesAreNobodys)
        truncate(axes, [&](const AxisRef& a, int64_t) { return freeOfWishes(a, f, tensors_[t]); });
      if (axes.empty()) continue;
      for (size_t r = m_.numOperands; asResult && r < tensors_.size(); ++r)
        if (const FactorSharding* result = tensors_[r].find(f))
          if (goesOnFrom(result->axes, axes, m_.mesh)) axes = result->axes;
      if (!goesOnFrom(projected->axes, axes, m_.mesh)) continue;
      projected->axes = std::move(axes);
      grown = true;
    }
    return grown;
  }

  bool takeStrided(size_t t, FactorSharding& projected) const {
    if (!projected.plain || projected.closed || !projected.strided.empty()) return false;
    for (const FactorSharding& other : tensors_[t].shardings)
      if (other.factor != projected.factor && !disjoint(other.strided, strided_[projected.factor], m_.mesh))
        return false;
    for (const DimPart& p : strided_[projected.factor])
      if (p.isAxis() && (without(p.axis, m_.tensors[t].taken, m_.mesh) != p.axis ||
                         freeOfOthers(p.axis, projected.factor, tensors_[t]) != p.axis))
        return false;
    projected.strided = strided_[projected.factor];
    return true;
  }

  // Truncates the list at the first axis that `part` does not fully keep.
  template <class Part> void truncate(Axes& axes, Part&& part) const {
    int64_t before = 1;
    for (size_t i = 0; i < axes.size(); ++i) {
      const std::optional<AxisRef> kept = part(axes[i], before);
      if (!kept || *kept != axes[i]) {
        axes.resize(i);
        if (kept) axes.push_back(*kept);
        return;
      }
      before *= m_.mesh.axisSize(*kept);
    }
  }

  // The part of an axis that this factor of this tensor can take, after axes of total size `before`.
  std::optional<AxisRef> fits(const AxisRef& axis, int64_t before, const FactorSharding& projected,
                              const FactorTensor& tensor) const {
    const std::optional<AxisRef> a = without(axis, tensor.taken, m_.mesh);
    if (!a) return std::nullopt;
    for (const AxisRef& held : projected.axes)
      if (contains(held, *a, m_.mesh)) return a;
    if (!projected.closed && projected.overflow.empty()) {
      if (projected.minorMost) return a;
      const Dim size = m_.rule.factors[projected.factor].size;
      if (size.isStatic() && size.value() % before == 0) {
        const int64_t n = m_.mesh.axisSize(*a), common = std::gcd(size.value() / before, n);
        if (common == n) return a;
        if (common != 1) return m_.mesh.canonical({a->name, a->pre, common});
      }
    }
    if (!projected.axes.empty() && beginsAxis(projected.axes.back(), *a, m_.mesh))
      return projected.axes.back();
    return std::nullopt;
  }

  std::optional<AxisRef> freeOfOthers(AxisRef a, uint16_t factor, const Projected& tensor) const {
    auto rest = without(a, tensor.kept, m_.mesh);
    for (const FactorSharding& c : tensor.shardings) {
      if (!rest || c.factor == factor) continue;
      rest = without(*rest, c.overflow, m_.mesh);
      if (rest) rest = without(*rest, c.axes, m_.mesh);
    }
    return rest;
  }

  // … and with what its other factors are about to get.
  std::optional<AxisRef> freeOfWishes(AxisRef a, uint16_t factor, const Projected& tensor) const {
    std::optional<AxisRef> rest = a;
    for (const FactorSharding& c : tensor.shardings)
      if (rest && c.factor != factor) rest = without(*rest, wanted_[c.factor], m_.mesh);
    return rest;
  }

  const FactorPropagation& m_;
  const FlowTable& flows_;
  Projector projector_;
  std::vector<Projected> tensors_;
  std::vector<Axes> wanted_; // by factor
  std::vector<PartList> strided_;
};

} // namespace

std::vector<TensorUpdate> propagateAxes(const FactorPropagation& moves, const FlowTable& flows,
                                        bool& agreed) {
  Mover mover(moves, flows);
  agreed = mover.agreed();
  if (agreed) return {};
  return mover.run();
}

} // namespace dtc
