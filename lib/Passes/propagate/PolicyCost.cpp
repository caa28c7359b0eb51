// The policy `cost`: local search around conflicts, by total price.
#include "propagate/Policies.h"
#include <algorithm>

namespace dtc {

namespace {

constexpr size_t kMaxForms = 8;      // of the op in conflict
constexpr size_t kMaxRelations = 24; // whose prices one alternative may change

class PriceImprover {
public:
  PriceImprover(PropagationState& s, const NominalMachine& machine) : s_(s) {
    pricing_.machine = &machine;
    relationsOf_.resize(s.vars.size());
    free_.resize(s.vars.size());
    for (uint32_t r = 0; r < s.relations.size(); ++r)
      for (VarId v : s.relations[r].tensors)
        if (v != kNoVar && (relationsOf_[v].empty() || relationsOf_[v].back() != r))
          relationsOf_[v].push_back(r);
    for (VarId v = 0; v < s.vars.size(); ++v) free_[v] = !s.vars[v].written;
  }

  void run() {
    for (uint32_t r = 0; r < s_.relations.size(); ++r) {
      if (!onOneMesh(s_, s_.relations[r])) continue;
      if (cheapestForm(s_, s_.relations[r], pricing_).moved > 0) improve(r);
    }
  }

private:
  struct Change {
    VarId var;
    std::vector<DimSharding> before, after;
  };
  using Changes = std::vector<Change>;

  // The variables of relation r that are free to follow a form of it and do not have its sharding yet.
  void follow(uint32_t r, const OpForm& form, Changes& changes) const {
    const Relation& rel = s_.relations[r];
    for (size_t t = 0; t < rel.tensors.size(); ++t) {
      const VarId v = rel.tensors[t];
      if (v == kNoVar || !free_[v]) continue;
      if (std::ranges::any_of(changes, [&](const Change& c) { return c.var == v; })) continue;
      const size_t n = rel.rule.operands.size();
      const std::vector<DimSharding>& wanted = t < n ? form.operands[t] : form.results[t - n];
      std::vector<DimSharding> dims = s_.vars[v].dims;
      for (size_t d = 0; d < dims.size(); ++d) dims[d].parts = wanted[d].parts;
      if (dims != s_.vars[v].dims) changes.push_back({v, s_.vars[v].dims, std::move(dims)});
    }
  }

  void apply(const Changes& changes) {
    for (const Change& c : changes) s_.vars[c.var].dims = c.after;
  }
  void takeBack(const Changes& changes) {
    for (const Change& c : changes) s_.vars[c.var].dims = c.before;
  }

  // Relations that read or produce one of the variables; nothing if there are too many to consider.
  std::vector<uint32_t> touched(const Changes& changes) const {
    std::vector<uint32_t> out;
    for (const Change& c : changes) {
      if (relationsOf_[c.var].size() > kMaxRelations) return {};
      out.insert(out.end(), relationsOf_[c.var].begin(), relationsOf_[c.var].end());
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    if (out.size() > kMaxRelations) out.clear();
    return out;
  }

  int64_t priceOf(const std::vector<uint32_t>& relations) const {
    int64_t price = 0;
    for (uint32_t r : relations)
      if (onOneMesh(s_, s_.relations[r])) price += cheapestForm(s_, s_.relations[r], pricing_).price;
    return price;
  }

  // The savings of the changes, summed over all prices that they affect.
  int64_t gain(const Changes& changes, int64_t& before) {
    const std::vector<uint32_t> relations = touched(changes);
    if (relations.empty()) return 0;
    before = priceOf(relations);
    apply(changes);
    const int64_t after = priceOf(relations);
    takeBack(changes);
    return before - after;
  }

  // The neighbors of the changed variables, each in its cheapest form, if its free tensors may follow.
  Changes withNeighbors(uint32_t r, Changes changes) {
    std::vector<uint32_t> neighbors = touched(changes);
    std::vector<bool> follows = free_;
    for (const Change& c : changes) follows[c.var] = false;
    FormPricing pricing = pricing_;
    pricing.freeVars = &follows;
    apply(changes);
    Changes all = changes;
    for (uint32_t q : neighbors)
      if (q != r && onOneMesh(s_, s_.relations[q]))
        follow(q, cheapestForm(s_, s_.relations[q], pricing).form, all);
    takeBack(changes);
    return all;
  }

  void improve(uint32_t r) {
    FormPricing pricing = pricing_;
    pricing.freeVars = &free_;
    std::vector<PricedForm> forms = pricedForms(s_, s_.relations[r], pricing);
    if (forms.size() > kMaxForms) forms.resize(kMaxForms);
    Changes best;
    int64_t bestGain = 0, bestBefore = 0;
    for (const PricedForm& f : forms) {
      Changes near;
      follow(r, f.form, near);
      if (near.empty()) continue;
      Changes far = withNeighbors(r, near);
      for (Changes* changes : {&near, &far}) {
        int64_t before = 0;
        const int64_t saved = gain(*changes, before);
        if (saved <= bestGain) continue;
        bestGain = saved, bestBefore = before;
        best = *changes;
      }
    }
    if (best.empty()) return;
    apply(best);
    record(r, best, bestBefore, bestBefore - bestGain);
  }

  void record(uint32_t r, const Changes& changes, int64_t before, int64_t after) {
    for (const Change& c : changes)
      for (uint16_t d = 0; d < c.after.size(); ++d) {
        if (c.after[d].parts == c.before[d].parts) continue;
        ShardingReason reason;
        reason.kind = ShardingReason::ByPrice;
        reason.value = s_.vars[c.var].value;
        reason.dim = d;
        reason.parts = c.after[d].parts;
        reason.via = s_.relations[r].op;
        reason.secondsBefore = static_cast<double>(before) * 1e-12;
        reason.secondsAfter = static_cast<double>(after) * 1e-12;
        s_.report.shardings.push_back(std::move(reason));
      }
  }

  PropagationState& s_;
  FormPricing pricing_;
  std::vector<std::vector<uint32_t>> relationsOf_; // by variable
  std::vector<bool> free_;                         // by variable: not annotated
};

} // namespace

void improveByPrice(PropagationState& s, const NominalMachine& machine) { PriceImprover(s, machine).run(); }

} // namespace dtc
