#include "infer/LocalTypes.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/Sharding/Canonical.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>

namespace dtc {

LocalTypes::LocalTypes(Module& m, FuncId f) : m_(m), varying_(m, f) {
  for (const FuncArg& a : m[f].args)
    if (a.globalType.valid()) argument(a.value);
  block(m[f].body);
  for (size_t i = 0; i < m[f].results.size(); ++i)
    different_[m[m[f].body].yields[i]] |= varying_.ofSharding(m[f].results[i].sharding);
  usedDifferently(m[f].body);
}

LocalTypes::LocalTypes(Module& m, OpId local) : m_(m), varying_(m, local) {
  const BlockId body = m.region(local);
  for (ValueId a : m[body].args) argument(a);
  block(body);
  for (uint32_t r = 0; r < m[local].numResults && r < m[body].yields.size(); ++r)
    different_[m[body].yields[r]] |= varying_.ofSharding(m[m.result(local, r)].sharding);
  usedDifferently(body);
}

void LocalTypes::argument(ValueId v) {
  const ShardingId id = m_[v].sharding;
  if (!id.valid() || m_.shardings[id].mesh != varying_.mesh()) return;
  const Sharding& s = m_.shardings[id];
  ShardAxes shardAxes;
  for (const DimSharding& d : s.dims) {
    if (d.strided()) return setPending(v, {});
    shardAxes.push_back(d.axes());
  }
  shardAxes_[v] = std::move(shardAxes);
  Pending p;
  p.kind = s.pendingKind();
  for (const PendingAxis& a : s.pending)
    if (a.kind == p.kind) p.axes |= varying_.ofAxis(a.axis);
  p.declared = p.axes;
  setPending(v, p);
}

LocalTypes::Pending LocalTypes::pending(ValueId v) const {
  auto it = pending_.find(v);
  return it == pending_.end() ? Pending() : it->second;
}

void LocalTypes::setPending(ValueId v, const Pending& p) {
  if (p.axes)
    pending_[v] = p;
  else
    pending_.erase(v);
}

void LocalTypes::lose(OpId o, ValueId v, AxisSet axes) {
  axes &= pending(v).declared;
  if (!axes) return;
  for (const Lost& l : lost_)
    if (l.op == o && l.value == v) return; // loop bodies are visited more than once
  lost_.push_back({o, v, axes});
}

void LocalTypes::block(BlockId b) {
  for (OpId o : m_[b].ops) op(o);
}

void LocalTypes::op(OpId o) {
  const OpRecord& rec = m_.record(o);
  if (rec.regions != RegionKind::None) return regions(o);
  if (rec.isCollective()) return collective(o);
  if (!rec.isCall) plain(o);
}

AxisSet LocalTypes::axisSet(const std::vector<AxisRef>& axes) const {
  AxisSet set = 0;
  for (const AxisRef& a : axes) set |= varying_.ofAxis(a);
  return set;
}

// --- ops with an index rule ---

void LocalTypes::plain(OpId o) {
  std::vector<Pending> operands;
  bool any = false;
  for (ValueId v : m_.operands(o)) {
    operands.push_back(pending(v));
    any = any || operands.back().axes;
  }
  for (uint32_t r = 0; r < m_[o].numResults; ++r) setPending(m_.result(o, r), {});
  if (any) passPending(o, operands);
  Diagnostics quiet;
  Rule rule;
  OpQuery q = queryOf(m_, o, quiet);
  if (ruleOf(q, rule)) shardAxesOf(o, rule);
}

// Axis part by axis part: a varying value may be read as pending, a replicated one may not.
void LocalTypes::passPending(OpId o, std::span<const Pending> operands) {
  AxisSet all = 0;
  PendingKind kind = PendingKind::None;
  for (const Pending& p : operands) {
    all |= p.axes;
    if (p.axes) kind = p.kind;
  }
  Diagnostics quiet;
  OpQuery q = queryOf(m_, o, quiet);
  std::vector<Pending> results(m_[o].numResults);
  for (AxisSet part = 1; part && part <= all; part <<= 1) {
    if (!(part & all)) continue;
    std::vector<PendingKind> kinds;
    bool one = true;
    AxisSet declared = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool varies = varying_(m_.operand(o, i)) & part;
      kinds.push_back(varies ? kind : PendingKind::None);
      one = one && (!(operands[i].axes & part) || operands[i].kind == kind);
      declared |= operands[i].declared & part;
    }
    for (size_t r = 0; r < results.size(); ++r) {
      const auto got = one ? passThrough(q, kinds, r) : std::nullopt;
      const bool fits = got && *got != PendingKind::None &&
                        (results[r].kind == PendingKind::None || results[r].kind == *got);
      if (fits)
        results[r] = {results[r].axes | part, results[r].declared | declared, *got};
      else
        for (ValueId v : m_.operands(o)) lose(o, v, part);
    }
  }
  for (uint32_t r = 0; r < results.size(); ++r) setPending(m_.result(o, r), results[r]);
}

// How the results are sharded, if the rule maps plain dims; a contracted sharded dim leaves the result
// pending.
void LocalTypes::shardAxesOf(OpId o, const Rule& rule) {
  const size_t n = std::min<size_t>(m_[o].numOperands, rule.operands.size());
  std::vector<std::vector<AxisRef>> factors(rule.factors.size());
  std::vector<bool> seen(rule.factors.size(), false);
  for (size_t i = 0; i < n; ++i) {
    const ValueId v = m_.operand(o, i);
    if (m_[v].kind == ValueKind::Literal || m_[v].kind == ValueKind::Symbol) continue;
    auto known = shardAxes_.find(v);
    if (known == shardAxes_.end() && varying_(v)) return;
    for (size_t d = 0; d < rule.operands[i].dims.size(); ++d) {
      const std::vector<AxisRef> dimAxes =
          known == shardAxes_.end() ? std::vector<AxisRef>() : known->second[d];
      const int f = rule.factorOf(rule.operands[i], d);
      if (f < 0 && !dimAxes.empty()) return;
      if (f < 0) continue;
      const auto at = static_cast<size_t>(f);
      if (seen[at] && factors[at] != dimAxes) return;
      seen[at] = true;
      factors[at] = dimAxes;
    }
  }
  for (uint32_t r = 0; r < m_[o].numResults && r < rule.results.size(); ++r) {
    ShardAxes shardAxes;
    AxisSet used = 0;
    for (size_t d = 0; d < rule.results[r].dims.size(); ++d) {
      const int f = rule.factorOf(rule.results[r], d);
      shardAxes.push_back(f < 0 ? std::vector<AxisRef>() : factors[static_cast<size_t>(f)]);
      used |= axisSet(shardAxes.back());
    }
    shardAxes_[m_.result(o, r)] = std::move(shardAxes);
    Pending reduced; // summed over axes that no result dim is sharded along
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      const Factor& factor = rule.factors[f];
      const bool sums = factor.kind == FactorKind::Reduce ||
                        (factor.kind == FactorKind::Merge && factor.reduce != PendingKind::None);
      if (!sums || factors[f].empty() || (axisSet(factors[f]) & used) != 0) continue;
      reduced.axes |= axisSet(factors[f]);
      reduced.kind = factor.reduce;
    }
    Pending p = pending(m_.result(o, r));
    if (reduced.axes && (p.kind == PendingKind::None || p.kind == reduced.kind))
      setPending(m_.result(o, r), {p.axes | reduced.axes, p.declared, reduced.kind});
  }
}

// --- collectives ---

void LocalTypes::collective(OpId o) {
  Diagnostics quiet;
  OpQuery q = queryOf(m_, o, quiet);
  const auto op = parsePendingKind(q.textAttr("op")); // of reducing collectives
  const AxisSet used = varying_.ofAttr(o, false);
  for (uint32_t i = 0; i < m_[o].numOperands; ++i) {
    const ValueId v = m_.operand(o, i);
    Pending p = pending(v);
    const bool otherwise = op && *op != p.kind;
    lose(o, v, otherwise ? p.axes : op ? 0 : p.axes & used);
    p.axes &= otherwise ? 0 : ~used;
    p.declared &= p.axes;
    if (i < m_[o].numResults) setPending(m_.result(o, i), p);
  }
  axesOfCollective(o);
}

// Collectives with a `dim` gather it (replicated afterwards) or shard it; other single-operand collectives
// keep all shardings.
void LocalTypes::axesOfCollective(OpId o) {
  if (m_[o].numOperands != 1 || m_[o].numResults != 1) return;
  auto known = shardAxes_.find(m_.operand(o, 0));
  const std::vector<AxisRef> axes = Varying::axesOf(m_, o);
  if (known == shardAxes_.end() || axes.empty()) return;
  ShardAxes shardAxes = known->second;
  const AttrId dim = m_.attr(o, "dim");
  const bool uniform = m_.record(o).uniform;
  if (!dim.valid() && !uniform) return;
  if (dim.valid()) {
    const int64_t written = m_.attrs[dim].i;
    std::vector<AxisRef>& dimAxes = shardAxes[static_cast<size_t>(
        written < 0 ? written + static_cast<int64_t>(shardAxes.size()) : written)];
    const Mesh& mesh = m_.shardings.mesh(varying_.mesh());
    for (size_t i = axes.size(); uniform && i-- > 0;)
      if (!takeMinor(dimAxes, axes[i], mesh)) return;
    if (!uniform) {
      PartList parts;
      for (const AxisRef& a : dimAxes) parts.push_back({a, 0});
      for (const AxisRef& a : axes) parts.push_back({a, 0});
      canonicalizeParts(parts, mesh);
      dimAxes = DimSharding{std::move(parts)}.axes();
    }
  }
  shardAxes_[m_.result(o)] = std::move(shardAxes);
}

// --- regions ---

// The axes that all of these are pending on; a value that varies may also be read as pending.
LocalTypes::Pending LocalTypes::join(std::span<const ValueId> values) const {
  Pending joined;
  for (ValueId v : values)
    if (Pending p = pending(v); p.axes && joined.kind == PendingKind::None) joined = p;
  for (ValueId v : values) {
    const Pending p = pending(v);
    joined.axes &= p.kind == PendingKind::None || p.kind == joined.kind ? varying_(v) : 0;
  }
  joined.declared &= joined.axes;
  return joined.axes ? joined : Pending();
}

void LocalTypes::regions(OpId o) {
  const RegionKind kind = m_.record(o).regions;
  const bool loop = kind == RegionKind::While || kind == RegionKind::For;
  const size_t firstStart = kind == RegionKind::For ? 2 : kind == RegionKind::Cond ? 1 : 0;
  const size_t firstArg = kind == RegionKind::For ? 1 : 0;
  const BlockId last = m_.region(o, m_[o].numRegions - 1);
  const size_t numArgs = m_[last].args.size() - std::min(firstArg, m_[last].args.size());
  std::vector<Pending> carried(numArgs);
  for (size_t i = 0; i < numArgs; ++i) carried[i] = pending(m_.operand(o, firstStart + i));
  for (bool again = true; again;) {
    for (uint32_t r = 0; r < m_[o].numRegions; ++r)
      for (size_t i = 0; i < numArgs; ++i) {
        const ValueId arg = m_[m_.region(o, r)].args[firstArg + i];
        setPending(arg, carried[i]);
        if (auto known = shardAxes_.find(m_.operand(o, firstStart + i)); !loop && known != shardAxes_.end())
          shardAxes_[arg] = ShardAxes(known->second);
      }
    for (uint32_t r = 0; r < m_[o].numRegions; ++r) block(m_.region(o, r));
    again = false;
    for (size_t i = 0; loop && i < numArgs; ++i) {
      if (!carried[i].axes) continue;
      const ValueId both[] = {m_[last].args[firstArg + i], m_[last].yields[i]};
      const Pending now = join(both);
      again = again || now.axes != carried[i].axes;
      carried[i] = now;
    }
  }
  for (uint32_t i = 0; i < m_[o].numResults; ++i) {
    std::vector<ValueId> from;
    for (uint32_t r = kind == RegionKind::While ? 1 : 0; r < m_[o].numRegions; ++r)
      from.push_back(m_[m_.region(o, r)].yields[i]);
    if (loop && i < numArgs) from.push_back(m_[last].args[firstArg + i]);
    setPending(m_.result(o, i), join(from));
  }
}

// --- R or I: a backward analysis ---

// A value that is equal along an axis is R if some use of it produces a value that differs, or is R itself.
void LocalTypes::usedDifferently(BlockId root) {
  std::vector<OpId> ops;
  forEachOp(m_, root, [&](OpId o) { ops.push_back(o); });
  // one iteration suffices
  const bool straight = std::all_of(ops.begin(), ops.end(), [&](OpId o) { return m_[o].numRegions == 0; });
  for (bool again = true; again;) {
    again = false;
    for (size_t i = ops.size(); i-- > 0;) again = spread(ops[i]) || again;
    again = again && !straight;
  }
}

bool LocalTypes::spread(OpId o) {
  bool changed = false;
  auto add = [&](ValueId v, AxisSet set) {
    AxisSet& has = different_[v];
    changed = changed || (has | set) != has;
    has |= set;
  };
  auto of = [&](ValueId v) {
    auto it = different_.find(v);
    return varying_(v) | (it == different_.end() ? 0 : it->second);
  };
  const RegionKind kind = m_.record(o).regions;
  if (kind == RegionKind::None) {
    AxisSet set = m_.record(o).isCollective() ? varying_.ofAttr(o, false) : 0;
    for (uint32_t r = 0; r < m_[o].numResults; ++r) set |= of(m_.result(o, r));
    for (ValueId v : m_.operands(o)) add(v, set);
    return changed;
  }
  const size_t firstStart = kind == RegionKind::For ? 2 : kind == RegionKind::Cond ? 1 : 0;
  const size_t firstArg = kind == RegionKind::For ? 1 : 0;
  for (uint32_t k = 0; k < m_[o].numRegions; ++k) {
    const Block& b = m_[m_.region(o, k)];
    for (size_t i = firstArg; i < b.args.size(); ++i)
      add(m_.operand(o, firstStart + i - firstArg), of(b.args[i]));
    const bool condition = kind == RegionKind::While && k == 0;
    for (uint32_t i = 0; i < b.yields.size() && !condition; ++i) {
      add(b.yields[i], of(m_.result(o, i)));
      const bool carried =
          (kind == RegionKind::While || kind == RegionKind::For) && i + firstArg < b.args.size();
      if (carried) add(b.yields[i], of(b.args[i + firstArg]));
    }
  }
  return changed;
}

// --- reporting ---

std::string LocalTypes::text(ValueId v) const {
  const AxisSet varies = varying_(v);
  const Pending p = pending(v);
  auto it = different_.find(v);
  const AxisSet different = it == different_.end() ? 0 : it->second;
  std::string out;
  for (AxisSet part : varying_.allParts()) {
    out += (out.empty() ? "" : ", ") + varying_.text(part) + ": ";
    if (p.axes & part)
      out += "P(" + std::string(pendingName(p.kind)) + ")";
    else
      out += varies & part ? "V" : different & part ? "R" : "I";
  }
  return out;
}

SourceRange LocalTypes::origin(ValueId v, AxisSet axes, bool asPending) const {
  const auto has = [&](ValueId f) { return (asPending ? pending(f).axes : varying_(f)) & axes; };
  for (int steps = 0; steps < 10000; ++steps) {
    const OpId made = m_.definingOp(v);
    const Value& value = m_[v];
    if (value.kind != ValueKind::OpResult && value.kind != ValueKind::BlockArg) return value.loc;
    std::vector<ValueId> from;
    if (made.valid()) {
      const RegionKind kind = m_.record(made).regions;
      if (kind == RegionKind::None && (varying_.ofAttr(made, false) & axes)) return m_[made].loc;
      for (uint32_t k = 0; k < m_[made].numRegions; ++k)
        if (const std::vector<ValueId>& yields = m_[m_.region(made, k)].yields;
            value.position < yields.size())
          from.push_back(yields[value.position]);
      from.insert(from.end(), m_.operands(made).begin(), m_.operands(made).end());
    } else {
      const OpId around = m_[BlockId(value.owner)].parentOp;
      if (!around.valid() || m_.record(around).regions == RegionKind::Local) return value.loc;
      const RegionKind kind = m_.record(around).regions;
      // [lo, hi, starts] against [i, args]
      const size_t start = value.position + (kind == RegionKind::For ? 1 : 0);
      if (start < m_[around].numOperands) from.push_back(m_.operand(around, start));
      from.insert(from.end(), m_.operands(around).begin(), m_.operands(around).end());
    }
    auto next = std::find_if(from.begin(), from.end(), has);
    if (next == from.end()) // defined here, or varying because of an enclosing predicate
      return made.valid() ? m_[made].loc : value.loc;
    v = *next;
  }
  return m_[v].loc;
}

} // namespace dtc
