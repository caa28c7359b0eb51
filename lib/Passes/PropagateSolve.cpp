// The fixed point: axes move along factors until nothing changes.
#include "Policies.h"
#include <algorithm>
#include <deque>

namespace dtc {

namespace {

// What one relation knows of its factors in one update; the lists are used again from update to update.
struct Update {
  const Relation& rel;
  const Mesh& mesh;
  std::span<TensorProjection> tensors; // empty projection for kNoVar
  std::vector<PartList>& axes;         // per factor: what is to be moved along it
};

} // namespace

static const TensorMap& mapOf(const Rule& rule, size_t tensor) {
  return tensor < rule.operands.size() ? rule.operands[tensor] : rule.results[tensor - rule.operands.size()];
}

// May axes move along this factor at this level? 0: elementwise and views; 1: pass factors of every op; 2: all.
static bool factorMoves(const Relation& rel, size_t factor, int level) {
  const Factor& f = rel.rule.factors[factor];
  if (f.size == Dim(1) || f.kind == FactorKind::Whole) return false;
  if (level == 0) return rel.passThrough;
  if (level == 1) return f.kind == FactorKind::Pass || f.kind == FactorKind::Place;
  return true;
}

// The longest list that all tensors agree on: where one list begins another, the longer; from a conflict on, nothing.
static PartList agreedParts(const Update& u, uint16_t factor) {
  PartList agreed;
  bool conflict = false;
  for (const TensorProjection& t : u.tensors) {
    const FactorEntry* e = t.find(factor);
    if (!e) continue;
    PartList common = commonPrefix(agreed, e->parts, u.mesh);
    bool oldLeads = common == agreed, newLeads = common == e->parts;
    if (oldLeads && newLeads) continue;
    if (oldLeads) {
      if (!conflict) agreed = e->parts;
    } else if (!newLeads) {
      agreed = std::move(common);
      conflict = true;
    }
  }
  return agreed;
}

// Cuts the list before the first part that `keep` refuses. `product` is that of the parts up to and with this one.
template <class Keep> static void truncateParts(PartList& parts, const Mesh& mesh, Keep&& keep) {
  int64_t product = 1;
  for (size_t i = 0; i < parts.size(); ++i) {
    product *= partsProduct({&parts[i], 1}, mesh);
    if (keep(parts[i], product)) continue;
    parts.resize(i);
    break;
  }
  while (!parts.empty() && !parts.back().isAxis()) parts.pop_back();
}

static bool holds(const PartList& list, const DimPart& part, const Mesh& mesh) {
  for (const DimPart& p : list)
    if (p == part || (p.isAxis() && part.isAxis() && commonPrefix({p}, {part}, mesh) == PartList{part}))
      return true;
  return false;
}

// Conflicts inside one factor: closed dims, replicated and pending axes, divisibility.
static void removeConflictsWithin(Update& u, const PropagationState& s) {
  for (size_t t = 0; t < u.tensors.size(); ++t) {
    if (u.rel.tensors[t] == kNoVar) continue;
    const ShardingVar& var = s.vars[u.rel.tensors[t]];
    PartList taken;
    for (const AxisRef& a : var.replicated) taken.push_back({a, 0});
    for (const PendingAxis& p : var.pending) taken.push_back({p.axis, 0});
    for (const FactorEntry& e : u.tensors[t].entries) {
      const Dim size = u.rel.rule.factors[e.factor].size;
      truncateParts(u.axes[e.factor], u.mesh, [&](const DimPart& p, int64_t product) {
        if (holds(e.parts, p, u.mesh)) return true;
        bool divides = e.minorMost || (size.isStatic() && size.value() % product == 0);
        return e.open && divides && disjoint({&p, 1}, taken, u.mesh);
      });
    }
  }
}

// Conflicts between factors. Basic: no axis that any tensor uses for another factor. Aggressive: only in tensors that have
// the factor, but against what other factors are about to get there as well.
static void removeConflictsAcross(Update& u, bool aggressive) {
  const std::vector<PartList> snapshot = u.axes;
  for (const TensorProjection& t : u.tensors) {
    for (uint16_t f = 0; f < u.axes.size(); ++f) {
      if (u.axes[f].empty() || (aggressive && !t.find(f))) continue;
      truncateParts(u.axes[f], u.mesh, [&](const DimPart& p, int64_t) {
        if (!p.isAxis()) return true;
        for (const auto& [dim, parts] : t.overflow)
          if (!disjoint({&p, 1}, parts, u.mesh)) return false;
        for (const FactorEntry& other : t.entries) {
          if (other.factor == f) continue;
          if (!disjoint({&p, 1}, other.parts, u.mesh)) return false;
          if (aggressive && !disjoint({&p, 1}, snapshot[other.factor], u.mesh)) return false;
        }
        return true;
      });
    }
  }
}

static void recordReasons(PropagationState& s, const Relation& rel, size_t tensor,
                          const TensorProjection& before, const Update& u,
                          const std::vector<DimSharding>& dims) {
  const ShardingVar& var = s.vars[rel.tensors[tensor]];
  for (const FactorEntry& e : before.entries) {
    if (dims[e.dim] == var.dims[e.dim]) continue;
    ShardingReason reason;
    reason.value = rel.values[tensor];
    reason.dim = e.dim;
    reason.parts = dims[e.dim].parts;
    reason.via = rel.op;
    reason.factor = rel.rule.factors[e.factor].name;
    for (size_t t = 0; t < u.tensors.size(); ++t) { // the tensor that had the whole list
      const FactorEntry* source = t == tensor ? nullptr : u.tensors[t].find(e.factor);
      if (source && !source->parts.empty() && isPrefix(u.axes[e.factor], source->parts, u.mesh)) {
        reason.from = rel.values[t];
        break;
      }
    }
    if (reason.from.valid()) s.report.shardings.push_back(std::move(reason));
  }
}

// Writes the lists back into the tensors that lack them.
static void writeBack(PropagationState& s, Update& u, std::vector<VarId>& changed) {
  const Relation& rel = u.rel;
  for (size_t t = 0; t < u.tensors.size(); ++t) {
    VarId v = rel.tensors[t];
    if (v == kNoVar || !u.tensors[t].overflow.empty()) continue;
    std::vector<PartList> perFactor(rel.rule.factors.size());
    bool grows = false;
    for (const FactorEntry& e : u.tensors[t].entries) {
      perFactor[e.factor] = e.parts;
      const PartList& wanted = u.axes[e.factor];
      if (wanted.size() < e.parts.size() || wanted == e.parts || !isPrefix(e.parts, wanted, u.mesh)) continue;
      if (!disjoint(wanted, s.vars[v].reserved, u.mesh)) continue; // this tensor alone must wait
      perFactor[e.factor] = wanted;
      grows = true;
    }
    if (!grows) continue;
    auto dims = unprojectDims(mapOf(rel.rule, t), rel.rule, perFactor, u.mesh);
    if (!dims) continue;
    for (size_t d = 0; d < dims->size(); ++d) {
      (*dims)[d].open = s.vars[v].dims[d].open;
      (*dims)[d].priority = s.vars[v].dims[d].priority;
    }
    recordReasons(s, rel, t, u.tensors[t], u, *dims);
    s.vars[v].dims = std::move(*dims);
    changed.push_back(v);
  }
}

// Are all tensors cut alike along every factor that axes may move along? Then nothing can move, whatever the level.
static bool allAgree(const Update& u) {
  for (uint16_t f = 0; f < u.rel.rule.factors.size(); ++f) {
    if (!factorMoves(u.rel, f, 2)) continue;
    const FactorEntry* first = nullptr;
    for (const TensorProjection& t : u.tensors) {
      const FactorEntry* e = t.find(f);
      if (!e) continue;
      if (first && first->parts != e->parts) return false;
      first = e;
    }
  }
  return true;
}

uint64_t PropagationState::versionOf(uint32_t relation) const {
  uint64_t version = 1;
  for (VarId v : relations[relation].tensors)
    if (v != kNoVar) version += version_[v];
  return version;
}

bool PropagationState::anyCut(const Relation& rel) const {
  return std::any_of(rel.tensors.begin(), rel.tensors.end(), [&](VarId v) {
    return v != kNoVar &&
           std::any_of(vars[v].dims.begin(), vars[v].dims.end(), [](auto& d) { return d.cut(); });
  });
}

bool PropagationState::update(uint32_t relation, int level, bool aggressive, std::vector<VarId>& changed) {
  const Relation& rel = relations[relation];
  VarId first = kNoVar;
  const uint64_t version = versionOf(relation);
  if (agreedAt_[relation] == version) return false;
  for (VarId v : rel.tensors) {
    if (v == kNoVar) continue;
    if (first == kNoVar) first = v;
    if (vars[v].mesh != vars[first].mesh) return false;
  }
  if (first == kNoVar) return false;
  if (!anyCut(rel)) { // nothing that could move
    agreedAt_[relation] = version;
    return false;
  }
  // Along all factors or none at level 0; where it is along all, the other levels have no more.
  if (level == 0 && !rel.passThrough) return false;
  const auto way = static_cast<uint8_t>(1 << ((rel.passThrough ? 0 : 2 * level) + (aggressive ? 1 : 0)));
  Tried& tried = tried_[relation];
  if (tried.version != version) tried = {version, 0};
  if (tried.ways & way) return false;
  tried.ways |= way;
  if (projections_.size() < rel.tensors.size()) projections_.resize(rel.tensors.size());
  Update u{rel, mesh(first), {projections_.data(), rel.tensors.size()}, axes_};
  for (size_t t = 0; t < rel.tensors.size(); ++t) {
    u.tensors[t].clear();
    if (rel.tensors[t] != kNoVar)
      projectDims(mapOf(rel.rule, t), rel.rule, vars[rel.tensors[t]].dims, u.mesh, u.tensors[t]);
  }
  if (allAgree(u)) {
    agreedAt_[relation] = version;
    return false;
  }
  bool any = false;
  u.axes.clear();
  for (uint16_t f = 0; f < rel.rule.factors.size(); ++f) {
    u.axes.push_back(factorMoves(rel, f, level) ? agreedParts(u, f) : PartList());
    any = any || !u.axes.back().empty();
  }
  if (!any) return false;
  removeConflictsWithin(u, *this);
  removeConflictsAcross(u, aggressive);
  size_t before = changed.size();
  writeBack(*this, u, changed);
  return changed.size() != before;
}

void PropagationState::runStage(int level, bool aggressive, std::deque<uint32_t> work,
                                std::vector<VarId>& changed) {
  for (uint32_t r : work) queued_[r] = true;
  while (!work.empty()) {
    uint32_t r = work.front();
    work.pop_front();
    queued_[r] = false;
    const size_t before = changed.size();
    if (!update(r, level, aggressive, changed)) continue;
    for (size_t i = before; i < changed.size(); ++i) {
      ++version_[changed[i]];
      for (uint32_t other : relationsOfVar_[changed[i]]) {
        if (queued_[other]) continue;
        queued_[other] = true;
        work.push_back(other);
      }
    }
  }
}

void PropagationState::runStageOnAll(int level, bool aggressive) {
  std::deque<uint32_t> all;
  for (uint32_t r = 0; r < relations.size(); ++r) all.push_back(r);
  std::vector<VarId> changed;
  runStage(level, aggressive, std::move(all), changed);
}

// Shows the annotated dims of this priority (none is p0). Until then such a dim is closed and uncut.
void PropagationState::reveal(int32_t priority) {
  version_.assign(vars.size(), 0);
  agreedAt_.assign(relations.size(), 0);
  tried_.assign(relations.size(), {});
  queued_.assign(relations.size(), false);
  for (ShardingVar& var : vars) {
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
      if (!a.cut()) continue;
      ShardingReason reason;
      reason.kind = var.isResult ? ShardingReason::ResultAnnotation : ShardingReason::Annotation;
      reason.value = var.value;
      reason.dim = static_cast<uint16_t>(d);
      reason.parts = a.parts;
      report.shardings.push_back(std::move(reason));
    }
  }
}

// Two factors of one result may want one axis, and then neither gets it. What the cheapest form of the op gives is what its
// open result takes, and goes on from there.
void PropagationState::resolveTies() {
  bool everywhere = true; // the first time; then only around what has changed
  for (uint32_t r = 0; r < relations.size(); ++r) {
    std::vector<VarId> changed;
    if (!relations[r].op.valid() || agrees(r) || !settle(relations[r], changed)) continue;
    for (VarId v : changed) ++version_[v];
    for (bool aggressive : {false, true}) {
      if (everywhere) {
        runStageOnAll(2, aggressive);
        continue;
      }
      std::deque<uint32_t> around;
      for (VarId v : changed)
        around.insert(around.end(), relationsOfVar_[v].begin(), relationsOfVar_[v].end());
      runStage(2, aggressive, std::move(around), changed);
    }
    everywhere = false;
  }
}

bool PropagationState::settle(const Relation& rel, std::vector<VarId>& changedVars) {
  bool open = false, cut = false;
  for (size_t t = 0; t < rel.tensors.size(); ++t) {
    if (rel.tensors[t] == kNoVar) continue;
    for (const DimSharding& d : vars[rel.tensors[t]].dims) {
      cut = cut || d.cut();
      open = open || (t >= rel.rule.operands.size() && d.open && !d.cut());
    }
  }
  if (!open || !cut) return false;
  const OpForm form = chooseForm(*this, rel, true);
  bool changed = false;
  for (size_t k = 0; k < form.results.size(); ++k) {
    ShardingVar& var = vars[rel.tensors[rel.rule.operands.size() + k]];
    PartList taken = var.reserved;
    for (const AxisRef& a : var.replicated) taken.push_back({a, 0});
    for (const PendingAxis& p : var.pending) taken.push_back({p.axis, 0});
    for (const DimSharding& d : var.dims) taken.insert(taken.end(), d.parts.begin(), d.parts.end());
    for (uint16_t d = 0; d < var.dims.size(); ++d) {
      const PartList& parts = form.results[k][d].parts;
      if (!var.dims[d].open || var.dims[d].cut() || parts.empty()) continue;
      if (!disjoint(parts, taken, m.shardings.mesh(var.mesh))) continue;
      var.dims[d].parts = parts;
      ShardingReason reason;
      reason.kind = ShardingReason::Cheapest;
      reason.value = rel.values[rel.rule.operands.size() + k];
      reason.dim = d;
      reason.parts = parts;
      reason.via = rel.op;
      report.shardings.push_back(std::move(reason));
      changed = true;
      changedVars.push_back(rel.tensors[rel.rule.operands.size() + k]);
    }
  }
  return changed;
}

bool PropagationState::solve(const PropagateOptions& options) {
  const PropagationPolicy policy = options.policy;
  std::vector<int32_t> priorities = {0};
  for (const ShardingVar& var : vars)
    for (const DimSharding& d : var.annotated)
      if (d.priority > 0) priorities.push_back(d.priority);
  std::sort(priorities.begin(), priorities.end());
  priorities.erase(std::unique(priorities.begin(), priorities.end()), priorities.end());
  for (int32_t p : priorities) {
    reveal(p);
    for (int level = 0; level < 3 && policy != PropagationPolicy::Dtensor; ++level)
      for (bool aggressive : {false, true}) runStageOnAll(level, aggressive);
  }
  if (policy == PropagationPolicy::Dtensor) solveForward(*this);
  if (policy == PropagationPolicy::Explicit && !reportConflicts(*this)) return false;
  if (policy == PropagationPolicy::Shardy || policy == PropagationPolicy::Cost) resolveTies();
  for (ShardingVar& var : vars)
    for (DimSharding& d : var.dims) d.open = false, d.priority = -1;
  if (policy == PropagationPolicy::Cost) improveByPrice(*this, options.machine);
  return true;
}

} // namespace dtc
