#include "rules/RuleClaims.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/Sharding/Projection.h"
#include <algorithm>

namespace dtc {

namespace {

class Claims {
public:
  Claims(OpSample& s, const TrialMesh& mesh, std::span<const Placement> arguments, const ClaimSource& source)
      : m_(s.module), mesh_(mesh), q_(queryOf(s.module, s.op, quiet_)), nonFinite_(source.nonFinite) {
    if (source.record) q_.record = source.record;
    known_ = source.rule ? (rule_ = *source.rule, true) : ruleOf(q_, rule_);
    size_t argument = 0;
    for (ValueId v : q_.operands)
      operands_.push_back(m_[v].kind == ValueKind::Literal ? Placement{} : arguments[argument++]);
  }

  std::vector<ResultClaim> results() {
    if (!known_) return {};
    lists_.assign(rule_.factors.size(), {});
    bool pending = false;
    for (size_t i = 0; i < operands_.size(); ++i) {
      pending |= operands_[i].kind == Placement::P;
      if (operands_[i].kind == Placement::S && !isSharded(i)) return {};
    }
    int factor = shardedFactor();
    if (factor == -1) return pending ? passed() : replicated();
    return agreed(factor) ? ofFactor(factor) : std::vector<ResultClaim>();
  }

  // Dims that no operand has (iota's, broadcast's new ones) may be computed in shards, where the operands are
  // replicated.
  std::vector<ResultClaim> made() {
    std::vector<ResultClaim> out;
    bool replicated =
        std::ranges::all_of(operands_, [](const Placement& p) { return p.kind == Placement::R; });
    if (!replicated || !known_ || rule_.results.size() != 1) return out;
    for (size_t f = 0; f < rule_.factors.size(); ++f) {
      const int factor = static_cast<int>(f);
      if (std::ranges::any_of(rule_.operands, [&](const TensorMap& t) { return has(t, factor); })) continue;
      lists_.assign(rule_.factors.size(), {});
      lists_[f] = {{{mesh_.mesh.axes[0].name}, 0}};
      for (const ResultClaim& c : ofFactor(factor))
        if (c.front() && c.front()->kind == Placement::S) out.push_back(c);
    }
    return out;
  }

private:
  std::vector<DimSharding> dimsOf(size_t operand) const {
    auto s = fromPlacements(std::span(&operands_[operand], 1), mesh_.id, mesh_.mesh,
                            rule_.operands[operand].dims.size());
    return s ? s->dims : std::vector<DimSharding>(rule_.operands[operand].dims.size());
  }
  bool isSharded(size_t operand) {
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
  // The sharded factor; -1 for none, -2 where there are several.
  int shardedFactor() const {
    int found = -1;
    for (size_t f = 0; f < lists_.size(); ++f)
      if (!lists_[f].empty()) found = found == -1 ? static_cast<int>(f) : -2;
    return found;
  }
  static bool has(const TensorMap& map, int factor) {
    return std::ranges::any_of(map.dims, [&](const DimMap& d) {
      return std::ranges::any_of(d.sharded(), [&](const Term& t) { return t.factor == factor; });
    });
  }
  // All operands with the factor are sharded along it, the others replicated; except for joins.
  bool agreed(int factor) const {
    if (factor < 0) return false;
    const Factor& f = rule_.factors[static_cast<size_t>(factor)];
    for (size_t i = 0; i < operands_.size(); ++i) {
      bool joins = std::ranges::any_of(rule_.joins,
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
  // All results together; where not all are claimed, each by itself.
  static std::vector<ResultClaim> together(ResultClaim all) {
    if (std::ranges::all_of(all, [](const auto& p) { return p.has_value(); })) return {std::move(all)};
    std::vector<ResultClaim> out;
    for (size_t r = 0; r < all.size(); ++r)
      if (all[r]) {
        out.emplace_back(all.size());
        out.back()[r] = all[r];
      }
    return out;
  }

  std::vector<ResultClaim> ofFactor(int factor) const {
    const Factor& f = rule_.factors[static_cast<size_t>(factor)];
    if (f.kind != FactorKind::Pass && f.kind != FactorKind::Place && f.kind != FactorKind::Reduce) return {};
    ResultClaim all;
    for (const TensorMap& map : rule_.results) {
      if (f.kind == FactorKind::Reduce && !has(map, factor)) {
        all.push_back(Placement{Placement::P, 0, 1, f.reduce});
        continue;
      }
      auto dims = unprojectDims(map, rule_, lists_, mesh_.mesh);
      if (!dims) return {};
      auto placements = toPlacements({mesh_.id, *dims, {}, {}}, mesh_.mesh);
      if (!placements || placements->size() != 1) return {};
      all.push_back(placements->front());
    }
    return together(std::move(all));
  }
  std::vector<ResultClaim> passed() const {
    std::vector<PendingKind> kinds;
    for (const Placement& p : operands_)
      kinds.push_back(p.kind == Placement::P ? p.pending : PendingKind::None);
    ResultClaim all;
    for (size_t r = 0; r < rule_.results.size(); ++r) {
      auto kind = passThrough(q_, kinds, r, nonFinite_);
      all.push_back(kind ? std::optional(Placement{Placement::P, 0, 1, *kind}) : std::nullopt);
    }
    return together(std::move(all));
  }
  std::vector<ResultClaim> replicated() const {
    const size_t n = rule_.results.size();
    std::vector<ResultClaim> out = together(ResultClaim(n, Placement{}));
    for (PendingKind k :
         {PendingKind::Avg, PendingKind::Max, PendingKind::Min, PendingKind::Any, PendingKind::All})
      for (ResultClaim& c : together(ResultClaim(n, Placement{Placement::P, 0, 1, k}))) out.push_back(c);
    return out;
  }

  Module& m_;
  const TrialMesh& mesh_;
  Diagnostics quiet_;
  OpQuery q_;
  NonFinite nonFinite_;
  Rule rule_;
  bool known_ = false;
  std::vector<Placement> operands_;
  std::vector<PartList> lists_;
};

} // namespace

std::vector<ResultClaim> claimedResults(OpSample& s, const TrialMesh& mesh,
                                        std::span<const Placement> operands, const ClaimSource& source) {
  std::vector<ResultClaim> out = Claims(s, mesh, operands, source).made();
  for (ResultClaim& c : Claims(s, mesh, operands, source).results()) {
    const bool exists = [&] { // a kind supported by the dtypes
      for (size_t r = 0; r < c.size(); ++r)
        if (c[r] && c[r]->kind == Placement::P &&
            !hasPendingKind(s.module.typeOf(s.module.result(s.op, static_cast<uint32_t>(r))).dtype,
                            c[r]->pending))
          return false;
      return true;
    }();
    if (exists) out.push_back(std::move(c));
  }
  return out;
}

std::string claimText(const OpSample& s, std::span<const Placement> operands, const ResultClaim& results) {
  std::string text = s.text + " | ";
  for (size_t i = 0; i < operands.size(); ++i) text += (i ? ", " : "") + placementText(operands[i]);
  text += operands.empty() ? "-> " : " -> ";
  if (std::ranges::all_of(results, [&](const auto& p) { return p && p == results.front(); }))
    return text + placementText(*results.front());
  for (size_t r = 0; r < results.size(); ++r)
    text += (r ? ", " : "") + (results[r] ? placementText(*results[r]) : std::string("_"));
  return text;
}

} // namespace dtc
