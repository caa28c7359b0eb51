#include "RuleClaims.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>

namespace dtc {

namespace {

class Claims {
public:
  Claims(OpSample& s, const TrialMesh& mesh, std::span<const Placement> arguments)
      : m_(s.module), mesh_(mesh), q_(queryOf(s.module, s.op, quiet_)) {
    size_t argument = 0;
    for (ValueId v : q_.operands)
      operands_.push_back(m_[v].kind == ValueKind::Literal ? Placement{} : arguments[argument++]);
  }

  std::optional<Placement> result() {
    if (!ruleOf(q_, rule_)) return std::nullopt;
    lists_.assign(rule_.factors.size(), {});
    bool pending = false;
    for (size_t i = 0; i < operands_.size(); ++i) {
      pending |= operands_[i].kind == Placement::P;
      if (operands_[i].kind == Placement::S && !cut(i)) return std::nullopt;
    }
    int factor = cutFactor();
    if (factor == -1) return pending ? passed() : Placement{};
    return agreed(factor) ? ofFactor(factor) : std::nullopt;
  }

  // Dims that no operand has (iota's, broadcast's new ones) may be made in pieces, where the operands are replicated.
  std::vector<Placement> made() {
    std::vector<Placement> out;
    bool replicated = std::all_of(operands_.begin(), operands_.end(),
                                  [](const Placement& p) { return p.kind == Placement::R; });
    if (!replicated || !ruleOf(q_, rule_) || rule_.results.size() != 1) return out;
    for (size_t f = 0; f < rule_.factors.size(); ++f) {
      const int factor = static_cast<int>(f);
      if (std::any_of(rule_.operands.begin(), rule_.operands.end(),
                      [&](const TensorMap& t) { return has(t, factor); }))
        continue;
      lists_.assign(rule_.factors.size(), {});
      lists_[f] = {{{mesh_.mesh.axes[0].name}, 0}};
      if (auto p = ofFactor(factor); p && p->kind == Placement::S) out.push_back(*p);
    }
    return out;
  }

private:
  std::vector<DimSharding> dimsOf(size_t operand) const {
    auto s = fromPlacements(std::span(&operands_[operand], 1), mesh_.id, mesh_.mesh,
                            rule_.operands[operand].dims.size());
    return s ? s->dims : std::vector<DimSharding>(rule_.operands[operand].dims.size());
  }
  bool cut(size_t operand) {
    TensorProjection p = projectDims(rule_.operands[operand], rule_, dimsOf(operand), mesh_.mesh);
    if (!p.overflow.empty()) return false;
    bool any = false;
    for (const FactorEntry& e : p.entries) {
      if (e.parts.empty()) continue;
      PartList& list = lists_[e.factor];
      if (!list.empty() && list != e.parts) return false;
      list = e.parts;
      any = true;
    }
    return any;
  }
  // The one factor that is cut; -1 for none, -2 where there are several.
  int cutFactor() const {
    int found = -1;
    for (size_t f = 0; f < lists_.size(); ++f)
      if (!lists_[f].empty()) found = found == -1 ? static_cast<int>(f) : -2;
    return found;
  }
  static bool has(const TensorMap& map, int factor) {
    return std::any_of(map.dims.begin(), map.dims.end(), [&](const DimMap& d) {
      return std::ranges::any_of(d.sharded(), [&](const Term& t) { return t.factor == factor; });
    });
  }
  // All operands that have the factor are cut along it, the others replicated; but for joins.
  bool agreed(int factor) const {
    if (factor < 0) return false;
    const Factor& f = rule_.factors[static_cast<size_t>(factor)];
    for (size_t i = 0; i < operands_.size(); ++i) {
      bool joins = std::any_of(rule_.joins.begin(), rule_.joins.end(),
                               [&](const Join& j) { return j.operand == i && j.factor == factor; });
      const Placement& p = operands_[i];
      if (has(rule_.operands[i], factor)) {
        if (p.kind != Placement::S) return false;
      } else if (joins) {
        bool same = p.kind == Placement::P && p.pending == f.reduce;
        bool free = p.kind == Placement::R && f.reduce != PendingKind::Sum && f.reduce != PendingKind::Prod;
        if (!same && !free) return false;
      } else if (p.kind != Placement::R) {
        return false;
      }
    }
    return true;
  }
  std::optional<Placement> ofFactor(int factor) const {
    const Factor& f = rule_.factors[static_cast<size_t>(factor)];
    if (f.kind == FactorKind::Reduce &&
        std::ranges::any_of(rule_.results, [&](const TensorMap& r) { return has(r, factor); }))
      return std::nullopt; // some results are pending, some cut
    if (f.kind == FactorKind::Reduce) return Placement{Placement::P, 0, 1, f.reduce};
    if (f.kind != FactorKind::Pass && f.kind != FactorKind::Place) return std::nullopt;
    std::optional<Placement> all;
    for (const TensorMap& map : rule_.results) {
      auto dims = unprojectDims(map, rule_, lists_, mesh_.mesh);
      if (!dims) return std::nullopt;
      auto placements = toPlacements({mesh_.id, *dims, {}, {}}, mesh_.mesh);
      if (!placements || placements->size() != 1 || (all && *all != placements->front())) return std::nullopt;
      all = placements->front();
    }
    return all;
  }
  std::optional<Placement> passed() const {
    std::vector<PendingKind> kinds;
    for (const Placement& p : operands_)
      kinds.push_back(p.kind == Placement::P ? p.pending : PendingKind::None);
    std::optional<PendingKind> all;
    for (size_t r = 0; r < rule_.results.size(); ++r) {
      auto kind = passThrough(q_, kinds, r);
      if (!kind || (all && *all != *kind)) return std::nullopt;
      all = kind;
    }
    return all ? std::optional(Placement{Placement::P, 0, 1, *all}) : std::nullopt;
  }

  Module& m_;
  const TrialMesh& mesh_;
  Diagnostics quiet_;
  OpQuery q_;
  Rule rule_;
  std::vector<Placement> operands_;
  std::vector<PartList> lists_;
};

} // namespace

std::vector<Placement> claimedResults(OpSample& s, const TrialMesh& mesh,
                                      std::span<const Placement> operands) {
  std::vector<Placement> out = Claims(s, mesh, operands).made();
  auto one = Claims(s, mesh, operands).result();
  if (!one) return out;
  out.push_back(*one);
  if (one->kind != Placement::R) return out;
  for (PendingKind k :
       {PendingKind::Avg, PendingKind::Max, PendingKind::Min, PendingKind::Any, PendingKind::All})
    if (hasPendingKind(s.module.typeOf(s.module.result(s.op)).dtype, k))
      out.push_back({Placement::P, 0, 1, k});
  return out;
}

std::string claimText(const OpSample& s, std::span<const Placement> operands, const Placement& result) {
  std::string text = s.text + " | ";
  for (size_t i = 0; i < operands.size(); ++i) text += (i ? ", " : "") + placementText(operands[i]);
  return text + (operands.empty() ? "-> " : " -> ") + placementText(result);
}

} // namespace dtc
