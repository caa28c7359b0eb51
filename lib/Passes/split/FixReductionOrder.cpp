#include "dtc/Passes/split/FixReductionOrder.h"

#include "analysis/FusionForm.h"
#include "analysis/Within.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/text/Text.h"
#include "dtc/Passes/analysis/Clone.h"
#include "split/ReductionChunks.h"

#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kCollective{"fixed-order-collective",
                               "'{0}' adds floats in an order that depends on the mesh: the result cannot be "
                               "bitwise equal on every mesh"};
constexpr DiagKind kPending{
    "fixed-order-pending",
    "{0} is a partial {1}, which depends on the mesh: the result cannot be bitwise equal on every mesh"};
constexpr DiagKind kMeshes{"fixed-order-meshes", "a fixed order of reductions needs a program with one mesh"};
constexpr DiagKind kLocal{"fixed-order-local",
                          "@{0} is already partitioned: a fixed reduction order needs the global program"};

bool dependsOnOrder(PendingKind k) {
  return k == PendingKind::Sum || k == PendingKind::Avg || k == PendingKind::Prod;
}

class OrderFixer {
public:
  OrderFixer(Module& m, Diagnostics& diags)
      : m_(m), diags_(diags), shard_(m.registry->find(Constraint::Shard)) {}

  void run(FuncId f) {
    for (const FuncArg& a : m_[f].args) checkPending(a.value);
    fixBlock(m_[f].body);
  }

private:
  void fixBlock(BlockId b) {
    std::vector<OpId> out;
    for (OpId o : std::vector<OpId>(m_[b].ops)) {
      for (ValueId& v : m_.operands(o)) v = map_(v);
      for (uint32_t r = 0; r < m_[o].numResults; ++r) checkPending(m_.result(o, r));
      const bool local = m_.record(o).regions == RegionKind::Local;
      for (uint32_t k = 0; k < m_[o].numRegions; ++k)
        local ? checkLocal(m_.region(o, k)) : fixBlock(m_.region(o, k));
      if (combines(o))
        fix(o, b, out);
      else
        out.push_back(o);
    }
    m_[b].ops = std::move(out);
    for (ValueId& v : m_[b].yields) v = map_(v);
  }

  bool isInexact(ValueId v) const { return isFloat(partType(m_.typeOf(v).dtype)); }

  void checkPending(ValueId v) {
    if (!m_[v].sharding.valid() || !isInexact(v)) return;
    const PendingKind kind = m_.shardings[m_[v].sharding].pendingKind();
    if (!m_.shardings[m_[v].sharding].pending.empty() && dependsOnOrder(kind))
      diags_.error(kPending, m_[v].loc, printValueName(m_, v), pendingName(kind));
  }

  void checkLocal(BlockId b) {
    forEachOp(m_, b, [&](OpId o) {
      if (!reduces(m_.record(o).collective) || !isInexact(m_.operand(o, 0))) return;
      const AttrId op = m_.attr(o, "op");
      const auto kind = op.valid() ? parsePendingKind(m_.strings[m_.attrs[op].text]) : PendingKind::Sum;
      if (!kind || dependsOnOrder(*kind)) diags_.error(kCollective, m_[o].loc, m_.record(o).name);
    });
  }

  // True if the op combines floats in an unspecified order; conservatively true unless known to be exact.
  bool combines(OpId o) {
    const OpRecord& rec = m_.record(o);
    if (rec.regions != RegionKind::None || rec.isCall || rec.isCollective() ||
        rec.constraint != Constraint::None || m_[o].numResults == 0)
      return false;
    bool floats = false;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) floats = floats || isInexact(m_.result(o, r));
    const bool moves =
        std::ranges::any_of(rec.through, [](const Through& t) { return t.row == ThroughRow::Moving; });
    if (!floats) return false;
    Diagnostics quiet;
    Rule rule;
    if (!ruleOf(queryOf(m_, o, quiet), rule)) return true;
    return std::ranges::any_of(rule.factors, [&](const Factor& f) {
      if (f.kind == FactorKind::Reduce) return dependsOnOrder(f.reduce);
      return !moves && f.kind != FactorKind::Pass && f.kind != FactorKind::Place;
    });
  }

  // Constrains `dims` to be unsharded; the others are left to propagation.
  ShardingId unshardedAlong(ValueId v, std::span<const int64_t> dims) {
    Sharding s;
    if (!hasMesh()) return {};
    s.mesh = MeshId(0);
    s.dims.resize(m_.typeOf(v).rank());
    for (DimSharding& d : s.dims) d.open = true;
    for (int64_t d : dims) s.dims[static_cast<size_t>(d)].open = false;
    return m_.shardings.intern(std::move(s));
  }
  ShardingId replicated(ValueId v) {
    return !hasMesh() ? ShardingId() : m_.shardings.replicated(MeshId(0), m_.typeOf(v).rank());
  }
  [[nodiscard]] bool hasMesh() const { return m_.shardings.numMeshes() > 0; }

  ValueId constrain(ValueId v, ShardingId sharding, OpId of, BlockId b, std::vector<OpId>& out) {
    if (!hasMesh() || m_[v].kind == ValueKind::Literal || m_[v].kind == ValueKind::Symbol) return v;
    const OpId o = m_.makeOp(shard_, std::array{v}, 1, {}, 0, m_[of].loc);
    m_[o].parent = b;
    m_[o].attrs = inheritedAttrs(m_, of);
    m_[m_.result(o)].type = m_[v].type;
    m_[m_.result(o)].sharding = sharding;
    m_[m_.result(o)].loc = m_[v].loc;
    out.push_back(o);
    return m_.result(o);
  }

  void fix(OpId o, BlockId b, std::vector<OpId>& out) {
    Builder builder(m_, b, out, diags_);
    builder.loc = m_[o].loc;
    builder.common = inheritedAttrs(m_, o);
    const ValueId made = writeInChunks(builder, o, [&](ValueId v, std::span<const int64_t> dims) {
      return constrain(v, unshardedAlong(v, dims), o, b, out);
    });
    if (!made.valid()) return unshard(o, b, out);
    const ValueId old = m_.result(o);
    Value& named = m_[made];
    named.name = m_[old].name, named.sharding = m_[old].sharding, named.loc = m_[old].loc;
    m_[old].name = StrId();
    map_.set(old, made);
  }

  // The dims of a tensor that the op reduces along.
  static std::vector<int64_t> combined(const Rule& rule, const TensorMap& map) {
    std::vector<int64_t> out;
    for (size_t d = 0; d < map.dims.size(); ++d) {
      bool free = map.dims[d].form == DimMap::Compound;
      for (const Term& t : map.dims[d].terms)
        free = free && (rule.factors[t.factor].kind == FactorKind::Pass ||
                        rule.factors[t.factor].kind == FactorKind::Place);
      if (!free) out.push_back(static_cast<int64_t>(d));
    }
    return out;
  }

  // If the op reduces or merges dims independently for each element of the others, only those dims are
  // unsharded.
  bool isIndependent(OpId o, Rule& rule) {
    const FusionForm form = fusionFormOf(m_, o);
    rule = form.rule;
    return form.loops && !form.attention && !form.ordered && (form.reduces || form.contracts) &&
           std::ranges::all_of(rule.factors, [](const Factor& f) {
             return f.kind == FactorKind::Pass || f.kind == FactorKind::Place ||
                    f.kind == FactorKind::Reduce || f.kind == FactorKind::Merge;
           });
  }

  void unshard(OpId o, BlockId b, std::vector<OpId>& out) {
    Rule rule;
    const bool independent = isIndependent(o, rule);
    auto wanted = [&](ValueId v, const std::vector<TensorMap>& maps, size_t i) {
      if (!independent || i >= maps.size()) return replicated(v);
      return unshardedAlong(v, combined(rule, maps[i]));
    };
    std::vector<ValueId> operands(m_.operands(o).begin(), m_.operands(o).end());
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i].valid())
        operands[i] = constrain(operands[i], wanted(operands[i], rule.operands, i), o, b, out);
    m_.setOperands(o, operands);
    out.push_back(o);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId v = m_.result(o, r);
      const ShardingId written = m_[v].sharding;
      m_[v].sharding = wanted(v, rule.results, r);
      if (!written.valid() || written == m_[v].sharding) continue;
      const ValueId named = constrain(v, written, o, b, out);
      m_[named].name = m_[v].name;
      m_[v].name = StrId();
      map_.set(v, named);
    }
  }

  Module& m_;
  Diagnostics& diags_;
  OpKind shard_;
  ValueMap map_;
};

} // namespace

bool fixReductionOrderPass(Module& m, const PassOptions&, Diagnostics& diags) {
  for (FuncId f : m.order)
    if (m[f].spmd) diags.error(kLocal, m[f].loc, m.strings[m[f].name]);
  if (m.shardings.numMeshes() > 1 && !m.order.empty()) diags.error(kMeshes, m[m.order[0]].loc);
  if (diags.hasErrors()) return false;
  OrderFixer fixer(m, diags);
  for (FuncId f : std::vector<FuncId>(m.order)) fixer.run(f);
  return !diags.hasErrors();
}

} // namespace dtc
