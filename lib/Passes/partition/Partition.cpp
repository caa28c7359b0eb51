#include "dtc/Passes/partition/Partition.h"
#include "analysis/PartitionReshard.h"
#include "analysis/Within.h"
#include "dtc/IR/LocalShape.h"
#include "dtc/Ops/OpFunctions.h"
#include "dtc/Ops/ShardedOp.h"
#include "dtc/Passes/analysis/Clone.h"
#include "dtc/Sharding/Projection.h"
#include "dtc/Support/Result.h"
#include "partition/UnifyMeshes.h"
#include <algorithm>

namespace dtc {

namespace {

constexpr DiagKind kNotPropagated{
    "needs-propagate",
    "'partition' needs a closed sharding on every value of @{0}: run the pass 'propagate' before it"};
constexpr DiagKind kStridedIndex{
    "partition-strided-index",
    "'{0}' computes indices along a dim with a strided sharding ({1}): add a 'shard' with "
    "a plain sharding to its result"};

class Partitioner {
public:
  Partitioner(Module& m, Diagnostics& diags, const PartitionOptions& options)
      : m_(m), diags_(diags), globalType_(m.values.size()), sharding_(m.values.size()), plans_(m) {
    plans_.reduceDType = options.reduceDType;
    for (size_t v = 0; v < m.values.size(); ++v) {
      globalType_[v] = m.values[v].type;
      sharding_[v] = m.values[v].sharding;
    }
  }

  bool run(FuncId f) {
    func_ = f;
    mesh_ = functionMesh();
    for (FuncArg& a : m_[f].args) {
      a.globalType = m_[a.value].type;
      m_[a.value].type = localTypeOf(m_, a.globalType, m_.shardings[m_[a.value].sharding]);
    }
    if (!partitionBlock(m_[f].body)) return false;
    for (FuncResult& r : m_[f].results) {
      r.globalType = r.type;
      r.type = localTypeOf(m_, r.globalType, m_.shardings[r.sharding]);
    }
    m_[f].spmd = true;
    std::erase_if(m_[f].attrs,
                  [&](const NamedAttr& a) { return m_.strings[a.name] == "grad"; }); // consumed by autodiff
    if (meshOfFunction(m_, f) != mesh_)
      m_[f].attrs.push_back({m_.strings.intern("mesh"), m_.attrs.symbol(m_.shardings.mesh(mesh_).name)});
    return !diags_.hasErrors();
  }

private:
  // The mesh of the first value with a sharding; after propagation all values have the same.
  MeshId functionMesh() const {
    if (MeshId id = meshOfFunction(m_, func_)) return id;
    MeshId found;
    forEachOp(m_, m_[func_].body, [&](OpId o) {
      if (!found && m_[o].numResults > 0 && m_[m_.result(o)].sharding)
        found = m_.shardings[m_[m_.result(o)].sharding].mesh;
    });
    return found ? found : MeshId(0);
  }

  const Sharding& shardingOf(ShardingId id) const { return m_.shardings[id]; }

  // A new value gets its local type and drops its sharding.
  void localizeValue(ValueId v) {
    if (!sharding_[v.index]) return;
    m_[v].type = localTypeOf(m_, globalType_[v.index], shardingOf(sharding_[v.index]));
    m_[v].sharding = {};
  }

  bool partitionBlock(BlockId block) {
    std::vector<OpId> out;
    Builder b(m_, block, out, diags_);
    b.mesh = mesh_;
    ReshardEmitter reshards(b, plans_);
    std::vector<ReceivedRows> outer;
    std::swap(outer, received_);
    for (OpId o : std::vector<OpId>(m_[block].ops)) {
      b.loc = m_[o].loc;
      b.common = withinOf(m_, o);
      if (!partitionOp(o, b, reshards)) return false;
    }
    received_ = std::move(outer);
    m_[block].ops = std::move(out);
    for (ValueId& v : m_[block].yields) v = map_(v);
    return true;
  }

  // A value without tensor operands that is resharded is created in the target sharding: the reshard becomes
  // such an op.
  void makeAnew(OpId o) {
    if (m_.record(o).constraint == Constraint::None) return;
    const ValueId operand = m_.operand(o, 0);
    const ShardingId from = sharding_[operand.index], to = sharding_[m_.result(o).index];
    const OpId source = m_.definingOp(operand);
    if (from == to || !from || !to || !source.valid() || m_[source].numOperands != 0) return;
    const OpRecord& record = m_.record(source);
    if (record.lowering != Lowering::Loops || record.localize || record.sideEffect ||
        m_[source].numResults != 1 || m_[operand].type != globalType_[operand.index])
      return;
    const Sharding& want = shardingOf(to);
    if (shardingOf(from).mesh != want.mesh || !want.pending.empty()) return;
    for (const DimSharding& d : want.dims)
      if (d.strided()) return;
    Rule rule;
    Diagnostics quiet;
    if (!ruleOf(queryOf(m_, source, quiet), rule)) return;
    for (const Factor& f : rule.factors)
      if (f.kind != FactorKind::Pass && f.kind != FactorKind::Place) return;
    m_[o].kind = m_[source].kind;
    m_[o].attrs = m_[source].attrs;
    m_.setOperands(o, {});
  }

  bool partitionOp(OpId o, Builder& b, ReshardEmitter& reshards) {
    makeAnew(o);
    const OpRecord& rec = m_.record(o);
    if (rec.constraint != Constraint::None) return changeSharding(o, reshards);
    const std::vector<ValueId> before(m_.operands(o).begin(), m_.operands(o).end());
    if (rec.regions == RegionKind::Local) return inlineLocal(o, b, reshards);
    for (ValueId& v : m_.operands(o)) v = map_(v);
    if (rec.regions != RegionKind::None || rec.isCall) {
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        if (rec.regions != RegionKind::Fused && !partitionRegion(m_.region(o, r))) return false;
    } else if (hasShardedFactors(o, before)) {
      writeShardedOp(o, before, b);
      return true;
    } else if (!localizeOp(o, before, b)) {
      return false;
    }
    b.out.push_back(o);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) finishResult(o, r, reshards);
    return true;
  }

  bool partitionRegion(BlockId block) {
    for (ValueId a : m_[block].args) localizeValue(a);
    return partitionBlock(block);
  }

  // The stacked result of `for` is unsharded along its new dim; a sharding along that dim needs a slice.
  void finishResult(OpId o, uint32_t r, ReshardEmitter& reshards) {
    const ValueId v = m_.result(o, r);
    const ShardingId want = sharding_[v.index];
    const bool stacked = m_.record(o).regions == RegionKind::For && r + 2 >= m_[o].numOperands;
    if (!stacked || !want || !shardingOf(want).dims[0].isSharded()) return localizeValue(v);
    Sharding unsharded = shardingOf(want);
    unsharded.dims[0].parts.clear();
    m_[v].type = localTypeOf(m_, globalType_[v.index], unsharded);
    m_[v].sharding = {};
    replace(v, reshards.emit(v, globalType_[v.index], m_.shardings.intern(std::move(unsharded)), want));
  }

  // Replaces `old` by `now`; the name stays with the user's value, and the line of a collective is that of the
  // statement which the name is from.
  void replace(ValueId old, ValueId now) {
    map_.set(old, now);
    const bool made = now.index >= globalType_.size();
    if (made && m_[old].name) {
      m_[now].name = m_[old].name;
      m_[old].name = {};
      const OpId written = m_.definingOp(old), maker = m_.definingOp(now);
      if (written.valid() && maker.valid()) m_[maker].loc = m_[written].loc;
    }
  }

  // shard, barrier, reshard.
  bool changeSharding(OpId o, ReshardEmitter& reshards) {
    const ValueId operand = m_.operand(o, 0), result = m_.result(o);
    return bring(operand, sharding_[operand.index], sharding_[result.index], result, reshards);
  }

  // Replaces `result` by the operand's value, resharded.
  bool bring(ValueId operand, ShardingId from, ShardingId to, ValueId result, ReshardEmitter& reshards) {
    ValueId v = map_(operand);
    if (from != to && from && to) {
      DTC_CHECK(shardingOf(from).mesh == shardingOf(to).mesh, "unifyMeshes left two meshes in a function");
      v = reshards.emit(v, globalType_[operand.index], from, to);
    }
    replace(result, v);
    return true;
  }

  // The global types of the op.
  struct GlobalTypes {
    std::vector<TypeId> operands, results;
    std::unique_ptr<AttrList> attrs; // a copy: the op table may reallocate
    OpQuery query;
  };
  GlobalTypes globalTypesOf(OpId o, std::span<const ValueId> before) {
    GlobalTypes global;
    for (ValueId v : before) global.operands.push_back(globalType_[v.index]);
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      global.results.push_back(globalType_[m_.result(o, r).index]);
    OpQuery& q = global.query;
    q.module = &m_;
    q.record = &m_.record(o);
    q.operandTypes = global.operands;
    q.operands = before;
    global.attrs = std::make_unique<AttrList>(m_[o].attrs);
    q.attrs = global.attrs.get();
    q.writtenTypes = global.results;
    q.loc = m_[o].loc;
    q.diags = &diags_;
    q.mesh = mesh_;
    return global;
  }

  // True if a factor that the op communicates along is sharded. Sets rule_ and factorAxes_.
  bool hasShardedFactors(OpId o, std::span<const ValueId> before) {
    if (!m_.record(o).shard) return false;
    const GlobalTypes global = globalTypesOf(o, before);
    rule_ = {};
    if (!ruleOf(global.query, rule_)) return false;
    factorAxes_ = shardAxesOf(rule_, o, before);
    return communicates(rule_, factorAxes_);
  }

  // Replaces the op by its sharded program.
  void writeShardedOp(OpId o, std::span<const ValueId> before, Builder& b) {
    const GlobalTypes global = globalTypesOf(o, before);
    const auto shardedBy = shardedFactors(rule_, factorAxes_, m_.shardings.mesh(mesh_));
    std::vector<TypeId> types;
    for (uint32_t r = 0; r < m_[o].numResults; ++r)
      types.push_back(localTypeOf(m_, global.results[r], shardingOf(sharding_[m_.result(o, r).index])));
    std::vector<ValueId> results;
    const std::vector<ValueId> operands(m_.operands(o).begin(), m_.operands(o).end());
    b.common = inheritedAttrs(m_, o);
    ShardedOp sharded(b, global.query, rule_, operands, types,
                      shardedBy.value_or(std::vector<ShardedFactor>(factorAxes_.size())));
    sharded.reduceDType = plans_.reduceDType;
    sharded.received = &received_;
    const bool written = shardedBy && writeSharded(sharded, results);
    DTC_CHECK(written, "an op has no sharded program for a sharding that passed its checks");
    b.common.clear();
    for (uint32_t r = 0; r < m_[o].numResults; ++r) replace(m_.result(o, r), results[r]);
  }

  // Attributes that carry sizes, and the shard offsets of ops that compute indices.
  bool localizeOp(OpId o, std::span<const ValueId> before, Builder& b) {
    const OpRecord& rec = m_.record(o);
    if (!rec.localize && rec.offsetOperand < 0) return true;
    std::vector<TypeId> locals, localResults;
    GlobalTypes global = globalTypesOf(o, before);
    for (ValueId v : m_.operands(o)) locals.push_back(m_[v].type);
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ShardingId s = sharding_[m_.result(o, r).index];
      localResults.push_back(s ? localTypeOf(m_, global.results[r], shardingOf(s)) : global.results[r]);
    }
    const OpQuery& q = global.query;
    if (rec.localize) {
      AttrList attrs = *global.attrs;
      rec.localize(q, locals, localResults, attrs);
      m_[o].attrs = std::move(attrs);
    }
    return rec.offsetOperand < 0 || addOffsets(o, q, before, b);
  }

  // The axes of each factor, from any operand or result of the op.
  std::vector<PartList> shardAxesOf(const Rule& rule, OpId o, std::span<const ValueId> before) const {
    std::vector<PartList> factorParts(rule.factors.size());
    auto look = [&](const TensorMap& map, ValueId v) {
      if (!sharding_[v.index]) return;
      const Sharding& s = shardingOf(sharding_[v.index]);
      for (FactorEntry& e : projectDims(map, rule, s.dims, m_.shardings.mesh(s.mesh)).entries)
        if (factorParts[e.factor].empty()) factorParts[e.factor] = std::move(e.parts);
    };
    for (size_t i = 0; i < before.size() && i < rule.operands.size(); ++i) look(rule.operands[i], before[i]);
    for (uint32_t r = 0; r < m_[o].numResults && r < rule.results.size(); ++r)
      look(rule.results[r], m_.result(o, r));
    return factorParts;
  }

  bool addOffsets(OpId o, const OpQuery& q, std::span<const ValueId> before, Builder& b) {
    Rule rule;
    if (!ruleOf(q, rule)) return false;
    std::vector<ValueId> offsets;
    size_t used = 0;
    const bool placed = std::ranges::any_of(rule.factors, &Factor::needsOffset);
    const std::vector<PartList> factorParts = placed ? shardAxesOf(rule, o, before) : std::vector<PartList>();
    for (size_t f = 0; f < factorParts.size(); ++f) {
      if (!rule.factors[f].needsOffset()) continue;
      DimSharding dimSharding{factorParts[f]};
      if (m_.shardings.mesh(mesh_).sizeOf(dimSharding.axes()) == 1) {
        offsets.push_back(b.literal(0, DType::I32));
        continue;
      }
      if (dimSharding.strided()) {
        Sharding shown{mesh_, {dimSharding}, {}, {}};
        return diags_.fail(kStridedIndex, m_[o].loc, q.record->name,
                           printSharding(shown, m_.shardings.mesh(mesh_), m_.strings, ShardingStyle::Dim));
      }
      offsets.push_back(ops::piece_offset(b, {.size = rule.factors[f].size, .axes = dimSharding.axes()}));
      used = offsets.size();
    }
    offsets.resize(used); // the default offset is 0
    if (offsets.empty()) return true;
    std::vector<ValueId> operands(m_.operands(o).begin(), m_.operands(o).end());
    // After the op's own operands, the last of which may be omitted (attention's mask).
    operands.resize(std::max(operands.size(), static_cast<size_t>(q.record->offsetOperand)), ValueId());
    operands.insert(operands.end(), offsets.begin(), offsets.end());
    m_.setOperands(o, operands);
    return true;
  }

  // The region's ops are local already; only its operands and results are bound.
  bool inlineLocal(OpId o, Builder& b, ReshardEmitter& reshards) {
    const BlockId body = m_.region(o);
    const std::vector<ValueId> args = m_[body].args;
    for (size_t i = 0; i < args.size(); ++i) {
      const ValueId operand = m_.operand(o, i);
      const ShardingId from = sharding_[operand.index];
      ShardingId to = sharding_[args[i].index];
      if (!to && from) to = m_.shardings.replicated(m_.shardings[from].mesh, shardingOf(from).dims.size());
      if (!bring(operand, from, to, args[i], reshards)) return false;
    }
    remap(body);
    for (OpId inner : m_[body].ops) {
      m_[inner].parent = b.parent;
      b.out.push_back(inner);
    }
    for (uint32_t r = 0; r < m_[o].numResults; ++r) {
      const ValueId v = m_[body].yields[r], result = m_.result(o, r);
      map_.set(result, v);
      if (m_.definingOp(v).valid() && m_[result].name) m_[v].name = m_[result].name;
    }
    m_[body].ops.clear();
    return true;
  }

  // Maps operands and yields of local text, regions included.
  void remap(BlockId block) {
    forEachOp(m_, block, [&](OpId o) {
      for (ValueId& v : m_.operands(o)) v = map_(v);
      for (uint32_t r = 0; r < m_[o].numRegions; ++r)
        for (ValueId& v : m_[m_.region(o, r)].yields) v = map_(v);
    });
    for (ValueId& v : m_[block].yields) v = map_(v);
  }

  Module& m_;
  Diagnostics& diags_;
  std::vector<TypeId> globalType_;   // by value, the global type
  std::vector<ShardingId> sharding_; // by value, the global sharding
  ValueMap map_;
  ReshardPlans plans_;
  Rule rule_;                          // of the current op, if it communicates …
  std::vector<PartList> factorAxes_;   // … and the axes of its factors
  std::vector<ReceivedRows> received_; // by ops of the current block
  FuncId func_;
  MeshId mesh_;
};

} // namespace

bool partition(Module& m, Diagnostics& diags, const PartitionOptions& options) {
  for (FuncId f : m.order) {
    if (m[f].spmd || levelOf(m, f) == Level::Propagated) continue;
    return diags.fail(kNotPropagated, m[f].loc, m.strings[m[f].name]);
  }
  // A function without values has nothing that propagate could assign a sharding, and so a mesh, to.
  if (m.shardings.numMeshes() == 0) m.shardings.addMesh({m.strings.intern("one"), {}, {}});
  for (FuncId f : m.order)
    if (!m[f].spmd && !unifyMeshes(m, f, diags)) return false;
  Partitioner p(m, diags, options);
  for (FuncId f : m.order)
    if (!m[f].spmd && !p.run(f)) return false;
  return true;
}

bool partitionPass(Module& m, const PassOptions& options, Diagnostics& diags) {
  PartitionOptions chosen;
  chosen.reduceDType = options.dtype("reduce-dtype");
  return partition(m, diags, chosen);
}

} // namespace dtc
