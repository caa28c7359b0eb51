// Variables and relations of a module: the problem statement. The solver is in PropagateSolve.cpp.
#include "propagate/PropagationState.h"
#include "dtc/Passes/analysis/MemoryPlan.h"
#include <algorithm>

namespace dtc {

static constexpr DiagKind kMixedMeshes{"mixed-meshes",
                                       "operands of '{0}' are on different meshes, @{1} and @{2}: add a "
                                       "`reshard` before it"};

Rule identityRule(std::span<const Dim> dims, size_t skipDimsOfB, size_t numSources) {
  Rule rule;
  TensorMap a, b;
  for (size_t d = 0; d < skipDimsOfB; ++d) b.dims.push_back({DimMap::Free, {}, 0});
  for (size_t d = 0; d < dims.size(); ++d) {
    rule.factors.push_back({"", dims[d], FactorKind::Pass, PendingKind::None});
    DimMap map{DimMap::Compound, {{static_cast<uint16_t>(d), 1}}, 0};
    a.dims.push_back(map);
    b.dims.push_back(map);
  }
  rule.operands.assign(numSources, a);
  rule.results.push_back(std::move(b));
  return rule;
}

VarId PropagationState::newVar(ValueId v, MeshId mesh, size_t rank, ShardingId written) {
  auto id = static_cast<VarId>(vars.size());
  ShardingVar var;
  var.mesh = mesh;
  var.value = v;
  var.dims.resize(rank);
  for (DimSharding& d : var.dims) d.open = true;
  vars.push_back(std::move(var));
  annotate(id, written);
  return id;
}

VarId PropagationState::addVar(ValueId v, MeshId mesh, ShardingId written) {
  if (varOf.size() < m.values.size()) varOf.resize(m.values.size(), kNoVar);
  if (varOf[v.index] == kNoVar) varOf[v.index] = newVar(v, mesh, m.typeOf(v).rank(), written);
  return varOf[v.index];
}

void PropagationState::annotate(VarId v, ShardingId written) {
  if (!written.valid()) return;
  const Sharding& s = m.shardings[written];
  vars[v].written = true;
  vars[v].mesh = s.mesh;
  vars[v].annotated = s.dims;
  vars[v].pending = s.pending;
  vars[v].replicated = s.replicated;
}

// `a` and `b` share one sharding (carried values): b takes a's variable, and the annotation of either.
void PropagationState::unite(ValueId a, ValueId b) {
  if (varOf.size() < m.values.size()) varOf.resize(m.values.size(), kNoVar);
  VarId va = varOf[a.index];
  varOf[b.index] = va;
  vars[va].shared = true;
  if (!vars[va].written) annotate(va, m[b].sharding);
}

void PropagationState::link(ValueId a, ValueId b, size_t skipDimsOfB) {
  if (a.index >= varOf.size() || b.index >= varOf.size()) return; // a literal
  linkVars(varOf[a.index], varOf[b.index], m.typeOf(a).dims, a, b, skipDimsOfB);
}

Relation* PropagationState::linkVars(VarId a, VarId b, std::span<const Dim> dimsOfA, ValueId valueA,
                                     ValueId valueB, size_t skipDimsOfB) {
  if (a == kNoVar || b == kNoVar) return nullptr;
  Relation r;
  r.rule = identityRule(dimsOfA, skipDimsOfB);
  r.tensors = {a, b};
  r.values = {valueA, valueB};
  r.early = Flow::Both;
  relations.push_back(std::move(r));
  return &relations.back();
}

void PropagationState::linkAll(std::span<const ValueId> sources, ValueId target) {
  Relation r;
  for (ValueId v : sources) {
    if (v.index >= varOf.size() || varOf[v.index] == kNoVar) continue; // a literal
    r.tensors.push_back(varOf[v.index]);
    r.values.push_back(v);
  }
  if (r.tensors.empty()) return;
  vars[varOf[target.index]].shared = true;
  r.rule = identityRule(m.typeOf(target).dims, 0, r.tensors.size());
  r.tensors.push_back(varOf[target.index]);
  r.values.push_back(target);
  r.early = Flow::Both;
  relations.push_back(std::move(r));
}

// The common constraint on each value: an invalid id if constraints differ.
void PropagationState::collectConstraints() {
  auto add = [&](ValueId v, ShardingId s) {
    auto [it, fresh] = constraintOn_.emplace(v.index, s);
    if (!fresh && it->second != s) it->second = ShardingId();
  };
  for (FuncId f : m.order) {
    if (m[f].spmd) continue;
    forEachOp(m, m[f].body, [&](OpId o) {
      const OpRecord& rec = m.record(o);
      if (rec.constraint == Constraint::Shard && m[m.result(o)].sharding.valid())
        add(m.operand(o, 0), m[m.result(o)].sharding);
      if (rec.regions == RegionKind::Local)
        for (uint32_t i = 0; i < m[o].numOperands; ++i)
          add(m.operand(o, i), m[m[m.region(o)].args[i]].sharding);
    });
  }
}

bool PropagationState::build() {
  collectConstraints();
  varOf.assign(m.values.size(), kNoVar);
  relationOf.assign(m.ops.size(), ~0u);
  resultVars.resize(m.functions.size());
  for (FuncId f : m.order)
    if (!m[f].spmd) buildBoundary(f);
  for (FuncId f : m.order)
    if (!m[f].spmd && !buildFunction(f)) return false;
  findPrimals(relations);
  relationsOfVar.resize(vars.size());
  for (uint32_t r = 0; r < relations.size(); ++r)
    for (VarId v : relations[r].tensors)
      if (v != kNoVar && !relations[r].returned &&
          (relationsOfVar[v].empty() || relationsOfVar[v].back() != r))
        relationsOfVar[v].push_back(r);
  return true;
}

static MeshId functionMesh(Module& m, const Function& f) {
  AttrId named = findAttr(f.attrs, m.strings.find("mesh"));
  if (named.valid()) return m.shardings.findMesh(m.attrs[named].text);
  for (const FuncArg& a : f.args)
    if (m[a.value].sharding.valid()) return m.shardings[m[a.value].sharding].mesh;
  for (const FuncResult& r : f.results)
    if (r.sharding.valid()) return m.shardings[r.sharding].mesh;
  return MeshId(0);
}

// Arguments and results of all functions first, so that calls can refer to them.
void PropagationState::buildBoundary(FuncId f) {
  MeshId mesh = functionMesh(m, m[f]);
  std::vector<ShardingId> written;
  for (const FuncArg& a : m[f].args) written.push_back(m[a.value].sharding);
  for (auto [result, argument] : carriedResults(m, f)) // a carried argument has the sharding of its result
    if (!written[argument].valid()) written[argument] = m[f].results[result].sharding;
  for (size_t i = 0; i < written.size(); ++i) addVar(m[f].args[i].value, mesh, written[i]);
  const Block& body = m[m[f].body];
  for (size_t r = 0; r < m[f].results.size(); ++r) {
    resultVars[f.index].push_back(
        newVar(body.yields[r], mesh, m.types[m[f].results[r].type].rank(), m[f].results[r].sharding));
    vars[resultVars[f.index].back()].isResult = true;
  }
}

bool PropagationState::buildFunction(FuncId f) {
  if (!buildBlock(m[f].body, functionMesh(m, m[f]))) return false;
  const Block& body = m[m[f].body];
  for (size_t r = 0; r < body.yields.size(); ++r) {
    ValueId v = body.yields[r];
    if (v.index >= varOf.size()) continue;
    if (Relation* rel = linkVars(varOf[v.index], resultVars[f.index][r], m.typeOf(v).dims, v, v))
      rel->returned = true;
  }
  return true;
}

// Links a call's operands to the callee's arguments: all calls of a function share one sharding.
void PropagationState::buildCall(OpId o) {
  FuncId callee = m.findFunction(m.strings[m[o].callee]);
  for (size_t i = 0; i < m[callee].args.size(); ++i) link(m.operand(o, i), m[callee].args[i].value);
  for (uint32_t r = 0; r < m[o].numResults && r < resultVars[callee.index].size(); ++r) {
    ValueId res = m.result(o, r);
    linkVars(resultVars[callee.index][r], varOf[res.index], m.typeOf(res).dims, res, res);
  }
}

bool PropagationState::buildBlock(BlockId b, MeshId mesh) {
  for (size_t i = 0; i < m[b].ops.size(); ++i)
    if (!buildOp(m[b].ops[i], mesh)) return false;
  return true;
}

// The mesh of an op's unannotated results: that of its operands.
static bool operandMesh(PropagationState& s, OpId o, MeshId& mesh) {
  bool found = false;
  for (ValueId v : s.m.operands(o)) {
    if (v.index >= s.varOf.size() || s.varOf[v.index] == kNoVar) continue;
    MeshId mine = s.vars[s.varOf[v.index]].mesh;
    if (found && mine != mesh)
      return s.diags.fail(kMixedMeshes, s.m[o].loc, s.m.record(o).name,
                          s.m.strings[s.m.shardings.mesh(mesh).name],
                          s.m.strings[s.m.shardings.mesh(mine).name]);
    mesh = mine;
    found = true;
  }
  return true;
}

static bool hasFactor(const TensorMap& t, size_t factor) {
  for (const DimMap& d : t.dims)
    for (const Term& term : d.terms)
      if (term.factor == factor) return true;
  return false;
}

static bool coversAll(const Rule& rule, size_t factor) {
  auto has = [&](const TensorMap& t) {
    return t.dims.empty() || hasFactor(t, factor);
  }; // scalars are unsharded
  return std::ranges::all_of(rule.operands, has) && std::ranges::all_of(rule.results, has);
}

// True if every tensor with dims has the factors 0, 1, … in this order, one per dim.
static bool isElementwise(const Rule& rule) {
  auto plain = [&](const TensorMap& t) {
    for (size_t d = 0; d < t.dims.size(); ++d) {
      const size_t fromEnd = t.dims.size() - d;
      if (!t.dims[d].terms.empty() &&
          (!t.dims[d].plain() || rule.factors.size() < fromEnd ||
           t.dims[d].terms[0].factor !=
               rule.results[0].dims[rule.results[0].dims.size() - fromEnd].terms[0].factor))
        return false;
    }
    return true;
  };
  if (rule.results.empty()) return false;
  for (const DimMap& d : rule.results[0].dims)
    if (!d.plain()) return false;
  for (const TensorMap& t : rule.operands)
    if (t.dims.size() > rule.results[0].dims.size() || !plain(t)) return false;
  return true;
}

// The level at which axes propagate through an op (sharding.md, "How shardings are found").
void PropagationState::classify(Relation& rel, const OpRecord& rec) const {
  bool simple = true, widens = false;
  for (size_t f = 0; f < rel.rule.factors.size(); ++f) {
    if (!coversAll(rel.rule, f) || rel.rule.factors[f].kind != FactorKind::Pass) simple = false;
    widens = widens || (rel.rule.operands.size() == 1 && !hasFactor(rel.rule.operands[0], f));
  }
  rel.early = simple                                           ? Flow::Both
              : rec.follows == OpRecord::Follows::ForwardFirst ? Flow::Forward
                                                               : Flow::None;
  rel.elementwise = simple && isElementwise(rel.rule);
  rel.broadcast = widens;
  for (size_t i = 0; i < rel.rule.operands.size(); ++i) {
    const ValueId v = rel.values[i];
    if (m.typeOf(v).rank() > 0 && rel.tensors[i] != kNoVar && uses_[v] != 1) rel.singleUse = false;
  }
}

bool PropagationState::buildOp(OpId o, MeshId mesh) {
  const OpRecord& rec = m.record(o);
  if (rec.constraint != Constraint::Reshard && !operandMesh(*this, o, mesh)) return false;
  if (rec.regions != RegionKind::None) return buildRegionOp(o, mesh);
  if (rec.constraint == Constraint::Shard) {
    buildShard(o, mesh);
    return true;
  }
  for (uint32_t r = 0; r < m[o].numResults; ++r) addVar(m.result(o, r), mesh, m[m.result(o, r)].sharding);
  if (rec.constraint == Constraint::Barrier) return buildBarrier(o);
  if (rec.isCall) buildCall(o);
  if (rec.constraint != Constraint::None || rec.isCall) return true;

  if (!buildRuled(o)) return false;
  if (relationOf.size() < m.ops.size()) relationOf.resize(m.ops.size(), ~0u);
  relationOf[o.index] = static_cast<uint32_t>(relations.size() - 1);
  return true;
}

bool PropagationState::buildRuled(OpId o) {
  const OpRecord& rec = m.record(o);
  Relation rel;
  rel.op = o;
  OpQuery q = queryOf(m, o, diags);
  if (!ruleOf(q, rel.rule)) return false;
  for (Factor& f : rel.rule.factors)
    if (f.communicates() && !rec.shard) f.kind = FactorKind::Whole;
  if (rec.follow) {
    rel.follow.emplace();
    if (!rec.follow(q, *rel.follow)) return false;
  }
  for (ValueId v : m.operands(o)) {
    rel.tensors.push_back(v.index < varOf.size() ? varOf[v.index] : kNoVar);
    rel.values.push_back(v);
  }
  for (uint32_t r = 0; r < m[o].numResults; ++r) {
    rel.tensors.push_back(varOf[m.result(o, r).index]);
    rel.values.push_back(m.result(o, r));
  }
  classify(rel, rec);
  relations.push_back(std::move(rel));
  return true;
}

// The values of a group are one variable. A `shard` with only a group adds its operand to it.
void PropagationState::buildShard(OpId o, MeshId mesh) {
  const ValueId x = m.operand(o, 0), y = m.result(o);
  const AttrId group = m.attr(o, "group");
  addVar(y, mesh, m[y].sharding);
  if (group.valid()) {
    auto [it, fresh] = groups_.emplace(m.attrs[group].i, y);
    if (!fresh) unite(it->second, y);
  }
  if (x.index >= varOf.size() || varOf[x.index] == kNoVar) return;
  constrainOperand(x, m[y].sharding);
  if (Relation* rel = linkVars(varOf[x.index], varOf[y.index], m.typeOf(x).dims, x, y)) {
    rel->elementwise = true;
    rel->singleUse = m.typeOf(x).rank() == 0 || uses_[x] == 1;
  }
}

// A closed constraint on a value also applies to the constrained value's operand, unless another constraint
// on that differs. Not for a loop-carried value or a branch result, which stands for several values.
void PropagationState::constrainOperand(ValueId x, ShardingId written) {
  ShardingVar& var = vars[varOf[x.index]];
  if (!written.valid() || var.written || !(var.value == x) || var.shared) return;
  const Sharding& s = m.shardings[written];
  if (!s.closed() || !s.pending.empty()) return;
  auto found = constraintOn_.find(x.index);
  if (found == constraintOn_.end() || found->second != written) return;
  const bool mine = var.written;
  annotate(varOf[x.index], written);
  var.written = mine; // an unannotated value may be pending
}

// `direction` is the one in which nothing propagates. If the op has a rule, only the rule applies.
bool PropagationState::buildBarrier(OpId o) {
  if (m.attr(o, "rule").valid()) return buildRuled(o);
  const AttrId direction = m.attr(o, "direction");
  const std::string_view blocked = direction.valid() ? m.strings[m.attrs[direction].text] : "both";
  const ValueId x = m.operand(o, 0), y = m.result(o);
  if (blocked == "both" || x.index >= varOf.size()) return true;
  if (Relation* rel = linkVars(varOf[x.index], varOf[y.index], m.typeOf(x).dims, x, y)) {
    rel->early = blocked == "forward" ? Flow::Backward : Flow::Forward;
    rel->barrier = true;
    rel->elementwise = true;
  }
  return true;
}

// A carried value has one sharding for the argument, the yield and the result. The values that flow into it,
// the start and the yield, are linked to it (a reshard may be in between); so are the yields of branches to a
// result.
bool PropagationState::buildRegionOp(OpId o, MeshId mesh) {
  const RegionKind kind = m.record(o).regions;
  const uint32_t numResults = m[o].numResults;
  if (kind == RegionKind::Local ||
      kind == RegionKind::Fused) { // has explicit shardings; its body is per device
    for (uint32_t r = 0; r < numResults; ++r) addVar(m.result(o, r), mesh, m[m.result(o, r)].sharding);
    for (uint32_t i = 0; i < m[o].numOperands && kind == RegionKind::Local; ++i)
      if (const ValueId v = m.operand(o, i); v.index < varOf.size() && varOf[v.index] != kNoVar)
        constrainOperand(v, m[m[m.region(o)].args[i]].sharding);
    const AttrId free = kind == RegionKind::Local ? m.attr(o, "free") : AttrId();
    return !free.valid() || buildFree(o, mesh, free);
  }
  const size_t firstStart = kind == RegionKind::For ? 2 : kind == RegionKind::Cond ? 1 : 0;
  const size_t firstArg = kind == RegionKind::For ? 1 : 0;
  const bool carried = kind == RegionKind::While || kind == RegionKind::For;
  for (uint32_t r = 0; r < m[o].numRegions; ++r) {
    BlockId b = m.region(o, r);
    for (size_t a = 0; a < m[b].args.size(); ++a) {
      ValueId arg = m[b].args[a];
      if (r > 0 && carried)
        unite(m[m.region(o, 0)].args[a], arg);
      else
        addVar(arg, mesh, m[arg].sharding);
      vars[varOf[arg.index]].shared = true;
      if (!carried && r == 0) link(m.operand(o, firstStart + a - firstArg), arg);
    }
    if (!buildBlock(b, mesh)) return false;
  }
  const BlockId last = m.region(o, m[o].numRegions - 1);
  const size_t numCarried = carried ? m[last].args.size() - firstArg : 0;
  for (uint32_t r = 0; r < numResults; ++r) {
    const ValueId res = m.result(o, r);
    std::vector<ValueId> sources;
    if (r < numCarried) {
      unite(m[last].args[firstArg + r], res);
      sources.push_back(m.operand(o, firstStart + r));
    } else {
      addVar(res, mesh, m[res].sharding);
    }
    for (uint32_t k = kind == RegionKind::While ? 1 : 0; k < m[o].numRegions; ++k) {
      const Block& b = m[m.region(o, k)];
      if (r < b.yields.size()) sources.push_back(b.yields[r]);
    }
    if (kind == RegionKind::For && r >= numCarried)
      link(sources[0], res, 1);
    else
      linkAll(sources, res);
  }
  return true;
}

// A tensor outside a `local` region and its shard inside: the same sharding, except for the region's own
// axes.
void PropagationState::linkInner(ValueId outer, ValueId inner, ShardingId written, bool inward) {
  if (outer.index >= varOf.size() || inner.index >= varOf.size() || !written.valid()) return;
  const VarId o = varOf[outer.index], i = varOf[inner.index];
  if (o == kNoVar || i == kNoVar) return;
  Relation* rel = inward ? linkVars(o, i, m.typeOf(outer).dims, outer, inner)
                         : linkVars(i, o, m.typeOf(outer).dims, inner, outer);
  rel->inner = true;
  rel->prefixed = inward ? 1 : 0;
  for (const DimSharding& d : m.shardings[written].dims) rel->prefix.push_back(d.parts);
}

// A region with free axes: its values have shardings over those that are never annotated; its results stay
// open to them, and are resharded after it.
bool PropagationState::buildFree(OpId o, MeshId mesh, AttrId free) {
  const BlockId b = m.region(o);
  const size_t firstVar = vars.size(), firstRelation = relations.size();
  for (ValueId a : m[b].args) addVar(a, mesh, {});
  if (!buildBlock(b, mesh)) return false;
  std::vector<AxisRef> manual;
  for (const MeshAxis& axis : m.shardings.mesh(mesh).axes) {
    auto isFree = [&](AttrId a) { return m.attrs[a].kind == Attr::Word && m.attrs[a].text == axis.name; };
    if (axis.size > 1 && !std::ranges::any_of(m.attrs[free].list, isFree)) manual.push_back({axis.name});
  }
  for (size_t v = firstVar; v < vars.size(); ++v)
    vars[v].replicated.insert(vars[v].replicated.end(), manual.begin(), manual.end());
  for (size_t i = 0; i < m[b].args.size(); ++i)
    linkInner(m.operand(o, i), m[b].args[i], m[m[b].args[i]].sharding, true);
  for (size_t i = 0; i < m[b].yields.size(); ++i) {
    const ValueId result = m.result(o, i);
    for (DimSharding& d : vars[varOf[result.index]].annotated) d.open = true;
    linkInner(result, m[b].yields[i], m[result].sharding, false);
  }
  for (size_t r = firstRelation; r < relations.size(); ++r) relations[r].inner = true;
  return true;
}

ShardingId PropagationState::shardingOf(VarId v) {
  Sharding s;
  s.mesh = vars[v].mesh;
  s.dims = vars[v].dims;
  for (DimSharding& d : s.dims) d.open = false, d.priority = -1;
  s.pending = vars[v].pending;
  s.replicated = vars[v].replicated;
  return m.shardings.intern(std::move(s));
}

} // namespace dtc
