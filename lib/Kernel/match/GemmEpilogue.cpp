// The epilogue of a kernel's matrix product: the remaining expressions, over a window of the product's axes or over
// all of them.
#include "dtc/Kernel/schedule/Schedule.h"
#include "match/Gemm.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

// True if the form is one walk along all the axes, outermost first.
bool oneWalk(const Kernel& k, AffineId a, const std::vector<AxisId>& axes) {
  std::vector<Size> strides(axes.size(), Size{0, {}});
  std::vector<bool> found(axes.size());
  for (const AffineTerm& t : k[a].terms) {
    if (t.kind != AffineTerm::OfAxis) continue;
    auto it = std::find(axes.begin(), axes.end(), static_cast<AxisId>(t.id));
    if (it == axes.end()) continue;
    const auto i = static_cast<size_t>(it - axes.begin());
    if (found[i]) return false;
    found[i] = true;
    strides[i] = t.coefficient;
  }
  for (size_t i = 0; i + 1 < axes.size(); ++i)
    if (strides[i] != strides[i + 1] * k.axes[axes[i + 1]].extent) return false;
  return true;
}

// Rebuilds a kernel without its matrix product.
class EpilogueBuilder {
public:
  EpilogueBuilder(const Kernel& from, NodeId product, const Store& at, const std::optional<Store>& aux,
                  std::span<const GemmAxis> axes, EpilogueRange range)
      : from_(from), product_(product), at_(at), aux_(aux), axes_(axes), range_(range) {}

  std::optional<EpilogueKernel> run() {
    Nest rest;
    for (const Store& s : from_.nests[0].stores)
      if (s.buffer != at_.buffer && (!aux_ || s.buffer != aux_->buffer)) rest.stores.push_back(s);
    // Read by all others before it is overwritten.
    if (at_.value != product_) rest.stores.push_back(at_);
    if (rest.stores.empty()) return std::nullopt;
    makeBuffers(rest);
    to_.numSizes = from_.numSizes;
    if (range_ == EpilogueRange::All)
      makeAllAxes();
    else
      makeWindows();
    const std::vector<NodeId> roots = rootsOf(from_, rest);
    forEachNode(
        from_, roots, [&](NodeId n) { made_[n.index] = n == product_ ? loaded() : rebuilt(from_[n]); },
        product_);
    Nest nest;
    for (AxisId a = 0; a < to_.axes.size(); ++a) nest.domain.push_back(a);
    for (const Store& s : rest.stores)
      nest.stores.push_back({buffer_.at(s.buffer), affine(s.address), made_.at(s.value.index)});
    to_.nests.push_back(std::move(nest));
    if (range_ == EpilogueRange::All) joinAxes(to_);
    return std::move(out_);
  }

private:
  void makeBuffers(const Nest& rest) {
    std::vector<bool> used(from_.buffers.size());
    used[at_.buffer] = true;
    for (const Store& s : rest.stores) used[s.buffer] = true;
    forEachNode(
        from_, rootsOf(from_, rest),
        [&](NodeId n) {
          if (n != product_ && from_[n].kind == NodeKind::Load) used[from_[n].buffer] = true;
        },
        product_);
    for (uint32_t b = 0; b < used.size(); ++b) {
      if (!used[b]) continue;
      buffer_[b] = static_cast<uint32_t>(to_.buffers.size());
      to_.buffers.push_back(from_.buffers[b]);
      (b < from_.numInputs ? out_.inputs : out_.outputs).push_back(b);
    }
    to_.numInputs = static_cast<uint32_t>(out_.inputs.size());
  }

  // The axes as they are, in the order of the product's elements in memory where that is known.
  void makeAllAxes() {
    std::vector<AxisId> parts;
    for (const GemmAxis& g : axes_) parts.insert(parts.end(), g.parts.begin(), g.parts.end());
    const auto stride = [&](AxisId a) { return from_.strideOf(at_.address, a).size; };
    if (std::ranges::all_of(parts, [&](AxisId a) { return stride(a).isStatic(); }))
      std::ranges::sort(parts, {}, [&](AxisId a) { return std::pair(-stride(a).number, a); });
    for (AxisId a : parts) part_[a] = to_.axis(to_.addAxis(from_.axes[a].extent));
  }

  // Each axis of the matrix product is one of the window, from `begin` on.
  void makeWindows() {
    for (const GemmAxis& g : axes_) {
      const uint32_t begin = to_.numSizes++, count = to_.numSizes++;
      if (g.parts.empty()) continue;
      const AxisId axis = to_.addAxis({1, {count}});
      const AffineId position = to_.sum(to_.axis(axis), to_.size({1, {begin}}));
      positions_.push_back(position);
      groups_.push_back(g.parts);
      AffineId rest = position;
      for (size_t i = g.parts.size(); i-- > 0;) {
        const Size& extent = from_.axes[g.parts[i]].extent;
        if (i == 0) {
          part_[g.parts[i]] = rest;
          break;
        }
        if (!extent.isStatic()) break; // joinsInEpilogue: not used there
        part_[g.parts[i]] = to_.mod(rest, std::max<int64_t>(extent.number, 1));
        rest = to_.floorDiv(rest, std::max<int64_t>(extent.number, 1));
      }
    }
  }

  NodeId loaded() { return to_.load(buffer_.at(at_.buffer), affine(at_.address), {}); }

  AffineId affine(AffineId a) {
    AffineId r = to_.constant(0);
    AxisSet walked = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!oneWalk(from_, a, groups_[g])) continue;
      for (AxisId part : groups_[g]) walked |= AxisSet(1) << part;
      for (const AffineTerm& t : from_[a].terms)
        if (t.kind == AffineTerm::OfAxis && t.id == groups_[g].back())
          r = to_.sum(r, to_.scaled(positions_[g], t.coefficient));
    }
    for (const AffineTerm& t : from_[a].terms) {
      if (t.kind == AffineTerm::One) r = to_.sum(r, to_.size(t.coefficient));
      if (t.kind == AffineTerm::OfNode) r = to_.sum(r, to_.scaled(to_.ofNode(made_.at(t.id)), t.coefficient));
      if (t.kind == AffineTerm::OfAxis && !(walked >> t.id & 1))
        r = to_.sum(r, to_.scaled(part_.at(static_cast<AxisId>(t.id)), t.coefficient));
    }
    return r;
  }

  NodeId rebuilt(Node n) {
    for (NodeId& a : n.args) a = made_.at(a.index);
    if (n.affine.valid()) n.affine = affine(n.affine);
    if (n.kind == NodeKind::Load) n.buffer = buffer_.at(n.buffer);
    if (n.kind == NodeKind::Index) return to_.index(n.affine);
    if (n.kind == NodeKind::FloorDiv) return to_.index(to_.floorDiv(to_.ofNode(n.args[0]), n.integer));
    if (n.kind == NodeKind::Mod) return to_.index(to_.mod(to_.ofNode(n.args[0]), n.integer));
    return to_.add(std::move(n));
  }

  const Kernel& from_;
  NodeId product_;
  Store at_;
  const std::optional<Store>& aux_;
  std::span<const GemmAxis> axes_;
  EpilogueRange range_;
  EpilogueKernel out_;
  Kernel& to_ = out_.kernel;
  std::unordered_map<uint32_t, uint32_t> buffer_;
  std::unordered_map<uint32_t, NodeId> made_;
  // the axes of `from_` that each axis of the window corresponds to
  std::vector<std::vector<AxisId>> groups_;
  std::vector<AffineId> positions_;
  std::unordered_map<AxisId, AffineId> part_;
};

} // namespace

bool joinsInEpilogue(const Kernel& k, NodeId product, const std::vector<AxisId>& parts) {
  bool known = true, walk = true;
  for (size_t i = 1; i < parts.size(); ++i) known &= k.axes[parts[i]].extent.isStatic();
  if (known) return true;
  forEachNode(
      k, rootsOf(k, k.nests[0]),
      [&](NodeId n) {
        if (n != product && k[n].affine.valid()) walk &= oneWalk(k, k[n].affine, parts);
      },
      product);
  for (const Store& s : k.nests[0].stores) walk &= oneWalk(k, s.address, parts);
  return walk;
}

std::optional<EpilogueKernel> epilogueOf(const Kernel& k, NodeId product, const Store& at,
                                         const std::optional<Store>& aux, std::span<const GemmAxis> axes,
                                         EpilogueRange range) {
  return EpilogueBuilder(k, product, at, aux, axes, range).run();
}

} // namespace dtc
