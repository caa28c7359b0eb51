// Mutates every index rule and every homomorphism row: would the prover report the change?
#include "rules/RuleTable.h"
#include <algorithm>
#include <functional>
#include <map>

namespace dtc {

namespace {

constexpr ThroughRow kRows[] = {ThroughRow::Linear,     ThroughRow::Bilinear,       ThroughRow::Affine,
                                ThroughRow::Monotone,   ThroughRow::LatticeMax,     ThroughRow::LatticeMin,
                                ThroughRow::LatticeAny, ThroughRow::LatticeAll,     ThroughRow::Moving,
                                ThroughRow::Choosing,   ThroughRow::Multiplicative, ThroughRow::BoolToNumber,
                                ThroughRow::IsNan,      ThroughRow::Compare};
constexpr PendingKind kPendingKinds[] = {PendingKind::Sum, PendingKind::Avg, PendingKind::Prod,
                                         PendingKind::Max, PendingKind::Min, PendingKind::Any,
                                         PendingKind::All};

std::string rowName(ThroughRow row) {
  static constexpr const char* names[] = {
      "linear",      "bilinear",       "affine", "monotone", "lattice max",    "lattice min", "lattice any",
      "lattice all", "multiplicative", "moving", "choosing", "bool to number", "is nan",      "compare"};
  return names[static_cast<size_t>(row)];
}

std::string binary(uint32_t set) {
  std::string out;
  for (uint32_t left = set; left; left >>= 1) out.insert(out.begin(), left & 1 ? '1' : '0');
  return "0b" + (out.empty() ? "0" : out);
}

std::string rowText(const Through& t) {
  std::string text = rowName(t.row) + " of " + binary(t.operands) + (t.swap ? ", swapped" : "");
  for (PendingKind k : kPendingKinds)
    if (t.kinds & kindBit(k)) text += ", " + std::string(pendingName(k));
  return text;
}

// One mutation: of the record, or of each sample's rule (false where the rule is unaffected).
struct Mutant {
  std::string text;
  const OpRecord* record = nullptr;
  std::function<bool(Rule&)> change = nullptr;
};

class Mutator {
public:
  Mutator(const OpRegistry& ops, OpKind kind, RuleTable& table, const RuleOptions& options,
          RuleReport& report)
      : record_(ops[kind]), table_(table), options_(options), report_(report) {
    for (TableSample& s : table_.samples) {
      Diagnostics quiet;
      Rule rule;
      known_.push_back(ruleOf(queryOf(s.sample.module, s.sample.op, quiet), rule));
      operands_ = std::max(operands_, rule.operands.size());
      results_ = std::max(results_, rule.results.size());
      rules_.push_back(std::move(rule));
    }
  }

  void run() {
    if (table_.cases.empty()) return;
    for (size_t i = 0; i < record_.through.size(); ++i) changeRow(i);
    addRows();
    if (record_.throughWhen)
      judgeRecord("all rows regardless of attributes, literals and dtypes",
                  [](OpRecord& r) { r.throughWhen = nullptr; });
    size_t factors = 0;
    for (const Rule& r : rules_) factors = std::max(factors, r.factors.size());
    for (size_t f = 0; f < factors; ++f) changeFactor(f);
    for (size_t j = 0; j < maxJoins(); ++j)
      judgeRule("without join " + std::to_string(j), [j](Rule& r) {
        if (j >= r.joins.size()) return false;
        r.joins.erase(r.joins.begin() + static_cast<ptrdiff_t>(j));
        return true;
      });
    for (size_t f = 0; f < factors; ++f)
      for (size_t i = 0; i < operands_; ++i) addJoin(f, i);
    for (size_t i = 0; i < operands_ + results_; ++i) changeMap(i);
  }

private:
  using Held = std::vector<ResultClaim>;

  // Rows equivalent to before for every kind, set of operands and dtype class are not a mutation.
  void judgeRecord(std::string text, const std::function<void(OpRecord&)>& change) {
    OpRecord mutant = record_;
    change(mutant);
    const bool same =
        (mutant.throughWhen == nullptr) == (record_.throughWhen == nullptr) && answers(mutant) == table();
    if (!same) judge({std::move(text), &mutant, nullptr});
  }
  const std::string& table() {
    if (answers_.empty()) answers_ = answers(record_);
    return answers_;
  }
  // As in the prover: neither literals nor indices are pending.
  static bool isTried(OpSample& s, uint32_t set) {
    size_t argument = 0;
    for (uint32_t i = 0; i < s.module[s.op].numOperands; ++i) {
      const bool literal = s.module[s.module.operand(s.op, i)].kind == ValueKind::Literal;
      const OpSample::Range range = literal ? OpSample::Range{} : s.ranges[argument++];
      if (!((set >> i) & 1)) continue;
      if (literal || range.hi > range.lo) return false;
    }
    return true;
  }
  // The answers of the rows to all queries about the samples, for any attributes and literals.
  std::string answers(OpRecord record) {
    record.throughWhen = nullptr;
    std::string out;
    for (TableSample& s : table_.samples) {
      Diagnostics quiet;
      OpQuery q = queryOf(s.sample.module, s.sample.op, quiet);
      q.record = &record;
      const size_t n = std::min<size_t>(q.operandTypes.size(), 6);
      for (PendingKind k : kPendingKinds)
        for (uint32_t set = 1; set < (1u << n); ++set) {
          std::vector<PendingKind> kinds(q.operandTypes.size(), PendingKind::None);
          if (!isTried(s.sample, set)) continue;
          for (size_t i = 0; i < n; ++i)
            if ((set >> i) & 1) kinds[i] = k;
          for (uint32_t r = 0; r < s.sample.module[s.sample.op].numResults; ++r) {
            const auto kind = passThrough(q, kinds, r);
            const DType given = s.sample.module.typeOf(s.sample.module.result(s.sample.op, r)).dtype;
            out +=
                kind && hasPendingKind(given, *kind) ? static_cast<char>('1' + static_cast<int>(*kind)) : '-';
          }
        }
    }
    return out + " ";
  }
  void judgeRule(std::string text, std::function<bool(Rule&)> change) {
    judge({std::move(text), nullptr, std::move(change)});
  }

  void changeRow(size_t i) {
    const Through& t = record_.through[i];
    const std::string which = "row " + std::to_string(i) + " (" + rowText(t) + "): ";
    judgeRecord(which + "left out",
                [i](OpRecord& r) { r.through.erase(r.through.begin() + static_cast<ptrdiff_t>(i)); });
    for (ThroughRow row : kRows)
      if (row != t.row)
        judgeRecord(which + "changed to " + rowName(row), [=](OpRecord& r) { r.through[i].row = row; });
    judgeRecord(which + "swapped", [=](OpRecord& r) { r.through[i].swap = !r.through[i].swap; });
    for (uint32_t k = 0; k < std::min<size_t>(operands_, 8); ++k)
      judgeRecord(which + "operand " + std::to_string(k) + " in or out",
                  [=](OpRecord& r) { r.through[i].operands ^= 1u << k; });
    for (uint32_t k = 0; k < results_ && results_ > 1; ++k)
      judgeRecord(which + "result " + std::to_string(k) + " in or out",
                  [=](OpRecord& r) { r.through[i].results ^= 1u << k; });
    for (PendingKind k : kPendingKinds) {
      judgeRecord(which + "of " + std::string(pendingName(k)) + " alone",
                  [=](OpRecord& r) { r.through[i].kinds = kindBit(k); });
    }
    if (t.kinds) judgeRecord(which + "of all kinds", [=](OpRecord& r) { r.through[i].kinds = 0; });
    for (uint8_t classes : {1, 2, 4, 8, 6, 7, 15})
      if (classes != t.classes)
        judgeRecord(which + "for dtype classes " + binary(classes),
                    [=](OpRecord& r) { r.through[i].classes = classes; });
  }

  // An additional row, of every kind and set of operands, for all dtypes and attributes.
  void addRows() {
    for (ThroughRow row : kRows)
      for (uint32_t set = 1; set < (1u << std::min<size_t>(operands_, 3)); ++set)
        for (bool swap : {false, true}) {
          const bool swaps = row == ThroughRow::Monotone || row == ThroughRow::Compare;
          if (swap && !swaps) continue;
          const Through t{row, set, swap, ~0u, 0, kAdded | 15};
          judgeRecord("additional row: " + rowText(t), [&](OpRecord& r) {
            r.through.push_back(t);
            r.throughWhen = record_.throughWhen ? whenOrAdded(r.throughWhen) : nullptr;
          });
        }
  }
  // The record's own condition is not applied to an additional row.
  static constexpr uint8_t kAdded = 128; // a dtype class that no dtype has
  using When = bool (*)(const OpQuery&, const Through&);
  When whenOrAdded(When own) {
    static When original;
    original = own;
    return [](const OpQuery& q, const Through& t) { return (t.classes & kAdded) || original(q, t); };
  }

  // True if a tensor can be sharded along the factor.
  static bool hasFactor(const TensorMap& map, size_t f) {
    return std::ranges::any_of(map.dims, [&](const DimMap& d) {
      return std::ranges::any_of(d.sharded(), [&](const Term& t) { return t.factor == f; });
    });
  }
  static bool isSharded(const Rule& r, size_t f) {
    auto has = [&](const TensorMap& map) { return hasFactor(map, f); };
    return f < r.factors.size() &&
           (std::ranges::any_of(r.operands, has) || std::ranges::any_of(r.results, has));
  }
  // The claims that a factor allows; the local op of a placed factor also gets its offset.
  static int claimsOf(FactorKind kind) {
    if (kind == FactorKind::Place) return static_cast<int>(FactorKind::Pass);
    return static_cast<int>(kind == FactorKind::Pass || kind == FactorKind::Reduce ? kind
                                                                                   : FactorKind::Merge);
  }

  void changeFactor(size_t f) {
    const std::string which = "factor " + std::to_string(f) + ": ";
    for (FactorKind kind : {FactorKind::Pass, FactorKind::Merge})
      judgeRule(which + (kind == FactorKind::Pass ? "passed" : "not sharded without communication"),
                [=](Rule& r) {
                  if (!isSharded(r, f) || claimsOf(r.factors[f].kind) == claimsOf(kind)) return false;
                  r.factors[f].kind = kind;
                  return true;
                });
    for (PendingKind k : kPendingKinds) {
      const bool exists = std::ranges::any_of(table_.samples, [&](TableSample& s) {
        return hasPendingKind(s.sample.module.typeOf(s.sample.module.result(s.sample.op)).dtype, k);
      });
      if (!exists) continue;
      judgeRule(which + "reduced by " + std::string(pendingName(k)), [=](Rule& r) {
        if (!isSharded(r, f) || (r.factors[f].kind == FactorKind::Reduce && r.factors[f].reduce == k))
          return false;
        const bool passes = claimsOf(r.factors[f].kind) == claimsOf(FactorKind::Pass);
        if (passes && std::ranges::all_of(r.results, [&](const TensorMap& m) { return hasFactor(m, f); }))
          return false;
        r.factors[f].kind = FactorKind::Reduce;
        r.factors[f].reduce = k;
        return true;
      });
    }
  }

  [[nodiscard]] size_t maxJoins() const {
    size_t n = 0;
    for (const Rule& r : rules_) n = std::max(n, r.joins.size());
    return n;
  }
  void addJoin(size_t f, size_t operand) {
    judgeRule("operand " + std::to_string(operand) + " joins factor " + std::to_string(f), [=](Rule& r) {
      if (f >= r.factors.size() || operand >= r.operands.size() || r.factors[f].kind != FactorKind::Reduce)
        return false;
      const auto factor = static_cast<uint16_t>(f), at = static_cast<uint16_t>(operand);
      const bool known =
          std::ranges::any_of(r.joins, [&](const Join& j) { return j.operand == at && j.factor == factor; });
      const bool has = std::ranges::any_of(r.operands[operand].dims, [&](const DimMap& d) {
        return std::ranges::any_of(d.sharded(), [&](const Term& t) { return t.factor == factor; });
      });
      if (known || has) return false;
      r.joins.push_back({at, factor});
      return true;
    });
  }

  // True if a placement along the dim claims anything. Communicating factors are proved by their local
  // program instead (ShardedOpTrial.h).
  static bool speaks(const Rule& r, const DimMap& d) {
    return std::ranges::any_of(d.sharded(), [&](const Term& t) {
      return claimsOf(r.factors[t.factor].kind) != claimsOf(FactorKind::Merge);
    });
  }
  // Operands first, then results: two dims exchanged, one without its factors, the factors of one in another
  // order.
  void changeMap(size_t at) {
    auto mapOf = [this, at](Rule& r) -> TensorMap* {
      if (at < operands_) return at < r.operands.size() ? &r.operands[at] : nullptr;
      return at - operands_ < r.results.size() ? &r.results[at - operands_] : nullptr;
    };
    const std::string which = (at < operands_ ? "operand " : "result ") +
                              std::to_string(at < operands_ ? at : at - operands_) + ": ";
    size_t rank = 0;
    for (Rule& r : rules_)
      if (const TensorMap* t = mapOf(r)) rank = std::max(rank, t->dims.size());
    for (size_t d = 0; d < rank; ++d) {
      for (size_t e = d + 1; e < rank; ++e)
        judgeRule(which + "dims " + std::to_string(d) + " and " + std::to_string(e) + " exchanged",
                  [=](Rule& r) {
                    TensorMap* t = mapOf(r);
                    if (!t || e >= t->dims.size()) return false;
                    if (!speaks(r, t->dims[d]) && !speaks(r, t->dims[e])) return false;
                    std::swap(t->dims[d], t->dims[e]);
                    return true;
                  });
      judgeRule(which + "dim " + std::to_string(d) + " without factors", [=](Rule& r) {
        TensorMap* t = mapOf(r);
        if (!t || d >= t->dims.size() || !speaks(r, t->dims[d])) return false;
        t->dims[d] = {};
        return true;
      });
      judgeRule(which + "factors of dim " + std::to_string(d) + " exchanged", [=](Rule& r) {
        TensorMap* t = mapOf(r);
        if (!t || d >= t->dims.size() || t->dims[d].terms.size() < 2 || !speaks(r, t->dims[d])) return false;
        std::swap(t->dims[d].terms[0], t->dims[d].terms[1]);
        return true;
      });
    }
  }

  enum class Verdict : uint8_t { Silent, Sound, Caught };

  void judge(const Mutant& mutant) {
    std::vector<Rule> rules = rules_;
    bool any = mutant.record != nullptr;
    for (size_t i = 0; i < rules.size() && mutant.change; ++i) any |= mutant.change(rules[i]);
    if (!any) return;
    ++report_.mutants;
    switch (verdictOf(mutant, rules)) {
    case Verdict::Caught: ++report_.caught; break;
    case Verdict::Sound: report_.sound.push_back({record_.name, mutant.text}); break;
    case Verdict::Silent: report_.silent.push_back({record_.name, mutant.text}); break;
    }
  }

  // Rows are about pending values, rules about shards.
  static bool concerns(const TableCase& c, const Mutant& mutant) {
    const bool sharded =
        std::ranges::any_of(c.operands, [](const Placement& p) { return p.kind == Placement::S; });
    if (!mutant.record) return true;
    return !sharded &&
           std::ranges::any_of(c.operands, [](const Placement& p) { return p.kind == Placement::P; });
  }

  Verdict verdictOf(const Mutant& mutant, const std::vector<Rule>& rules) {
    Verdict verdict = Verdict::Silent;
    std::map<std::string, int> missed; // for integers: signed and unsigned
    for (TableCase& c : table_.cases) {
      if (!concerns(c, mutant) || !known_[c.sample]) continue;
      TableSample& s = table_.samples[c.sample];
      std::vector<Held> claims;
      for (const TrialMesh& mesh : s.meshes)
        claims.push_back(
            claimedResults(s.sample, mesh, c.operands,
                           {mutant.record ? mutant.record : &record_, &rules[c.sample], options_.nonFinite}));
      for (const ResultClaim& wanted : c.required) {
        const bool said = std::ranges::all_of(claims, [&](const Held& h) { return contains(h, wanted); });
        if (said) continue;
        verdict = std::max(verdict, Verdict::Sound);
        if (!isInteger(s.dtype) ||
            ++missed[s.sample.pattern +
                     claimText(s.sample, c.operands, wanted).substr(s.sample.text.size())] > 1)
          return Verdict::Caught;
      }
      for (size_t k = 0; k < claims.size(); ++k)
        for (const ResultClaim& claim : claims[k]) {
          if (contains(c.holds, claim)) {
            if (!contains(c.required, claim) && !contains(own(c, k), claim))
              verdict = std::max(verdict, Verdict::Sound);
            continue;
          }
          if (contains(own(c, k), claim)) continue; // like the record itself, on one mesh alone
          verdict = std::max(verdict, Verdict::Sound);
          if (!holds(s, s.meshes[k], c.operands, claim)) return Verdict::Caught;
        }
    }
    return verdict;
  }

  static bool contains(const Held& held, const ResultClaim& claim) {
    return std::ranges::find(held, claim) != held.end();
  }

  // The claim of the record itself.
  Held own(const TableCase& c, size_t mesh) {
    TableSample& s = table_.samples[c.sample];
    return claimedResults(s.sample, s.meshes[mesh], c.operands,
                          {&record_, &rules_[c.sample], options_.nonFinite});
  }

  // For claims that the table does not have: tried as the prover tries those of a record.
  bool holds(TableSample& s, const TrialMesh& mesh, const std::vector<Placement>& operands,
             const ResultClaim& claim) {
    for (uint64_t trials = 0; trials < kUnclaimedTrials; ++trials) {
      const TrialKey key = unclaimedTrialKey(trials);
      if (!dtc::isTried(s.dtype, key.values)) continue;
      RuleTrial trial(s.sample, mesh, operands, key.values, key.seed, {options_.nonFinite});
      if (trial.runs() && !trial.check(claim).empty()) return false;
    }
    return true;
  }

  const OpRecord& record_;
  RuleTable& table_;
  const RuleOptions& options_;
  RuleReport& report_;
  std::string answers_;
  std::vector<Rule> rules_; // of each sample
  std::vector<bool> known_;
  size_t operands_ = 0, results_ = 0;
};

} // namespace

void mutateRules(const OpRegistry& ops, OpKind kind, RuleTable& table, const RuleOptions& options,
                 RuleReport& report) {
  Mutator(ops, kind, table, options, report).run();
}

} // namespace dtc
