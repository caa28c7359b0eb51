#include "propagate/OpForms.h"
#include "dtc/Passes/analysis/OpWork.h"
#include "dtc/Sharding/Canonical.h"
#include "dtc/Sharding/ReshardBytes.h"
#include <algorithm>
#include <functional>
#include <tuple>

namespace dtc {

static constexpr int64_t kNominalSize = 128; // stands for a symbolic dim

int64_t globalBytes(const Module& m, ValueId v) {
  const Type& t = m.typeOf(v);
  int64_t bytes = dtypeBytes(t.dtype);
  for (Dim d : t.dims) {
    auto next = checkedMul(bytes, d.isStatic() ? d.value() : kNominalSize);
    if (!next) return INT64_MAX / 1024;
    bytes = *next;
  }
  return bytes;
}

void takeOpenDims(Sharding& held, const Sharding& given, const Mesh& mesh) {
  for (size_t d = 0; d < held.dims.size(); ++d) {
    if (!held.dims[d].open || !isPrefix(held.dims[d].parts, given.dims[d].parts, mesh)) continue;
    bool free = true; // parts that already shard another dim stay with that dim
    for (size_t e = 0; e < held.dims.size(); ++e)
      free = free && (e == d || disjoint(given.dims[d].parts, held.dims[e].parts, mesh));
    if (free) held.dims[d].parts = given.dims[d].parts;
  }
}

namespace {

constexpr size_t kMaxCombinations = 64;

struct Candidate {
  PartList parts;
  int64_t weight = 0; // bytes of the tensors that are already sharded so
  size_t order = 0;   // order of discovery, for ties
};

class FormChooser {
public:
  FormChooser(const PropagationState& s, const Relation& rel, const FormPricing& pricing)
      : s_(s), rel_(rel), pricing_(pricing) {
    for (VarId v : rel.tensors)
      if (v != kNoVar) mesh_ = &s.mesh(v);
  }

  // cheapest() without computing a price if there is only one combination.
  OpForm form() {
    collectCandidates();
    if (combinations_ > 1) return cheapest().form;
    std::vector<PartList> current(rel_.rule.factors.size()), only;
    auto take = [&](const std::vector<PartList>& factors) { only = factors; };
    enumerate(0, current, take);
    bool fits = true;
    OpForm form = formOf(only, &fits);
    return fits ? form : formOf(std::vector<PartList>(only.size()));
  }

  PricedForm cheapest() {
    if (pricing_.votes)
      if (auto form = voted()) return *form;
    Cost best{INT64_MAX, 0, 0};
    std::vector<PartList> factors(rel_.rule.factors.size());
    forEachCombination([&](const std::vector<PartList>& current) {
      const Cost cost = costOf(current);
      if (std::pair(cost.price, cost.tie) < std::pair(best.price, best.tie)) best = cost, factors = current;
    });
    return {formOf(factors), best.price, best.moved, 0};
  }

  std::optional<OpForm> asWritten() {
    std::optional<OpForm> found;
    forEachCombination([&](const std::vector<PartList>& current) {
      bool possible = !found;
      if (!possible) return;
      OpForm form = formOf(current, &possible);
      if (possible && isWritten(form) && hasProgram(current)) found = std::move(form);
    });
    return found;
  }

  std::vector<PricedForm> all() {
    std::vector<PricedForm> forms;
    std::vector<double> ties; // by order
    forEachCombination([&](const std::vector<PartList>& current) {
      const Cost cost = costOf(current);
      if (cost.price == INT64_MAX) return;
      forms.push_back({formOf(current), cost.price, cost.moved, forms.size()});
      ties.push_back(cost.tie);
    });
    std::ranges::sort(forms, [&](auto& a, auto& b) {
      return std::tuple(a.price, ties[a.order], a.order) < std::tuple(b.price, ties[b.order], b.order);
    });
    return forms;
  }

private:
  struct Cost {
    int64_t price = 0, moved = 0;
    double tie = 0; // seconds, to compare a ring with a form that moves as many bytes
  };

  // FormPricing::votes. Nothing for ops that are not contractions, for ops that gather or communicate
  // themselves (the price covers what they move), and if the winning form is not possible.
  std::optional<PricedForm> voted() {
    collectCandidates();
    if ((rel_.op.valid() && s_.m.record(rel_.op).shard) || !contracts() ||
        std::ranges::any_of(
            rel_.rule.factors,
            [](const Factor& f) { return f.communicates() || f.kind == FactorKind::Whole; }) ||
        std::ranges::any_of(projections_, [](const TensorProjection& p) { return !p.overflow.empty(); }))
      return std::nullopt;
    const std::vector<PartList> factors = elected();
    const Cost cost = costOf(factors);
    if (cost.price == INT64_MAX) return std::nullopt;
    return PricedForm{formOf(factors), cost.price, cost.moved, 0, true};
  }

  // True if operands are multiplied and summed along a factor. (A lookup is not a contraction: only its table
  // has the rows.)
  bool contracts() const {
    for (size_t f = 0; f < rel_.rule.factors.size(); ++f) {
      size_t having = 0;
      for (size_t t = 0; t < rel_.rule.operands.size(); ++t)
        having += rel_.tensors[t] != kNoVar && projections_[t].find(static_cast<uint16_t>(f)) != nullptr;
      if (having >= 2 && rel_.rule.factors[f].kind == FactorKind::Reduce) return true;
    }
    return false;
  }

  // True if no operand has to be resharded for the sum along this factor.
  bool agreed(size_t f, const PartList& parts) const {
    if (rel_.rule.factors[f].kind != FactorKind::Reduce) return false;
    for (size_t t = 0; t < rel_.rule.operands.size(); ++t)
      if (rel_.tensors[t] != kNoVar)
        if (const FactorEntry* e = projections_[t].find(static_cast<uint16_t>(f)); e && e->parts != parts)
          return false;
    return true;
  }

  std::vector<PartList> elected() const {
    const auto& rules = rel_.rule.factors;
    struct Vote {
      size_t factor;
      const Candidate* candidate;
    };
    std::vector<Vote> votes;
    for (size_t f = 0; f < candidates_.size(); ++f)
      for (const Candidate& c : candidates_[f])
        if (!c.parts.empty()) votes.push_back({f, &c});
    std::ranges::sort(votes, std::greater<>(), [&](const Vote& v) { // on ties, a factor that the result has
      return std::tuple(agreed(v.factor, v.candidate->parts), v.candidate->weight,
                        rules[v.factor].kind != FactorKind::Reduce, rules.size() - v.factor,
                        candidates_[v.factor].size() - v.candidate->order);
    });
    std::vector<PartList> factors(rules.size());
    for (const Vote& v : votes) {
      const bool free = factors[v.factor].empty() && std::ranges::all_of(factors, [&](const PartList& taken) {
                          return disjoint(taken, v.candidate->parts, *mesh_);
                        });
      if (free) factors[v.factor] = v.candidate->parts;
    }
    return factors;
  }

  template <class Fn> void forEachCombination(Fn&& fn) {
    collectCandidates();
    std::vector<PartList> current(rel_.rule.factors.size());
    enumerate(0, current, fn);
  }

  const TensorMap& map(size_t t) const {
    size_t n = rel_.rule.operands.size();
    return t < n ? rel_.rule.operands[t] : rel_.rule.results[t - n];
  }

  void collectCandidates() {
    if (!projections_.empty()) return; // already collected
    candidates_.resize(rel_.rule.factors.size());
    projections_.resize(rel_.tensors.size());
    for (size_t t = 0; t < rel_.tensors.size(); ++t) {
      if (rel_.tensors[t] == kNoVar) continue;
      projections_[t] = projectDims(map(t), rel_.rule, s_.vars[rel_.tensors[t]].dims, *mesh_);
      const int64_t bytes = globalBytes(s_.m, rel_.values[t]);
      for (const FactorEntry& e : projections_[t].entries) {
        if (rel_.rule.factors[e.factor].kind == FactorKind::Whole) continue;
        auto& list = candidates_[e.factor];
        const PartList parts = usable(e);
        auto it = std::ranges::find_if(list, [&](const Candidate& c) { return c.parts == parts; });
        if (it == list.end()) it = list.insert(list.end(), {parts, 0, list.size()});
        it->weight += bytes;
      }
    }
    restrictCandidates();
    for (size_t f = 0; f < candidates_.size(); ++f) {
      auto& list = candidates_[f];
      std::ranges::sort(list, [](auto& a, auto& b) {
        return a.weight != b.weight ? a.weight > b.weight : a.order < b.order;
      });
      // Unsharded is always possible: it is the fallback if two factors compete for an axis.
      if (!(isExchanged(f) && exchange_ == Exchange::Own) &&
          std::ranges::none_of(list, [](auto& c) { return c.parts.empty(); }))
        list.push_back({});
      if (!rel_.rule.factors[f].communicates() && list.size() == 2 && list[1].parts.empty() &&
          list[1].weight == 0 && onlyUser(list[0].parts, list))
        list.resize(1);
      while (list.size() > 1 && combinations_ * list.size() > kMaxCombinations) list.pop_back();
      combinations_ *= list.size();
    }
  }

  // How the op gets what other devices hold along a factor that it communicates along. An op may prescribe it
  // (OpRecord::derive, "exchange").
  enum class Exchange : uint8_t { Priced, Own, Gather, Swap };

  // True if the factor communicates, or is passed by one that does: keys, and the queries that they pass.
  [[nodiscard]] bool isExchanged(size_t f) const {
    const auto& factors = rel_.rule.factors;
    if (factors[f].communicates()) return true;
    if (factors[f].alongside >= 0) return factors[static_cast<size_t>(factors[f].alongside)].communicates();
    return std::ranges::any_of(
        factors, [&](const Factor& g) { return g.communicates() && g.alongside == static_cast<int>(f); });
  }

  // Adds the swaps, and removes the candidates that the op excludes.
  void restrictCandidates() {
    const auto prescribed = [&]() -> std::optional<double> {
      if (!rel_.op.valid() || !s_.m.record(rel_.op).derive) return std::nullopt;
      return s_.m.record(rel_.op).derive(queryOf(s_.m, rel_.op, quiet_), "exchange");
    }();
    exchange_ = static_cast<Exchange>(prescribed.value_or(0));
    const bool swapped = exchange_ != Exchange::Own && exchange_ != Exchange::Gather && addSwaps();
    if (exchange_ == Exchange::Swap && !swapped) exchange_ = Exchange::Priced; // impossible
    if (exchange_ == Exchange::Priced) return;
    for (size_t f = 0; f < candidates_.size(); ++f) {
      if (!isExchanged(f)) continue;
      const bool whole = exchange_ == Exchange::Swap ||
                         (exchange_ == Exchange::Gather && rel_.rule.factors[f].communicates());
      std::vector<Candidate> left = candidates_[f];
      std::erase_if(left, [&](const Candidate& c) { return c.parts.empty() != whole; });
      if (whole || !left.empty()) candidates_[f] = std::move(left);
    }
  }

  // If the op would gather a dim, or communicate along it, its axes may be swapped to another dim that the op
  // does not use, and back: an all_to_all moves a small part of what a gather moves (sharding.md, swap).
  // The dim that shards most bytes of the operands is tried; on ties, the largest; in addition to its own axes.
  bool addSwaps() {
    if (!rel_.op.valid()) return false;
    PartList parts;
    for (size_t t = 0; t < rel_.tensors.size() && parts.empty(); ++t) {
      if (rel_.tensors[t] == kNoVar) continue;
      for (const FactorEntry& e : projections_[t].entries) {
        const Factor& f = rel_.rule.factors[e.factor];
        if (f.communicates() || f.kind == FactorKind::Whole) parts = e.parts;
        if (!parts.empty()) break;
      }
      if (parts.empty() && !projections_[t].overflow.empty()) parts = projections_[t].overflow.front().second;
    }
    for (const DimPart& p : parts)
      if (!p.isAxis()) return false;
    if (parts.empty()) return false;
    const size_t numOperands = rel_.rule.operands.size();
    int best = -1;
    int64_t bestSize = 0, bestBytes = 0;
    for (size_t f = 0; f < rel_.rule.factors.size(); ++f) {
      const Dim size = rel_.rule.factors[f].size;
      if (rel_.rule.factors[f].kind != FactorKind::Pass || !size.isStatic() ||
          size.value() < partsProduct(swapped(f, parts), *mesh_)) // else shards would be empty
        continue;
      int64_t bytes = 0;
      bool inAllResults = true;
      for (size_t t = 0; t < rel_.tensors.size(); ++t) {
        if (rel_.tensors[t] == kNoVar) continue;
        const bool has = projections_[t].find(static_cast<uint16_t>(f)) != nullptr;
        if (t >= numOperands)
          inAllResults = inAllResults && has;
        else if (has)
          bytes += globalBytes(s_.m, rel_.values[t]);
      }
      if (!inAllResults || std::pair(bytes, size.value()) <= std::pair(bestBytes, bestSize)) continue;
      best = static_cast<int>(f), bestSize = size.value(), bestBytes = bytes;
    }
    if (best < 0) return false;
    auto& list = candidates_[static_cast<size_t>(best)];
    parts = swapped(static_cast<size_t>(best), parts);
    if (exchange_ == Exchange::Swap) list.clear();
    if (std::ranges::none_of(list, [&](auto& c) { return c.parts == parts; }))
      list.push_back({parts, 0, list.size()});
    return true;
  }

  // The axes of factor f in most bytes, and `parts`.
  [[nodiscard]] PartList swapped(size_t f, const PartList& parts) const {
    const Candidate* held = nullptr;
    for (const Candidate& c : candidates_[f])
      if (disjoint(c.parts, parts, *mesh_) && (!held || c.weight > held->weight)) held = &c;
    PartList all = held ? held->parts : PartList();
    all.insert(all.end(), parts.begin(), parts.end());
    return all;
  }

  // A blocked shard has no single offset to pass to the op, and no neighbors for a halo exchange.
  PartList usable(const FactorEntry& e) const {
    const Factor& f = rel_.rule.factors[e.factor];
    if (!f.needsOffset() && !f.communicates()) return e.parts;
    auto blocks = std::ranges::find_if(e.parts, [](const DimPart& p) { return !p.isAxis(); });
    return {e.parts.begin(), blocks};
  }

  // True if no other factor competes for an axis of `parts`: if all tensors agree on them, there is nothing
  // to choose.
  bool onlyUser(const PartList& parts, const std::vector<Candidate>& own) const {
    for (size_t t = 0; t < rel_.tensors.size(); ++t) {
      if (rel_.tensors[t] == kNoVar) continue;
      const TensorProjection& p = projections_[t];
      for (const auto& [dim, overflow] : p.overflow)
        if (!disjoint(parts, overflow, *mesh_)) return false;
      for (const FactorEntry& e : p.entries)
        if (&candidates_[e.factor] != &own && !disjoint(parts, e.parts, *mesh_)) return false;
    }
    return true;
  }

  // True if these axes may shard both factors: a ring rotates shards of one past those of the other, or rows
  // are exchanged (Factor::alongside).
  bool passes(size_t f, const PartList& ofF, size_t g, const PartList& ofG) const {
    const auto& factors = rel_.rule.factors;
    if (factors[g].alongside == static_cast<int>(f)) return passes(g, ofG, f, ofF);
    if (factors[f].alongside != static_cast<int>(g)) return false;
    // A summed factor must be fully reduced.
    if (factors[f].communicates() || factors[g].kind == FactorKind::Reduce) return ofF == ofG;
    return std::ranges::all_of(
        ofF, [&](const DimPart& p) { return p.isAxis() && std::ranges::find(ofG, p) != ofG.end(); });
  }

  template <class Fn> void enumerate(size_t factor, std::vector<PartList>& current, Fn&& fn) {
    if (factor == current.size()) return fn(current);
    current[factor].clear();
    bool tried = false;
    for (const Candidate& c : candidates_[factor]) {
      bool free = true;
      for (size_t f = 0; f < factor; ++f)
        free = free && (disjoint(c.parts, current[f], *mesh_) || passes(f, current[f], factor, c.parts));
      if (!free) continue;
      current[factor] = c.parts;
      tried = true;
      enumerate(factor + 1, current, fn);
    }
    if (!tried) current[factor].clear(), enumerate(factor + 1, current, fn);
    current[factor].clear();
  }

  Cost costOf(const std::vector<PartList>& factors) const {
    Cost cost;
    const bool rings =
        std::ranges::any_of(rel_.rule.factors, [](const Factor& f) { return f.alongside >= 0; });
    const bool timed = pricing_.machine || rings; // otherwise only bytes are compared
    double seconds = 0;
    std::vector<std::vector<DimSharding>> local(timed ? rel_.tensors.size() : 0); // empty: unsharded
    const std::vector<PendingAxis> reduced = reducedAxes(factors);
    for (size_t t = 0; t < rel_.tensors.size(); ++t) {
      if (rel_.tensors[t] == kNoVar) continue;
      auto dims = unprojectDims(map(t), rel_.rule, factors, *mesh_);
      if (!dims) return {INT64_MAX, 0, 0};
      const ShardingVar& var = s_.vars[rel_.tensors[t]];
      Sharding held{var.mesh, var.dims, {}, {}}, wanted{var.mesh, std::move(*dims), {}, {}};
      bool result = t >= rel_.rule.operands.size();
      if (result && !pricing_.freeReductions) wanted.pending = withoutAxesOf(wanted.dims, reduced);
      if (result && pricing_.freeResults) takeOpenDims(held, wanted, *mesh_);
      if (pricing_.freeVars && (*pricing_.freeVars)[rel_.tensors[t]]) held.dims = wanted.dims;
      const int64_t bytes = globalBytes(s_.m, rel_.values[t]);
      const int64_t moved = result ? estimateReshardBytes(wanted, held, *mesh_, bytes)
                            : splatOf(s_.m, rel_.values[t])
                                ? 0
                                : estimateReshardBytes(held, wanted, *mesh_, bytes);
      cost.moved += moved;
      if (moved > 0) seconds += messageSeconds(moved);
      if (timed) local[t] = std::move(wanted.dims);
    }
    const int ring = ringOf(factors);
    double work = rel_.op.valid() && timed ? workSeconds(factors, local) : 0;
    if (rel_.op.valid() && communicates(rel_.rule, factors)) {
      const ShardedOpPrice own = s_.shardedPrograms.price(rel_.op, rel_.rule, factors, meshId());
      if (!own.possible) return {INT64_MAX, 0, 0};
      // A ring receives as many bytes as a gather, except for the padding of uneven shards; the next block is
      // received while this one is processed.
      cost.moved += ring >= 0 ? std::min(own.bytes, gatheredBytes(factors, ring)) : own.bytes;
      work = own.withWork > 0 ? own.withWork : ring >= 0 ? std::max(own.seconds, work) : own.seconds + work;
    }
    cost.price = cost.moved;
    if (rings) cost.tie = seconds + work;
    if (pricing_.machine) cost.price = static_cast<int64_t>(std::min((seconds + work) * 1e12, 1e18));
    return cost;
  }

  [[nodiscard]] const NominalMachine& machine() const {
    static const NominalMachine nominal;
    return pricing_.machine ? *pricing_.machine : nominal;
  }

  // The factor whose shards rotate past those of another factor sharded over the same axes, or -1.
  int ringOf(const std::vector<PartList>& factors) const {
    for (size_t f = 0; f < factors.size(); ++f)
      if (const int g = rel_.rule.factors[f].alongside; g >= 0 && rel_.rule.factors[f].communicates() &&
                                                        !factors[f].empty() &&
                                                        factors[f] == factors[static_cast<size_t>(g)])
        return static_cast<int>(f);
    return -1;
  }

  // The full extent of the operands along `factor`, on each device.
  int64_t gatheredBytes(const std::vector<PartList>& factors, int factor) const {
    std::vector<PartList> gathered = factors;
    gathered[static_cast<size_t>(factor)].clear();
    int64_t bytes = 0;
    for (size_t t = 0; t < rel_.rule.operands.size(); ++t) {
      if (rel_.tensors[t] == kNoVar) continue;
      const auto from = unprojectDims(map(t), rel_.rule, factors, *mesh_),
                 to = unprojectDims(map(t), rel_.rule, gathered, *mesh_);
      if (from && to)
        bytes += estimateReshardBytes({meshId(), *from, {}, {}}, {meshId(), *to, {}, {}}, *mesh_,
                                      globalBytes(s_.m, rel_.values[t]));
    }
    return bytes;
  }

  MeshId meshId() const {
    for (VarId v : rel_.tensors)
      if (v != kNoVar) return s_.vars[v].mesh;
    return {};
  }

  double messageSeconds(int64_t bytes) const {
    return machine().launchSeconds + machine().link.latencySeconds +
           static_cast<double>(bytes) / machine().link.bytesPerSecond;
  }

  // The work and memory traffic of one device.
  double workSeconds(const std::vector<PartList>& factors,
                     const std::vector<std::vector<DimSharding>>& local) const {
    const int ring = ringOf(factors);
    auto nominal = [](Dim d) { return static_cast<double>(d.isStatic() ? d.value() : kNominalSize); };
    const OpSizes sizes{[&](size_t f) {
                          double n = nominal(rel_.rule.factors[f].size);
                          if (static_cast<int>(f) != ring) // each device processes all of it
                            n /= static_cast<double>(partsProduct(factors[f], *mesh_));
                          return std::optional(n);
                        },
                        [&](size_t t, size_t d) {
                          double n = nominal(s_.m.typeOf(rel_.values[t]).dims[d]);
                          if (!local[t].empty())
                            n /= static_cast<double>(partsProduct(local[t][d].parts, *mesh_));
                          return std::optional(n);
                        }};
    return workModel().at(sizes)->seconds(machine());
  }

  const OpWorkModel& workModel() const {
    if (model_) return *model_;
    std::vector<TypeId> results;
    for (uint32_t r = 0; r < s_.m[rel_.op].numResults; ++r)
      results.push_back(s_.m[s_.m.result(rel_.op, r)].type);
    return model_.emplace(queryOf(s_.m, rel_.op, quiet_), rel_.rule, results);
  }

  std::vector<PendingAxis> reducedAxes(const std::vector<PartList>& factors) const {
    std::vector<PendingAxis> out;
    for (size_t f = 0; f < factors.size(); ++f)
      for (const DimPart& p : leftPending(rel_.rule, factors, f))
        out.push_back({p.axis, rel_.rule.factors[f].reduce});
    return out;
  }

  // The axes that do not shard these dims, in canonical form: sub-axes may shard a factor in any order.
  std::vector<PendingAxis> withoutAxesOf(const std::vector<DimSharding>& dims,
                                         const std::vector<PendingAxis>& axes) const {
    std::vector<PendingAxis> out;
    for (const PendingAxis& a : axes)
      if (std::ranges::all_of(
              dims, [&](const DimSharding& d) { return disjoint(d.parts, PartList{{a.axis, 0}}, *mesh_); }))
        out.push_back(a);
    canonicalizePending(out, *mesh_);
    return out;
  }

  // True if an op that communicates along its sharded factors can do so for these.
  bool hasProgram(const std::vector<PartList>& factors) const {
    return !rel_.op.valid() || !communicates(rel_.rule, factors) ||
           s_.shardedPrograms.price(rel_.op, rel_.rule, factors, meshId()).possible;
  }

  // True if every tensor is sharded as its variable says, and every pending result is pending in its
  // variable.
  bool isWritten(const OpForm& form) const {
    const size_t n = form.operands.size();
    for (size_t t = 0; t < rel_.tensors.size(); ++t) {
      if (rel_.tensors[t] == kNoVar) continue;
      const ShardingVar& var = s_.vars[rel_.tensors[t]];
      const std::vector<DimSharding>& dims = t < n ? form.operands[t] : form.results[t - n];
      for (size_t d = 0; d < dims.size(); ++d)
        if (dims[d].parts != var.dims[d].parts) return false;
      if (t < n) continue;
      for (const PendingAxis& a : form.reducedOn[t - n])
        if (std::ranges::find(var.pending, a) == var.pending.end()) return false;
    }
    return true;
  }

  // Clears `fits` if a tensor cannot be sharded so.
  OpForm formOf(std::vector<PartList> factors, bool* fits = nullptr) const {
    OpForm form;
    const std::vector<PendingAxis> reduced = reducedAxes(factors);
    form.reduced = reduced;
    canonicalizePending(form.reduced, *mesh_);
    size_t n = rel_.rule.operands.size();
    for (size_t t = 0; t < rel_.tensors.size(); ++t) {
      std::vector<DimSharding> dims(map(t).dims.size());
      if (rel_.tensors[t] != kNoVar) {
        if (auto got = unprojectDims(map(t), rel_.rule, factors, *mesh_))
          dims = std::move(*got);
        else if (fits)
          *fits = false;
      }
      if (t >= n) form.reducedOn.push_back(withoutAxesOf(dims, reduced));
      (t < n ? form.operands : form.results).push_back(std::move(dims));
    }
    form.joins.assign(n, false);
    for (const Join& j : rel_.rule.joins)
      if (!leftPending(rel_.rule, factors, j.factor).empty()) form.joins[j.operand] = true;
    form.takesPending.assign(n, false);
    form.factors = std::move(factors);
    return form;
  }

  const PropagationState& s_;
  const Relation& rel_;
  const FormPricing& pricing_;
  const Mesh* mesh_ = nullptr;
  std::vector<std::vector<Candidate>> candidates_; // by factor
  std::vector<TensorProjection> projections_;      // by tensor
  size_t combinations_ = 1;
  Exchange exchange_ = Exchange::Priced;
  mutable std::optional<OpWorkModel> model_;
  mutable Diagnostics quiet_;
};

} // namespace

OpForm chooseForm(const PropagationState& s, const Relation& rel, const FormPricing& pricing) {
  return FormChooser(s, rel, pricing).form();
}

PricedForm cheapestForm(const PropagationState& s, const Relation& rel, const FormPricing& pricing) {
  return FormChooser(s, rel, pricing).cheapest();
}

std::optional<OpForm> formAsWritten(const PropagationState& s, const Relation& rel) {
  return FormChooser(s, rel, {}).asWritten();
}

std::vector<PricedForm> pricedForms(const PropagationState& s, const Relation& rel,
                                    const FormPricing& pricing) {
  return FormChooser(s, rel, pricing).all();
}

bool onOneMesh(const PropagationState& s, const Relation& rel) {
  if (rel.inner) return false;
  VarId first = kNoVar;
  for (VarId v : rel.tensors) {
    if (v == kNoVar) continue;
    if (first == kNoVar) first = v;
    if (s.vars[v].mesh != s.vars[first].mesh) return false;
  }
  return first != kNoVar;
}

} // namespace dtc
