// Merges equal collectives, and combines a collective with one that undoes or continues it.
#include "analysis/FusionForm.h"
#include "analysis/PartitionReshard.h"
#include "analysis/Within.h"
#include "collectives/CollectiveSteps.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/IR/infer/Varying.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Ops/OpName.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Sharding/Projection.h"
#include "dtc/Support/Result.h"
#include <algorithm>
#include <numeric>
#include <optional>

namespace dtc {

namespace {

class Joiner {
public:
  Joiner(Module& m, Diagnostics& diags) : m_(m), diags_(diags), kinds_(*m.registry), forms_(m) {
    const UseCounts uses(m);
    for (uint32_t v = 0; v < m.values.size(); ++v) uses_.push_back(uses[ValueId(v)]);
  }

  bool run(FuncId f) {
    mesh_ = meshOfFunction(m_, f);
    if (!mesh_.valid()) return false;
    varying_.emplace(m_, f);
    known_ = m_.values.size();
    return runBlock(m_[f].body);
  }

private:
  bool runBlock(BlockId block) {
    bool changed = false;
    std::vector<OpId> out;
    std::vector<size_t> added; // keys of this block's ops in seen_: not visible outside it
    Builder b(m_, block, out, diags_);
    b.mesh = mesh_;
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      for (ValueId& v : m_.operands(o)) v = map_(v);
      m_[o].parent = block;
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        if (!isIsolated(m_.record(o).regions)) changed = runBlock(m_.region(o, r)) || changed;
      b.loc = m_[o].loc;
      if (!m_.record(o).isCollective() || m_.record(o).async != AsyncForm::None) {
        if (reducedAfterwards(o, b))
          changed = true;
        else
          out.push_back(o);
        continue;
      }
      if (isUnused(o) || shared(o, b) || joinedWithProducer(o, b)) {
        changed = true;
        continue;
      }
      out.push_back(o);
      added.push_back(keyOf(o));
      seen_.emplace(added.back(), o);
    }
    std::erase_if(out, [&](OpId o) { return isGone(o); });
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map_(v);
    forget(block, added);
    return changed;
  }

  void forget(BlockId block, const std::vector<size_t>& added) {
    for (size_t key : added) {
      auto [first, last] = seen_.equal_range(key);
      for (auto it = first; it != last;)
        it = m_[it->second].parent == block ? seen_.erase(it) : std::next(it);
    }
  }

  bool isGone(OpId o) const { return o.index < gone_.size() && gone_[o.index]; }
  void drop(OpId o) {
    gone_.resize(m_.ops.size());
    gone_[o.index] = true;
  }

  uint32_t usesOf(ValueId v) const { return v.index < uses_.size() ? uses_[v.index] : 0; }
  bool isUnused(OpId o) const {
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      if (usesOf(m_.result(o, r)) != 0) return false;
    return true;
  }

  void replace(ValueId old, ValueId now) {
    map_.set(old, now);
    uses_.resize(m_.values.size());
    uses_[now.index] += uses_[old.index];
    uses_[old.index] = 0;
    if (!m_[now].name && m_[now].kind == ValueKind::OpResult) m_[now].name = m_[old].name;
  }

  // A value as another one with its dims in another order: dim i is dim order[i] of `root`.
  struct Ordered {
    ValueId root;
    std::vector<size_t> order;
  };
  // Skips the ops that only permute dims; their records' rules say so.
  Ordered ordered(ValueId v) {
    Ordered result{v, std::vector<size_t>(m_.typeOf(v).dims.size())};
    std::iota(result.order.begin(), result.order.end(), size_t(0));
    for (OpId p = m_.definingOp(v); p.valid() && m_[p].numOperands == 1 && m_[p].numResults == 1;
         p = m_.definingOp(result.root)) {
      const auto from = permutationOf(forms_.of(p));
      if (!from) break;
      for (size_t& dim : result.order) dim = (*from)[dim];
      result.root = m_.operand(p, 0);
    }
    return result;
  }

  // What a collective does, in terms of its operand before permutations: equal for x and its transpose.
  struct Meaning {
    std::vector<ValueId> operands;
    std::vector<size_t> order; // of the operand, if there is one; else empty
    AttrList attrs;
    std::vector<int64_t> dims; // the attributes that are dims, as dims of the root
  };
  Meaning meaningOf(OpId o) {
    Meaning meaning;
    const std::span<const ValueId> operands = m_.operands(o);
    meaning.operands.assign(operands.begin(), operands.end());
    meaning.attrs = withoutOrigin(m_, m_[o].attrs);
    const CollectiveKind kind = m_.record(o).collective;
    // Ops without communication are not worth a transpose; p2p has types of its own for each message.
    if (operands.size() != 1 || m_[o].numResults != 1 || !hasGroups(kind) ||
        kind == CollectiveKind::AllSlice || kind == CollectiveKind::P2p)
      return meaning;
    Ordered operand = ordered(operands[0]);
    meaning.operands = {operand.root};
    meaning.order = std::move(operand.order);
    for (const AttrSpec& spec : m_.record(o).attrs) {
      if (spec.type != AttrType::Dim) continue;
      meaning.dims.push_back(static_cast<int64_t>(meaning.order[size_t(dimOf(m_, o, spec.name))]));
      std::erase_if(meaning.attrs, [&](const NamedAttr& a) { return m_.strings[a.name] == spec.name; });
    }
    return meaning;
  }

  size_t keyOf(OpId o) {
    const Meaning meaning = meaningOf(o);
    size_t h = m_[o].kind;
    for (ValueId v : meaning.operands) h = h * 0x100000001b3ull ^ v.index;
    for (const NamedAttr& a : meaning.attrs)
      h = h * 0x100000001b3ull ^ (a.name.index * 31ull + a.value.index);
    for (int64_t dim : meaning.dims) h = h * 0x100000001b3ull ^ static_cast<size_t>(dim);
    return h;
  }

  // The order of the dims of `a`'s result that gives `b`'s; empty: they are equal. Nothing if they differ.
  std::optional<std::vector<int64_t>> orderFrom(OpId a, OpId b) {
    const Meaning first = meaningOf(a), second = meaningOf(b);
    if (m_[a].kind != m_[b].kind || first.attrs != second.attrs || first.dims != second.dims ||
        first.operands != second.operands || m_[a].numResults != m_[b].numResults)
      return std::nullopt;
    if (first.order == second.order) {
      for (uint32_t r = 0; r < m_[a].numResults; ++r)
        if (m_[m_.result(a, r)].type != m_[m_.result(b, r)].type) return std::nullopt;
      return std::vector<int64_t>();
    }
    std::vector<int64_t> order;
    for (size_t dim : second.order)
      order.push_back(std::ranges::find(first.order, dim) - first.order.begin());
    return order;
  }

  // Finds an equal collective before it, in this block or in an enclosing one. One of the same value with its
  // dims in another order is permuted instead of a second communication.
  bool shared(OpId o, Builder& b) {
    auto [first, last] = seen_.equal_range(keyOf(o));
    for (auto it = first; it != last; ++it) {
      const OpId before = it->second;
      const auto order = isGone(before) ? std::nullopt : orderFrom(before, o);
      if (!order) continue;
      if (order->empty())
        for (uint32_t r = 0; r < m_[o].numResults; ++r) replace(m_.result(o, r), m_.result(before, r));
      else
        replace(m_.result(o), permuted(m_.result(before), *order, b));
      addWithin(m_, before, withinOf(m_, o));
      return true;
    }
    return false;
  }
  ValueId permuted(ValueId v, const std::vector<int64_t>& order, Builder& b) {
    const ValueId result = ops::transpose(Expr(b, v), order);
    uses_.resize(m_.values.size());
    ++uses_[v.index];
    return result;
  }

  bool joinedWithProducer(OpId o, Builder& b) {
    if (m_[o].numOperands != 1 || m_[o].numResults != 1) return false;
    const OpId p = m_.definingOp(m_.operand(o, 0));
    if (p.valid() && movesConstant(p, o)) {
      replace(m_.result(o), constantOf(p, m_[m_.result(o)].type, b));
      return true;
    }
    if (!p.valid() || !m_.record(p).isCollective() || m_.record(p).async != AsyncForm::None ||
        m_[p].numOperands != 1)
      return false;
    const bool onlyUse = usesOf(m_.result(p)) == 1 && m_[p].parent == m_[o].parent;
    ValueId v = undone(p, o);
    const size_t before = b.out.size();
    if (!v && onlyUse) v = joined(p, o, b);
    if (!v) return false;
    for (size_t i = before; i < b.out.size(); ++i)
      for (OpId part : {p, o}) addWithin(m_, b.out[i], withinOf(m_, part));
    if (onlyUse) drop(p);
    replace(m_.result(o), v);
    return true;
  }

  // A splat does not need communication.
  bool movesConstant(OpId p, OpId o) const {
    const bool moves =
        m_[o].kind == kinds_.allGather || m_[o].kind == kinds_.allSlice || m_[o].kind == kinds_.allToAll;
    return moves && splatOf(m_, m_.result(p));
  }
  ValueId constantOf(OpId p, TypeId type, Builder& b) {
    const OpId o = m_.makeOp(m_[p].kind, {}, 1, m_[p].attrs, 0, b.loc);
    m_[o].parent = b.parent;
    m_[m_.result(o)].type = type;
    uses_.resize(m_.values.size());
    b.out.push_back(o);
    return m_.result(o);
  }

  bool sameAttr(OpId a, OpId b, std::string_view name) const { return m_.attr(a, name) == m_.attr(b, name); }

  // A value added in this round is conservatively varying: the next round analyses it.
  bool isEqualAlong(ValueId v, OpId collective) const {
    return v.index < known_ && !((*varying_)(v)&varying_->ofAttr(collective, false));
  }

  // A gather and the slice that undoes it: the gather's operand. Also in the other order, if the sliced value
  // is the same on all devices of the axes; otherwise each device slices a value of its own.
  ValueId undone(OpId p, OpId o) const {
    const OpKind first = m_[p].kind, second = m_[o].kind;
    const bool opposite = (first == kinds_.allSlice && second == kinds_.allGather) ||
                          (first == kinds_.allGather && second == kinds_.allSlice);
    if (!opposite || dimOf(m_, p) != dimOf(m_, o) || !sameAttr(p, o, "axes")) return {};
    if (m_.attr(p, "wire") || m_.attr(o, "wire")) return {};
    const ValueId before = m_.operand(p, 0);
    if (first == kinds_.allSlice && !isEqualAlong(before, p)) return {};
    return m_[before].type == m_[m_.result(o)].type ? before : ValueId();
  }

  // True if `o` is the only reader of `p`'s result.
  ValueId joined(OpId p, OpId o, Builder& b) {
    const OpKind first = m_[p].kind, second = m_[o].kind;
    if (first == kinds_.allReduce && second == kinds_.allSlice) return slicedReduction(p, o, b);
    if (first == kinds_.allGather && second == kinds_.allSlice) return slicedGather(p, o, b);
    if (!sameAttr(p, o, "wire")) return {};
    if (first == kinds_.reduceScatter && second == kinds_.allGather) return gatheredReduction(p, o, b);
    if (first != second) return {};
    if (first == kinds_.allReduce && reductionOf(m_, p) == reductionOf(m_, o))
      return joinAxes(p, o, axesOf(m_, p), axesOf(m_, o), b);
    if (first == kinds_.allGather && dimOf(m_, p) == dimOf(m_, o))
      return joinAxes(p, o, axesOf(m_, o), axesOf(m_, p), b);
    if ((first == kinds_.allSlice ||
         (first == kinds_.reduceScatter && reductionOf(m_, p) == reductionOf(m_, o))) &&
        dimOf(m_, p) == dimOf(m_, o))
      return joinAxes(p, o, axesOf(m_, p), axesOf(m_, o), b);
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
    AttrList attrs = m_[o].attrs;
    return make(m_[o].kind, m_.operand(p, 0), std::move(attrs), DimSharding{parts}.axes(),
                m_[m_.result(o)].type, b);
  }

  [[nodiscard]] bool isMove(OpId p) const {
    const CollectiveKind k = m_.record(p).collective;
    return m_[p].numOperands == 1 && (k == CollectiveKind::AllToAll || k == CollectiveKind::AllGather);
  }

  // True if each element of the result depends on the same elements of the operands, which have its shape.
  [[nodiscard]] bool isPointwise(OpId o) const {
    Diagnostics quiet;
    Rule rule;
    if (!m_.record(o).scalar || m_.record(o).sideEffect || !ruleOf(queryOf(m_, o, quiet), rule)) return false;
    const auto isPlain = [&](const TensorMap& t) {
      return std::ranges::equal(t.dims, rule.results[0].dims, [](const DimMap& a, const DimMap& b) {
        return a.plain() && b.plain() && a.terms[0].factor == b.terms[0].factor;
      });
    };
    return std::ranges::all_of(rule.factors, [](const Factor& f) { return f.kind == FactorKind::Pass; }) &&
           std::ranges::all_of(rule.operands, isPlain);
  }

  // The homomorphism table says which ops are additive.
  [[nodiscard]] bool passesReductionOf(OpId reduction, OpId o) const {
    const auto kind = parsePendingKind(m_.strings[m_.attrs[reductionOf(m_, reduction)].text]);
    Diagnostics quiet;
    return kind && passThrough(queryOf(m_, o, quiet), std::vector(m_[o].numOperands, *kind), 0) == kind;
  }

  // A sum of values that were reduced separately is reduced once. Likewise, a pointwise op of values that were
  // moved alike is computed before the move.
  bool reducedAfterwards(OpId o, Builder& b) {
    const size_t n = m_[o].numOperands;
    if (n < 2 || m_[o].numResults != 1 || m_[o].numRegions != 0) return false;
    std::vector<OpId> producers;
    std::vector<ValueId> pending;
    for (ValueId v : m_.operands(o)) {
      const OpId p = m_.definingOp(v);
      if (!p.valid() || !(reduces(m_.record(p).collective) || isMove(p)) || m_[p].parent != m_[o].parent ||
          usesOf(v) != 1 || m_[v].type != m_[m_.result(o)].type)
        return false;
      producers.push_back(p);
      pending.push_back(m_.operand(p, 0));
      const OpId first = producers.front();
      if (m_[p].kind != m_[first].kind || m_[pending.back()].type != m_[pending.front()].type ||
          withoutOrigin(m_, m_[p].attrs) != withoutOrigin(m_, m_[first].attrs))
        return false;
    }
    const OpId first = producers.front();
    if (!(isMove(first) ? isPointwise(o) : passesReductionOf(first, o))) return false;
    const OpId sum = m_.makeOp(m_[o].kind, pending, 1, m_[o].attrs, 0, b.loc);
    m_[sum].parent = b.parent;
    m_[m_.result(sum)].type = m_[pending.front()].type;
    b.out.push_back(sum);
    uses_.resize(m_.values.size());
    uses_[m_.result(sum).index] = 1;
    const ValueId reduced = make(m_[first].kind, m_.result(sum), withoutOrigin(m_, m_[first].attrs),
                                 axesOf(m_, first), m_[m_.result(o)].type, b);
    DTC_CHECK(reduced.valid(), "the merged collective has the types of the originals");
    for (OpId p : producers) {
      addWithin(m_, m_.definingOp(reduced), withinOf(m_, p));
      drop(p);
    }
    replace(m_.result(o), reduced);
    return true;
  }

  // A collective of this kind on `v`, or nothing if its type would not be `type` (an invalid type: any).
  ValueId make(OpKind kind, ValueId v, AttrList attrs, std::span<const AxisRef> axes, TypeId type,
               Builder& b) {
    const OpId o = m_.makeOp(kind, std::array{v}, 1, std::move(attrs), 0, b.loc);
    m_.setAttr(o, "axes", axesAttr(m_, axes));
    normalizeAttrs(m_, kind, m_[o].attrs);
    m_[o].parent = b.parent;
    Diagnostics quiet;
    OpQuery q = queryOf(m_, o, quiet);
    q.mesh = mesh_;
    const std::array written = {type};
    q.writtenTypes = type ? std::span<const TypeId>(written) : std::span<const TypeId>();
    std::vector<TypeId> types;
    if (!inferResultTypes(q, types) || (type && types[0] != type)) return {};
    m_[m_.result(o)].type = types[0];
    uses_.resize(m_.values.size());
    b.out.push_back(o);
    return m_.result(o);
  }

  struct Written {
    AttributeName name;
    AttrId value;
  };
  AttrList attrsOf(std::initializer_list<Written> written) {
    AttrList list;
    for (const auto& [name, value] : written)
      if (value.valid()) list.push_back({m_.strings.intern(name), value});
    return list;
  }

  // all_slice of all_reduce: each device receives only its shard. Axes that are sliced but not reduced are
  // sliced first if they are major; axes that are reduced but not sliced are reduced last, on the shard.
  ValueId slicedReduction(OpId p, OpId o, Builder& b) {
    const size_t before = b.out.size();
    const AttrId dim = m_.attr(o, "dim"), op = reductionOf(m_, p), commDType = m_.attr(p, "wire");
    const std::vector<AxisRef> sliced = axesOf(m_, o);
    std::vector<AxisRef> rest = axesOf(m_, p);
    const std::vector<AxisRef> reduced = rest;
    const Mesh& mesh = m_.shardings.mesh(mesh_);
    auto isReduced = [&](const AxisRef& a) { return std::ranges::find(reduced, a) != reduced.end(); };
    for (const AxisRef& a : sliced) // a sub-axis of a reduced axis: not supported
      if (!isReduced(a) && std::ranges::any_of(reduced, [&](auto& r) { return overlaps(a, r, mesh); }))
        return {};
    ValueId v = m_.operand(p, 0);
    for (size_t i = 0; i < sliced.size() && v;) {
      size_t end = i;
      while (end < sliced.size() && isReduced(sliced[end]) == isReduced(sliced[i])) ++end;
      const std::span<const AxisRef> run(sliced.data() + i, end - i);
      const TypeId last = end == sliced.size() ? m_[m_.result(o)].type : TypeId();
      v = isReduced(sliced[i]) ? make(kinds_.reduceScatter, v,
                                      attrsOf({{"dim", dim}, {"op", op}, {"wire", commDType}}), run, last, b)
                               : make(kinds_.allSlice, v, attrsOf({{"dim", dim}}), run, last, b);
      for (const AxisRef& a : run) std::erase(rest, a);
      i = end;
    }
    if (v && !rest.empty())
      v = make(kinds_.allReduce, v, attrsOf({{"op", op}, {"wire", commDType}}), rest, m_[m_.result(o)].type,
               b);
    if (!v) b.out.resize(before);
    return v;
  }

  // all_slice of all_gather. Same dim: only the axes in which they differ remain. Another dim: an all_to_all.
  ValueId slicedGather(OpId p, OpId o, Builder& b) {
    const std::vector<AxisRef> grown = axesOf(m_, p), sliced = axesOf(m_, o);
    const TypeId type = m_[m_.result(o)].type;
    const AttrId commDType = m_.attr(p, "wire"), dim = m_.attr(o, "dim");
    const ValueId v = m_.operand(p, 0);
    if (dimOf(m_, p) != dimOf(m_, o))
      return grown == sliced
                 ? make(kinds_.allToAll, v,
                        attrsOf({{"split_dim", dim}, {"concat_dim", m_.attr(p, "dim")}, {"wire", commDType}}),
                        sliced, type, b)
                 : ValueId();
    const size_t common = std::min(grown.size(), sliced.size());
    if (!std::equal(grown.begin(), grown.begin() + static_cast<ptrdiff_t>(common), sliced.begin())) return {};
    if (sliced.size() < grown.size())
      return make(kinds_.allGather, v, attrsOf({{"dim", dim}, {"wire", commDType}}),
                  std::span(grown).subspan(common), type, b);
    return sliced.size() > grown.size()
               ? make(kinds_.allSlice, v, attrsOf({{"dim", dim}}), std::span(sliced).subspan(common), type, b)
               : ValueId();
  }

  // all_gather of reduce_scatter: an all_reduce, one collective instead of two.
  ValueId gatheredReduction(OpId p, OpId o, Builder& b) {
    if (dimOf(m_, p) != dimOf(m_, o) || !sameAttr(p, o, "axes")) return {};
    return make(kinds_.allReduce, m_.operand(p, 0),
                attrsOf({{"op", reductionOf(m_, p)}, {"wire", m_.attr(p, "wire")}}), axesOf(m_, p),
                m_[m_.result(o)].type, b);
  }

  Module& m_;
  Diagnostics& diags_;
  CollectiveKinds kinds_;
  FusionForms forms_;
  MeshId mesh_;
  std::optional<Varying> varying_; // of the function
  size_t known_ = 0;               // the values at the start of the round
  std::vector<uint32_t> uses_;     // by value; uses of a replaced value count for its replacement
  std::vector<bool> gone_;         // by op: erased
  std::unordered_multimap<size_t, OpId> seen_;
  ValueMap map_;
};

} // namespace

bool joinCollectives(Module& m, std::span<const FuncId> functions, Diagnostics& diags) {
  Joiner joiner(m, diags);
  bool changed = false;
  for (FuncId f : functions) changed = joiner.run(f) || changed;
  return changed;
}

} // namespace dtc
