#include "dtc/Passes/OptimizeCollectives.h"
#include "PartitionReshard.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Passes/Clone.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>

namespace dtc {

namespace {

std::vector<AxisRef> axesOf(const Module& m, OpId o) {
  std::vector<AxisRef> axes;
  for (AttrId id : m.attrs[m.attr(o, "axes")].list) {
    const Attr& a = m.attrs[id];
    axes.push_back(a.kind == Attr::Axis ? a.axis : AxisRef{a.text});
  }
  return axes;
}

class Optimizer {
public:
  Optimizer(Module& m, FuncId f, Diagnostics& diags) : m_(m), diags_(diags), mesh_(meshOfFunction(m, f)) {
    const UseCounts uses(m);
    for (uint32_t v = 0; v < m.values.size(); ++v) uses_.push_back(uses[ValueId(v)]);
    const OpRegistry& ops = *m.registry;
    allReduce_ = ops.find("all_reduce");
    allGather_ = ops.find("all_gather");
    allSlice_ = ops.find("all_slice");
  }

  // True where something changed.
  bool run(BlockId block) {
    bool changed = false;
    std::vector<OpId> out;
    std::vector<OpId> seen; // collectives of this block, for twins
    Builder b(m_, block, out, diags_);
    b.mesh = mesh_;
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      for (ValueId& v : m_.operands(o)) v = map_(v);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r) changed = run(m_.region(o, r)) || changed;
      if (!m_.record(o).isCollective() || m_.record(o).async != AsyncForm::None) {
        out.push_back(o);
        continue;
      }
      if (isUnused(o)) {
        changed = true;
        continue;
      }
      b.loc = m_[o].loc;
      if (ValueId v = better(o, seen, b)) {
        replace(m_.result(o), v);
        changed = true;
        continue;
      }
      out.push_back(o);
      seen.push_back(o);
    }
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map_(v);
    return changed;
  }

private:
  bool isUnused(OpId o) {
    uses_.resize(m_.values.size());
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (uses_[m_.result(o, r).index] != 0) return false;
    return true;
  }

  void replace(ValueId old, ValueId now) {
    map_.set(old, now);
    uses_.resize(m_.values.size());
    uses_[now.index] += uses_[old.index];
    uses_[old.index] = 0;
    if (!m_[now].name && m_[now].kind == ValueKind::OpResult) m_[now].name = m_[old].name;
  }

  // The value that the result of `o` may be taken from instead, or none.
  ValueId better(OpId o, const std::vector<OpId>& seen, Builder& b) {
    for (OpId s : seen)
      if (m_[s].kind == m_[o].kind && m_[s].attrs == m_[o].attrs &&
          std::ranges::equal(m_.operands(s), m_.operands(o)) &&
          m_[m_.result(s)].type == m_[m_.result(o)].type)
        return m_.result(s);
    if (m_[o].numOperands != 1) return {};
    const OpId before = m_.definingOp(m_.operand(o, 0));
    if (!before.valid() || std::ranges::find(seen, before) == seen.end()) return {};
    return joined(before, o, b);
  }

  bool sameAttr(OpId a, OpId b, std::string_view name) const { return m_.attr(a, name) == m_.attr(b, name); }
  // `dim` may be written from either end.
  int64_t dimOf(OpId o) const {
    const int64_t d = m_.attrs[m_.attr(o, "dim")].i;
    return d < 0 ? d + static_cast<int64_t>(m_.typeOf(m_.operand(o, 0)).rank()) : d;
  }

  // `o` works on what `p` gives.
  ValueId joined(OpId p, OpId o, Builder& b) {
    const OpKind first = m_[p].kind, second = m_[o].kind;
    const bool onlyUse = uses_[m_.result(p).index] == 1;
    const bool undoes =
        (first == allSlice_ && second == allGather_) || (first == allGather_ && second == allSlice_);
    if (undoes && dimOf(p) == dimOf(o) && sameAttr(p, o, "axes") && !m_.attr(p, "wire") &&
        !m_.attr(o, "wire") && m_[m_.operand(p, 0)].type == m_[m_.result(o)].type)
      return m_.operand(p, 0);
    if (!onlyUse) return {};
    if (first == allReduce_ && second == allSlice_) return scattered(p, o, b);
    if (first != second || !sameAttr(p, o, "wire")) return {};
    if (first == allReduce_ && sameAttr(p, o, "op")) return joinAxes(p, o, axesOf(m_, p), axesOf(m_, o), b);
    if (first == allGather_ && dimOf(p) == dimOf(o)) return joinAxes(p, o, axesOf(m_, o), axesOf(m_, p), b);
    if (first == allSlice_ && dimOf(p) == dimOf(o)) return joinAxes(p, o, axesOf(m_, p), axesOf(m_, o), b);
    return {};
  }

  // One collective over both lists of axes, major then minor.
  ValueId joinAxes(OpId p, OpId o, std::vector<AxisRef> axes, const std::vector<AxisRef>& minor, Builder& b) {
    const Mesh& mesh = m_.shardings.mesh(mesh_);
    for (const AxisRef& a : minor)
      for (const AxisRef& c : axes)
        if (overlaps(a, c, mesh)) return {};
    axes.insert(axes.end(), minor.begin(), minor.end());
    PartList parts;
    for (const AxisRef& a : axes) parts.push_back({a, 0});
    canonicalizeParts(parts, mesh);
    axes = DimSharding{parts}.axes();
    return remake(m_[o].kind, m_.operand(p, 0), o, axes, b);
  }

  // `o` again, on another operand and along other axes; its result has the same type.
  ValueId remake(OpKind kind, ValueId operand, OpId o, std::span<const AxisRef> axes, Builder& b) {
    const OpId made = m_.makeOp(kind, std::array{operand}, 1, m_[o].attrs, 0, m_[o].loc);
    m_.setAttr(made, "axes", axesAttr(m_, axes));
    m_[made].parent = b.parent;
    m_[m_.result(made)].type = m_[m_.result(o)].type;
    m_[m_.result(made)].loc = m_[m_.result(o)].loc;
    b.out.push_back(made);
    return m_.result(made);
  }

  // all_slice of all_reduce: each device receives its piece alone. Axes that are reduced but not cut follow, on the piece.
  ValueId scattered(OpId p, OpId o, Builder& b) {
    const std::vector<AxisRef> cut = axesOf(m_, o);
    std::vector<AxisRef> rest = axesOf(m_, p);
    for (const AxisRef& a : cut)
      if (std::erase(rest, a) == 0) return {};
    const TypeId type = m_[m_.result(o)].type;
    AttrId reduction = m_.attr(p, "op");
    if (!reduction) reduction = m_.attrs.string(m_.strings.intern("sum"));
    const OpId scatter =
        b.op("reduce_scatter", std::array{m_.operand(p, 0)},
             {{"axes", axesAttr(m_, cut)}, {"dim", m_.attr(o, "dim")}, {"op", reduction}}, std::array{type});
    if (AttrId wire = m_.attr(p, "wire")) m_.setAttr(scatter, "wire", wire);
    if (rest.empty()) return m_.result(scatter);
    const ValueId v = remake(allReduce_, m_.result(scatter), p, rest, b);
    m_[v].type = type;
    return v;
  }

  Module& m_;
  Diagnostics& diags_;
  MeshId mesh_;
  std::vector<uint32_t> uses_; // by value; a replaced value's uses count for what stands for it
  OpKind allReduce_, allGather_, allSlice_;
  ValueMap map_;
};

} // namespace

bool optimizeCollectives(Module& m, Diagnostics& diags) {
  for (FuncId f : m.order) {
    if (!m[f].spmd) continue;
    while (Optimizer(m, f, diags).run(m[f].body)) {} // each round leaves fewer collectives
  }
  return !diags.hasErrors();
}

bool optimizeCollectivesPass(Module& m, const PassOptions&, Diagnostics& diags) {
  return optimizeCollectives(m, diags);
}

PassInfo optimizeCollectivesInfo() {
  return {.name = "optimize-collectives",
          .summary = "joins and drops collectives that say the same in more messages",
          .why = "After partition, which plans each change of sharding by itself; before fuse, so that "
                 "kernels are built "
                 "around what really travels, and before communication contracts are counted. Equal "
                 "collectives become one, "
                 "a slice of a reduction a reduce_scatter, neighbours of one kind one.",
          .needs = Level::Local,
          .gives = Level::Local,
          .run = optimizeCollectivesPass,
          .before = R"(mesh @pod = [tp=4]

spmd func @main(%x: f32[8, 16] of f32[8, 16] @pod{_, _ | sum(tp)})
    -> (%y: f32[2, 16] of f32[8, 16] @pod{tp, _}) {
  %0 = all_reduce %x {axes = [tp]} : f32[8, 16]
  %y = all_slice %0 {axes = [tp], dim = 0} : f32[2, 16]
  return %y
}
)",
          .after = R"(mesh @pod = [tp=4]

spmd func @main(%x: f32[8, 16] of f32[8, 16] @pod{_, _ | sum(tp)})
    -> (%y: f32[2, 16] of f32[8, 16] @pod{tp, _}) {
  %y = reduce_scatter %x {axes = [tp], dim = 0} : f32[2, 16]
  return %y
}
)"};
}

} // namespace dtc
