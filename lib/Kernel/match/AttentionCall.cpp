#include "match/AttentionCall.h"
#include <algorithm>

namespace dtc {

using namespace loops;

namespace {

class CallMatcher {
public:
  explicit CallMatcher(const Lowered& l) : l_(l), k_(l.kernel), a_(*l.kernel.attention) {}

  std::optional<AttentionCall> run(uint32_t dtypes) {
    call_.dtype = k_.buffers[k_[a_.keys].buffer].dtype;
    if (!(dtypes >> static_cast<int>(call_.dtype) & 1) || a_.parts || !a_.width || !score() || !bounds())
      return std::nullopt;
    if (!group()) return std::nullopt;
    const Store& y = k_.nests[0].stores[0];
    if (!load(a_.query, a_.row, a_.depth, AttentionCall::Q) ||
        !load(a_.keys, a_.key, a_.depth, AttentionCall::K) ||
        !load(a_.values, a_.key, a_.width, AttentionCall::V) || !store(y, a_.width, AttentionCall::Y))
      return std::nullopt;
    if (a_.lse && !store(k_.nests[0].stores[1], std::nullopt, AttentionCall::Lse)) return std::nullopt;
    call_.sizes = l_.sizes;
    call_.batch = formula(extent(batch_)), call_.keyHeads = formula(extent(head_));
    call_.heads = formula(extent(head_) * extent(group_));
    call_.rows = formula(extent(a_.row)), call_.keys = formula(k_.axes[a_.key].extent);
    call_.depth = formula(k_.axes[a_.depth].extent), call_.width = formula(extent(a_.width));
    return std::move(call_);
  }

private:
  using MaybeAxis = std::optional<AxisId>;
  [[nodiscard]] Size extent(MaybeAxis a) const { return a ? k_.axes[*a].extent : Size{}; }

  // The dot product, or a multiple of it.
  bool score() {
    if (a_.score == a_.product) return true;
    const Node& n = k_[a_.score];
    if (n.kind != NodeKind::Call || n.function != "mul") return false;
    const NodeId factor = n.args[0] == a_.product ? n.args[1] : n.args[0];
    if ((n.args[0] != a_.product && n.args[1] != a_.product) || k_[factor].kind != NodeKind::Number)
      return false;
    call_.scale = k_[factor].number;
    return true;
  }
  bool bounds() {
    for (AffineId b : a_.begins) {
      const std::optional<int64_t> first = offsetFromRow(b);
      if (!first) return false;
      call_.before = std::min(call_.before, -*first);
    }
    for (AffineId e : a_.ends) {
      const std::optional<int64_t> end = offsetFromRow(e);
      if (!end) return false;
      call_.after = std::min(call_.after, *end - 1);
    }
    return true;
  }
  // For row + number: the number.
  [[nodiscard]] std::optional<int64_t> offsetFromRow(AffineId bound) const {
    int64_t number = 0, slope = 0;
    for (const AffineTerm& t : k_[bound].terms) {
      if (!t.coefficient.isStatic()) return std::nullopt;
      if (t.kind == AffineTerm::One)
        number = t.coefficient.number;
      else if (t.kind == AffineTerm::OfAxis && a_.row && t.id == *a_.row)
        slope = t.coefficient.number;
      else
        return std::nullopt;
    }
    return slope == 1 ? std::optional(number) : std::nullopt;
  }

  // The axes around are a batch, heads of keys, and the query heads that share one of these. The last two are
  // one dim of the query's tensors.
  bool group() {
    std::vector<AxisId> own;
    for (AxisId g : a_.grid) {
      if (k_.axes[g].extent.is(1)) continue;
      const Size keys = stride(k_[a_.keys].affine, g), values = stride(k_[a_.values].affine, g);
      if (keys.is(0) != values.is(0)) return false;
      if (!keys.is(0)) {
        own.push_back(g);
        continue;
      }
      if (group_) return false;
      group_ = g;
    }
    if (own.size() > 2) return false;
    if (own.size() == 1 && group_ && !together(own[0])) {
      batch_ = own[0];
      return true;
    }
    if (own.empty()) return true;
    const bool last = !group_ || together(own.back());
    if (!last && !together(own[0])) return false;
    head_ = last ? own.back() : own[0];
    if (own.size() == 2) batch_ = last ? own[0] : own[1];
    return true;
  }
  [[nodiscard]] bool together(AxisId head) const {
    std::vector<AffineId> addresses = {k_[a_.query].affine};
    for (const Store& s : k_.nests[0].stores) addresses.push_back(s.address);
    return std::all_of(addresses.begin(), addresses.end(), [&](AffineId a) {
      return a.valid() && stride(a, head) == stride(a, group_) * extent(group_);
    });
  }
  [[nodiscard]] Size stride(AffineId a, MaybeAxis axis) const {
    return axis ? k_.strideOf(a, *axis).size : Size{0, {}};
  }

  bool load(NodeId n, MaybeAxis row, MaybeAxis column, AttentionCall::Which which) {
    const Node& node = k_[n];
    if (node.kind != NodeKind::Load || !node.args.empty() || k_.buffers[node.buffer].dtype != call_.dtype)
      return false;
    if (!stride(node.affine, column).is(1)) return false;
    AttentionCall::Tensor& t = call_.tensors[which];
    t.number = l_.inputs[node.buffer];
    return lay(node.affine, row, which == AttentionCall::Q ? group_ : std::nullopt, column, t);
  }
  bool store(const Store& s, MaybeAxis column, AttentionCall::Which which) {
    const DType dtype = which == AttentionCall::Lse ? DType::F32 : call_.dtype;
    if (s.when.valid() || !s.combine.empty() || k_.buffers[s.buffer].dtype != dtype) return false;
    if (column && !stride(s.address, column).is(1)) return false;
    AttentionCall::Tensor& t = call_.tensors[which];
    t.result = true;
    t.number = l_.outputs[s.buffer - k_.numInputs];
    return lay(s.address, a_.row, group_, column, t);
  }
  // The address has no terms except the tensor's base and its axes.
  bool lay(AffineId address, MaybeAxis row, MaybeAxis shared, MaybeAxis column,
           AttentionCall::Tensor& t) const {
    const MaybeAxis axes[] = {batch_, head_, row, shared, column};
    for (const AffineTerm& term : k_[address].terms) {
      if (term.kind == AffineTerm::One) {
        t.offset.terms.push_back(factorsOf(term.coefficient));
        continue;
      }
      const bool known =
          term.kind == AffineTerm::OfAxis &&
          std::any_of(std::begin(axes), std::end(axes), [&](MaybeAxis a) { return a == term.id; });
      if (!known || k_.strideOf(address, static_cast<AxisId>(term.id)).mixed) return false;
    }
    t.used = true;
    t.strides = {formula(stride(address, batch_)), formula(stride(address, shared ? shared : head_)),
                 formula(stride(address, row)), formula(stride(address, column))};
    return true;
  }

  const Lowered& l_;
  const Kernel& k_;
  const Attention& a_;
  MaybeAxis batch_, head_, group_;
  AttentionCall call_;
};

} // namespace

std::optional<AttentionCall> attentionCall(const Lowered& lowered, uint32_t dtypes) {
  if (!dtypes || !lowered.kernel.attention) return std::nullopt;
  return CallMatcher(lowered).run(dtypes);
}

} // namespace dtc
