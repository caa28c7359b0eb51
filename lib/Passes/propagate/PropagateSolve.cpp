// The fixed point: propagates axes along factors until nothing changes.
#include "propagate/Policies.h"
#include <algorithm>

namespace dtc {
namespace {

// The maximum number of sweeps over all relations per user priority.
constexpr int kLevels = 5;

// The directions in which axes may propagate along this factor at this level; later levels allow all that
// earlier ones do. 0, 1: elementwise ops, views and boundaries, first those whose operands have no other
// user; 2: factors that are sharded alike everywhere, in broadcasts only backward; 3: all others; 4:
// broadcasts forward.
Flow flowOf(const Relation& rel, const Factor& f, int level) {
  if (rel.barrier) return rel.early;
  if (f.kind == FactorKind::Whole) return Flow::None;
  const Flow late = rel.broadcast && level < 4 ? Flow::Backward : Flow::Both;
  if (level >= 3) return late;
  Flow flow = rel.singleUse || level > 0 ? rel.early : Flow::None;
  if (level == 2 && (f.kind == FactorKind::Pass || f.kind == FactorKind::Place)) flow = flow | late;
  return flow;
}

const TensorMap& mapOf(const Rule& rule, size_t tensor) {
  return tensor < rule.operands.size() ? rule.operands[tensor] : rule.results[tensor - rule.operands.size()];
}

bool shardsFactor(const Rule& rule, size_t tensor, uint16_t factor, const ShardingVar& var) {
  const TensorMap& map = mapOf(rule, tensor);
  for (size_t d = 0; d < map.dims.size(); ++d)
    for (const Term& t : map.dims[d].sharded())
      if (t.factor == factor && var.dims[d].isSharded()) return true;
  return false;
}

// The tensor as seen from outside its region: sharded by the region's axes, then by its own.
void addPrefix(FactorTensor& tensor, std::span<const PartList> prefix, const Mesh& mesh) {
  tensor.own.assign(tensor.dims.begin(), tensor.dims.end());
  for (size_t d = 0; d < prefix.size(); ++d) {
    PartList parts = prefix[d];
    for (const DimPart& p : tensor.own[d].parts) parts.push_back(p);
    tensor.own[d].parts = std::move(parts);
    std::erase_if(tensor.taken, [&](const AxisRef& a) {
      const DimPart part{a, 0};
      return !disjoint({&part, 1}, prefix[d], mesh);
    });
  }
  tensor.dims = tensor.own;
}

// Removes the region's axes again. False if they have been merged with the following ones.
bool takePrefix(std::vector<DimSharding>& dims, std::span<const PartList> prefix) {
  for (size_t d = 0; d < prefix.size(); ++d) {
    PartList rest;
    for (size_t i = 0; i < dims[d].parts.size(); ++i) {
      if (i < prefix[d].size() && !(dims[d].parts[i] == prefix[d][i])) return false;
      if (i >= prefix[d].size()) rest.push_back(dims[d].parts[i]);
    }
    dims[d].parts = std::move(rest);
  }
  return true;
}

// The flows encoded as one number, 0 if there are too many factors.
uint64_t keyOf(const FlowTable& flows) {
  if (flows.size() > 31) return 0;
  uint64_t key = 1;
  for (Flow f : flows) key = key << 2 | static_cast<uint64_t>(f);
  return key;
}

class Solver {
public:
  explicit Solver(PropagationState& s) : s_(s) {}

  bool run(const PropagateOptions& options) {
    const PropagationPolicy policy = options.policy;
    tiesAreNobodys_ = policy != PropagationPolicy::Shardy; // until the price, or the user, decides
    std::vector<int32_t> priorities = {0};
    for (const ShardingVar& var : s_.vars)
      for (const DimSharding& d : var.annotated)
        if (d.priority > 0) priorities.push_back(d.priority);
    std::ranges::sort(priorities);
    priorities.erase(std::unique(priorities.begin(), priorities.end()), priorities.end());
    for (int32_t p : priorities) {
      reveal(p);
      for (int level = 0; level < kLevels && policy != PropagationPolicy::Dtensor; ++level)
        runStageOnAll(level);
    }
    if (policy == PropagationPolicy::Dtensor) solveForward(s_);
    if (policy == PropagationPolicy::Explicit && !reportConflicts(s_)) return false;
    if (policy == PropagationPolicy::Shardy || policy == PropagationPolicy::Cost)
      resolveTies(policy == PropagationPolicy::Shardy);
    for (ShardingVar& var : s_.vars)
      for (DimSharding& d : var.dims) d.open = false, d.priority = -1;
    if (policy == PropagationPolicy::Cost) improveByPrice(s_, options.machine);
    return true;
  }

private:
  // Reveals the annotated dims of this priority (none is p0). Until then such a dim is closed and unsharded.
  void reveal(int32_t priority) {
    version_.assign(s_.vars.size(), 0);
    agreedAt_.assign(s_.relations.size(), 0);
    tried_.assign(s_.relations.size(), {});
    queued_.assign(s_.relations.size(), false);
    for (ShardingVar& var : s_.vars) {
      var.reserved.clear();
      for (size_t d = 0; d < var.annotated.size(); ++d) {
        const DimSharding& a = var.annotated[d];
        int32_t at = std::max(a.priority, 0);
        if (at > priority) {
          var.dims[d].open = false;
          var.reserved.insert(var.reserved.end(), a.parts.begin(), a.parts.end());
        }
        if (at != priority) continue;
        var.dims[d] = a;
        if (!a.isSharded()) continue;
        ShardingReason reason;
        reason.kind = var.isResult ? ShardingReason::ResultAnnotation : ShardingReason::Annotation;
        reason.value = var.value;
        reason.dim = static_cast<uint16_t>(d);
        reason.parts = a.parts;
        s_.report.shardings.push_back(std::move(reason));
      }
    }
  }

  void runStage(int level, std::vector<uint32_t> work) {
    for (uint32_t r : work) queued_[r] = true;
    std::vector<VarId> changed;
    while (!work.empty()) {
      const uint32_t r = work.back();
      work.pop_back();
      queued_[r] = false;
      changed.clear();
      if (!update(r, level, changed)) continue;
      for (VarId v : changed) {
        ++version_[v];
        queueRelationsOf(v, r, work);
      }
    }
  }

  void runStageOnAll(int level) {
    updateReturned();
    std::vector<uint32_t> all;
    for (uint32_t r = static_cast<uint32_t>(s_.relations.size()); r-- > 0;)
      if (!s_.relations[r].returned) all.push_back(r);
    runStage(level, std::move(all));
    updateReturned();
  }

  // Propagates between the returned values and the function's results, at every level.
  void updateReturned() {
    std::vector<VarId> changed;
    for (uint32_t r = 0; r < s_.relations.size(); ++r)
      if (s_.relations[r].returned) (void)update(r, kLevels, changed);
    for (VarId v : changed) ++version_[v];
  }

  // Puts the producer of the variable last, its users in program order before it: they are processed first.
  void queueRelationsOf(VarId v, uint32_t except, std::vector<uint32_t>& work) {
    const std::vector<uint32_t>& all = s_.relationsOfVar[v];
    auto queue = [&](uint32_t r) {
      if (queued_[r] || r == except) return;
      queued_[r] = true;
      work.push_back(r);
    };
    if (!all.empty()) queue(all.front());
    for (size_t i = all.size(); i-- > 1;) queue(all[i]);
  }

  bool update(uint32_t relation, int level, std::vector<VarId>& changed) {
    const Relation& rel = s_.relations[relation];
    VarId first = kNoVar;
    const uint64_t version = versionOf(relation);
    if (agreedAt_[relation] == version) return false;
    for (VarId v : rel.tensors) {
      if (v == kNoVar) continue;
      if (first == kNoVar) first = v;
      if (s_.vars[v].mesh != s_.vars[first].mesh) return false;
    }
    if (first == kNoVar) return false;
    if (rel.prefixed == SIZE_MAX && !anySharded(rel)) { // nothing to propagate
      agreedAt_[relation] = version;
      return false;
    }
    flows_.clear();
    bool any = false;
    for (const Factor& f : rel.moving().factors) {
      flows_.push_back(flowOf(rel, f, level));
      any = any || flows_.back() != Flow::None;
    }
    const uint64_t key = keyOf(flows_);
    if (!any || (key != 0 && tried_[relation].version == version && tried_[relation].flows == key))
      return false;
    tried_[relation] = {version, key};
    bool agreed = false;
    std::vector<TensorUpdate> moved = propagateAxes(propagationOf(rel, s_.mesh(first)), flows_, agreed);
    if (agreed) agreedAt_[relation] = version;
    const size_t before = changed.size();
    for (TensorUpdate& t : moved) {
      if (t.tensor == rel.prefixed && !takePrefix(t.dims, rel.prefix)) continue;
      recordReasons(rel, t);
      s_.vars[rel.tensors[t.tensor]].dims = t.dims;
      changed.push_back(rel.tensors[t.tensor]);
    }
    return changed.size() > before;
  }

  uint64_t versionOf(uint32_t relation) const {
    uint64_t version = 1;
    for (VarId v : s_.relations[relation].tensors)
      if (v != kNoVar) version += version_[v];
    return version;
  }

  FactorPropagation propagationOf(const Relation& rel, const Mesh& mesh) const {
    FactorPropagation moves{rel.moving(),    mesh,           {}, rel.rule.operands.size(),
                            tiesAreNobodys_, rel.elementwise};
    if (rel.primal != kNoVar) moves.primal = {&moves.rule.results[0], s_.vars[rel.primal].dims, {}, {}};
    moves.tensors.reserve(rel.tensors.size());
    for (size_t t = 0; t < rel.tensors.size(); ++t) {
      FactorTensor& tensor = moves.tensors.emplace_back();
      if (rel.tensors[t] == kNoVar) continue;
      const ShardingVar& var = s_.vars[rel.tensors[t]];
      tensor.map = &mapOf(moves.rule, t);
      tensor.dims = var.dims;
      tensor.taken = var.replicated;
      if (t == rel.prefixed) addPrefix(tensor, rel.prefix, mesh);
      for (const PendingAxis& p : var.pending) tensor.taken.push_back(p.axis);
      for (const DimPart& p : var.reserved) tensor.taken.push_back(p.axis);
    }
    return moves;
  }

  bool anySharded(const Relation& rel) const {
    return std::ranges::any_of(rel.tensors, [&](VarId v) {
      return v != kNoVar && std::ranges::any_of(s_.vars[v].dims, [](auto& d) { return d.isSharded(); });
    });
  }

  // For each dim that is now (further) sharded: the first other tensor that is sharded along one of its
  // factors.
  void recordReasons(const Relation& rel, const TensorUpdate& moved) {
    const Rule& rule = rel.moving();
    const ShardingVar& var = s_.vars[rel.tensors[moved.tensor]];
    for (uint16_t d = 0; d < moved.dims.size(); ++d) {
      if (moved.dims[d] == var.dims[d]) continue;
      ShardingReason reason;
      reason.value = rel.values[moved.tensor];
      reason.dim = d;
      reason.parts = moved.dims[d].parts;
      reason.via = rel.op;
      for (const Term& term : mapOf(rule, moved.tensor).dims[d].sharded())
        for (size_t t = 0; t < rel.tensors.size() && !reason.from.valid(); ++t) {
          if (t == moved.tensor || rel.tensors[t] == kNoVar) continue;
          if (!shardsFactor(rule, t, term.factor, s_.vars[rel.tensors[t]])) continue;
          reason.from = rel.values[t];
          reason.factor = rule.factors[term.factor].name;
        }
      if (reason.from.valid()) s_.report.shardings.push_back(std::move(reason));
    }
  }

  // If tensors differ along a factor, or a list would have to be strided, an open result gets nothing. It then
  // takes the sharding of the op's cheapest form, and propagation continues from there; with `viewsOnly` only
  // for strided lists, which are free.
  void resolveTies(bool viewsOnly) {
    bool everywhere = true; // the first time; later only around changes
    for (uint32_t r = 0; r < s_.relations.size(); ++r) {
      std::vector<VarId> changed;
      if (!s_.relations[r].op.valid() || s_.relations[r].inner || agreedAt_[r] == versionOf(r) ||
          !settle(s_.relations[r], viewsOnly, changed))
        continue;
      for (VarId v : changed) ++version_[v];
      if (everywhere) {
        runStageOnAll(kLevels - 1);
      } else {
        std::vector<uint32_t> around;
        for (VarId v : changed) queueRelationsOf(v, ~0u, around);
        runStage(kLevels - 1, std::move(around));
      }
      everywhere = false;
    }
    updateReturned();
  }

  bool settle(const Relation& rel, bool viewsOnly, std::vector<VarId>& changedVars) {
    bool open = false, sharded = false;
    for (size_t t = 0; t < rel.tensors.size(); ++t) {
      if (rel.tensors[t] == kNoVar) continue;
      for (const DimSharding& d : s_.vars[rel.tensors[t]].dims) {
        sharded = sharded || d.isSharded();
        open = open || (t >= rel.rule.operands.size() && d.open && !d.isSharded());
      }
    }
    if (!open || !sharded) return false;
    FormPricing pricing;
    pricing.freeResults = true; // conflicts are resolved by price
    const OpForm form = chooseForm(s_, rel, pricing);
    bool changed = false;
    for (size_t k = 0; k < form.results.size(); ++k) {
      ShardingVar& var = s_.vars[rel.tensors[rel.rule.operands.size() + k]];
      if (viewsOnly && std::ranges::any_of(var.dims, [](const DimSharding& d) { return d.isSharded(); }))
        continue;
      PartList taken = var.reserved;
      for (const AxisRef& a : var.replicated) taken.push_back({a, 0});
      for (const PendingAxis& p : var.pending) taken.push_back({p.axis, 0});
      for (const DimSharding& d : var.dims) taken.insert(taken.end(), d.parts.begin(), d.parts.end());
      for (uint16_t d = 0; d < var.dims.size(); ++d) {
        const PartList& parts = form.results[k][d].parts;
        if (!var.dims[d].open || var.dims[d].isSharded() || parts.empty()) continue;
        if (viewsOnly && !form.results[k][d].strided()) continue;
        if (!disjoint(parts, taken, s_.m.shardings.mesh(var.mesh))) continue;
        var.dims[d].parts = parts;
        ShardingReason reason;
        reason.kind = ShardingReason::Cheapest;
        reason.value = rel.values[rel.rule.operands.size() + k];
        reason.dim = d;
        reason.parts = parts;
        reason.via = rel.op;
        s_.report.shardings.push_back(std::move(reason));
        changed = true;
        changedVars.push_back(rel.tensors[rel.rule.operands.size() + k]);
      }
    }
    return changed;
  }

  PropagationState& s_;
  bool tiesAreNobodys_ = false; // FactorPropagation.h
  // How often a variable has changed, and the sum of that over a relation's variables when all its factors
  // last agreed: until one changes, the relation is skipped at every level.
  std::vector<uint32_t> version_;
  std::vector<uint64_t> agreedAt_;
  // The same for relations that do not agree: the flows with which nothing propagated at that sum.
  struct Tried {
    uint64_t version = 0, flows = 0;
  };
  std::vector<Tried> tried_;
  FlowTable flows_;          // of one update
  std::vector<bool> queued_; // by relation; all false between stages
};

} // namespace

bool solveShardings(PropagationState& s, const PropagateOptions& options) { return Solver(s).run(options); }

} // namespace dtc
