// Splits and joins axes: rebuilds the graph with every axis replaced.
#include "dtc/Kernel/schedule/Schedule.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <tuple>

namespace dtc::loops {
namespace {

// The replacement of an axis: a sum of terms over the new axes in an index, a list in a loop nest.
struct Replacement {
  std::vector<std::pair<AxisId, Size>> terms;
  std::vector<AxisId> loops;
};

class Rebuild {
public:
  Rebuild(const Kernel& from, std::vector<Axis> axes, std::vector<Replacement> by)
      : from_(from), by_(std::move(by)) {
    to_.buffers = from.buffers;
    to_.numInputs = from.numInputs;
    to_.numSizes = from.numSizes;
    to_.inOrder = from.inOrder;
    to_.axes = std::move(axes);
  }
  Kernel run() {
    for (const Nest& nest : from_.nests) {
      std::vector<NodeId> roots = rootsOf(from_, nest);
      forEachNode(from_, roots, [&](NodeId n) { made_[n.index] = rebuilt(from_[n]); });
      Nest copy;
      copy.domain = loops(nest.domain);
      for (AxisId a = 0; a < from_.axes.size(); ++a)
        if (nest.ordered >> a & 1)
          for (AxisId b : by_[a].loops) copy.ordered |= AxisSet(1) << b;
      for (const Store& s : nest.stores)
        copy.stores.push_back({s.buffer, affine(s.address), made_.at(s.value.index),
                               s.when.valid() ? made_.at(s.when.index) : NodeId(), s.combine, s.copied});
      to_.nests.push_back(std::move(copy));
    }
    return std::move(to_);
  }

private:
  std::vector<AxisId> loops(const std::vector<AxisId>& axes) {
    std::vector<AxisId> r;
    for (AxisId a : axes) r.insert(r.end(), by_[a].loops.begin(), by_[a].loops.end());
    return r;
  }
  AffineId affine(AffineId a) {
    AffineId r = to_.constant(0);
    for (const AffineTerm& t : from_[a].terms) {
      if (t.kind == AffineTerm::One) r = to_.sum(r, to_.size(t.coefficient));
      if (t.kind == AffineTerm::OfNode) r = to_.sum(r, to_.scaled(to_.ofNode(made_.at(t.id)), t.coefficient));
      if (t.kind == AffineTerm::OfAxis)
        for (const auto& [axis, stride] : by_[t.id].terms)
          r = to_.sum(r, to_.scaled(to_.axis(axis), stride * t.coefficient));
    }
    return r;
  }
  NodeId rebuilt(Node n) {
    for (NodeId& a : n.args) a = made_.at(a.index);
    n.axes = loops(n.axes);
    if (n.affine.valid()) n.affine = affine(n.affine);
    if (n.kind == NodeKind::Index) return to_.index(n.affine);
    if (n.kind == NodeKind::FloorDiv) return to_.index(to_.floorDiv(to_.ofNode(n.args[0]), n.integer));
    if (n.kind == NodeKind::Mod) return to_.index(to_.mod(to_.ofNode(n.args[0]), n.integer));
    return to_.add(std::move(n));
  }
  const Kernel& from_;
  Kernel to_;
  std::vector<Replacement> by_;
  std::unordered_map<uint32_t, NodeId> made_;
};

std::vector<Replacement> identity(const Kernel& k) {
  std::vector<Replacement> by(k.axes.size());
  for (AxisId a = 0; a < by.size(); ++a) by[a] = {{{a, {}}}, {a}};
  return by;
}

// The first axis that should be split to make a division exact, and the extent of its inner part.
std::optional<std::pair<AxisId, int64_t>> wantedSplit(const Kernel& k) {
  std::optional<std::pair<AxisId, int64_t>> wanted;
  AxisSet searched = 0; // the axis of an argmax is not split, since its index is the result
  for (const Nest& nest : k.nests)
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      if (k[n].reduce >= ReduceKind::ArgMax)
        for (AxisId a : k[n].axes) searched |= AxisSet(1) << a;
    });
  for (const Nest& nest : k.nests)
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      const Node& node = k[n];
      if (wanted || (node.kind != NodeKind::FloorDiv && node.kind != NodeKind::Mod)) return;
      if (k[node.args[0]].kind != NodeKind::Index) return;
      for (const AffineTerm& t : k[k[node.args[0]].affine].terms) {
        if (t.kind != AffineTerm::OfAxis || !t.coefficient.isStatic() || t.coefficient.number <= 0) continue;
        const Size& extent = k.axes[t.id].extent;
        if (!extent.isStatic() || (searched >> t.id & 1) || node.integer % t.coefficient.number != 0)
          continue;
        const int64_t inner = node.integer / t.coefficient.number;
        if (inner <= 1 || inner >= extent.number || extent.number % inner != 0) continue;
        wanted = {static_cast<AxisId>(t.id), inner};
        return;
      }
    });
  return wanted;
}

// True if `outer` and `inner` can be walked as one axis: they occur only together, outer with a step of
// inner's extent. Axes of unknown size stay separate, unless they are walked in order: a unit's number would
// have to be divided by their products.
bool joinable(const Kernel& k, AxisId outer, AxisId inner) {
  AxisSet ordered = 0;
  for (const Nest& nest : k.nests) ordered |= nest.ordered;
  if ((ordered >> outer & 1) != (ordered >> inner & 1)) return false;
  bool fine = (ordered >> outer & 1) || (k.axes[outer].extent.isStatic() && k.axes[inner].extent.isStatic());
  auto affine = [&](AffineId a) {
    const Kernel::Stride so = k.strideOf(a, outer), si = k.strideOf(a, inner);
    AxisSet direct = 0;
    for (const AffineTerm& t : k[a].terms)
      if (t.kind == AffineTerm::OfAxis) direct |= AxisSet(1) << t.id;
    fine &= !(direct >> outer & 1 && so.mixed) && !(direct >> inner & 1 && si.mixed);
    fine &= so.size == si.size * k.axes[inner].extent;
  };
  auto list = [&](const std::vector<AxisId>& axes) {
    auto it = std::find(axes.begin(), axes.end(), outer);
    const bool hasInner = std::find(axes.begin(), axes.end(), inner) != axes.end();
    if (it == axes.end())
      fine &= !hasInner;
    else
      fine &= it + 1 != axes.end() && it[1] == inner;
  };
  for (const Nest& nest : k.nests) {
    list(nest.domain);
    for (const Store& s : nest.stores) affine(s.address);
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      const Node& node = k[n];
      if (node.affine.valid()) affine(node.affine);
      if (!node.axes.empty()) {
        list(node.axes);
        fine &= node.reduce < ReduceKind::ArgMax || (node.axes[0] != outer && node.axes[0] != inner);
      }
      const AxisSet deps = k.dependsOn(n);
      fine &= (deps >> outer & 1) == (deps >> inner & 1);
    });
    if (!fine) return false;
  }
  return fine;
}

bool joinOnce(Kernel& k) {
  for (const Nest& nest : k.nests) {
    std::vector<std::vector<AxisId>> lists = {nest.domain};
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      if (!k[n].axes.empty()) lists.push_back(k[n].axes);
    });
    for (const std::vector<AxisId>& list : lists)
      for (size_t i = 0; i + 1 < list.size(); ++i) {
        const AxisId outer = list[i], inner = list[i + 1];
        if (!joinable(k, outer, inner)) continue;
        std::vector<Replacement> by = identity(k);
        std::vector<Axis> axes = k.axes;
        axes[inner].extent = axes[outer].extent * axes[inner].extent;
        by[outer] = {};
        k = Rebuild(k, std::move(axes), std::move(by)).run();
        return true;
      }
  }
  return false;
}

// The axes that are only reduced, those that are only looped over, and which pairs never occur in one
// expression. A reduction nested in another one, on whose axis it depends, runs inside of the loops of the
// stores: its axes are in neither set, since they cannot also be a loop of the store.
struct AxisUses {
  AxisSet reduced = 0, looped = 0;
  std::vector<AxisSet> together;
};

AxisUses usesOf(const Kernel& k) {
  AxisUses uses;
  uses.together.resize(k.axes.size());
  auto loops = [&](AxisSet set) { uses.looped |= set; };
  AxisSet within = 0;
  for (const Nest& nest : k.nests)
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      for (AxisId a : k[n].axes) uses.reduced |= AxisSet(1) << a;
    });
  for (const Nest& nest : k.nests) {
    for (AxisId a : nest.domain) loops(AxisSet(1) << a);
    for (const Store& s : nest.stores)
      loops(k.dependsOn(s.address) | (s.when.valid() ? k.dependsOn(s.when) : 0));
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      if (k.dependsOn(n) & uses.reduced)
        for (AxisId a : k[n].axes) within |= AxisSet(1) << a;
      for (AxisId a = 0; a < k.axes.size(); ++a)
        if (k.dependsOn(n) >> a & 1) uses.together[a] |= k.dependsOn(n);
    });
  }
  const AxisSet both = uses.reduced & uses.looped;
  uses.reduced &= ~(both | within), uses.looped &= ~both;
  return uses;
}

// True if a value loaded along `reduced` is loaded again along `looped`.
bool loadsAlike(const Kernel& k, AxisId reduced, AxisId looped) {
  std::vector<std::pair<uint32_t, std::vector<AffineTerm>>> first, again;
  auto less = [](const AffineTerm& a, const AffineTerm& b) {
    return std::tie(a.kind, a.id, a.coefficient) < std::tie(b.kind, b.id, b.coefficient);
  };
  for (const Nest& nest : k.nests)
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) {
      if (k[n].kind != NodeKind::Load) return;
      std::vector<AffineTerm> terms = k[k[n].affine].terms;
      const AxisSet deps = k.dependsOn(k[n].affine);
      for (AffineTerm& t : terms)
        if (t.kind == AffineTerm::OfAxis && t.id == reduced) t.id = looped;
      std::sort(terms.begin(), terms.end(), less);
      if (deps >> reduced & 1) first.emplace_back(k[n].buffer, terms);
      if (deps >> looped & 1) again.emplace_back(k[n].buffer, std::move(terms));
    });
  return std::any_of(first.begin(), first.end(),
                     [&](const auto& f) { return std::find(again.begin(), again.end(), f) != again.end(); });
}

bool shareOnce(Kernel& k) {
  const AxisUses uses = usesOf(k);
  for (AxisId r = 0; r < k.axes.size(); ++r)
    for (AxisId s = 0; s < k.axes.size(); ++s) {
      if (!(uses.reduced >> r & 1) || !(uses.looped >> s & 1) || k.axes[r].extent != k.axes[s].extent ||
          (uses.together[r] >> s & 1) || !loadsAlike(k, r, s))
        continue;
      std::vector<Replacement> by = identity(k);
      by[r] = {{{s, {}}}, {s}};
      k = Rebuild(k, k.axes, std::move(by)).run();
      return true;
    }
  return false;
}

} // namespace

std::vector<NodeId> rootsOf(const Kernel& k, const Nest& nest) {
  std::vector<NodeId> roots;
  for (const Store& s : nest.stores) {
    for (const AffineTerm& t : k[s.address].terms)
      if (t.kind == AffineTerm::OfNode) roots.push_back(NodeId(t.id));
    roots.push_back(s.value);
    if (s.when.valid()) roots.push_back(s.when);
  }
  return roots;
}

void splitDividedAxes(Kernel& k) {
  if (k.inOrder) return;
  while (k.axes.size() < kMaxAxes) {
    const auto wanted = wantedSplit(k);
    if (!wanted) return;
    const auto [axis, inner] = *wanted;
    std::vector<Axis> axes = k.axes;
    axes[axis].extent.number /= inner;
    axes.push_back({{inner, {}}, axes[axis].role});
    std::vector<Replacement> by = identity(k);
    const AxisId last = static_cast<AxisId>(axes.size() - 1);
    by[axis] = {{{axis, {inner, {}}}, {last, {}}}, {axis, last}};
    k = Rebuild(k, std::move(axes), std::move(by)).run();
  }
}

void shareAxes(Kernel& k) {
  if (k.inOrder) return;
  while (shareOnce(k)) {}
}

void joinAxes(Kernel& k) {
  for (const Nest& nest : k.nests) { // a sort's row and a scan's steps are dims of the tensor
    if (nest.sorts()) return;
    bool scans = false;
    forEachNode(k, rootsOf(k, nest), [&](NodeId n) { scans |= k[n].kind == NodeKind::Running; });
    if (scans) return;
  }
  while (joinOnce(k)) {}
}

} // namespace dtc::loops
