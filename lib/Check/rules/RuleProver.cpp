// Tries every combination of placements of every op and compares what holds with what the record claims.
#include "dtc/Check/rules/RuleProver.h"
#include "dtc/IR/Homomorphism.h"
#include "rules/RuleTable.h"
#include "rules/ShardedOpTrial.h"
#include <algorithm>
#include <map>

namespace dtc {

namespace {

constexpr PendingKind kKinds[] = {PendingKind::Sum, PendingKind::Avg, PendingKind::Prod, PendingKind::Max,
                                  PendingKind::Min, PendingKind::Any, PendingKind::All};

constexpr uint64_t kTrials = 16;            // number of value sets per claim of a record
constexpr double kMaxCombinations = 50'000; // of placements of one sample's operands

bool isCoincidence(const OpRecord& op, std::string_view placements) {
  return std::ranges::any_of(op.checks.coincidences, [&](const OpChecks::Coincidence& c) {
    return placements == c.placements || c.placements == std::string_view("*");
  });
}

// A placement of the results that has held so far.
struct Candidate {
  ResultClaim results;
  bool claimed = true; // on all meshes
  bool claimedHere = false;
};
using Candidates = std::vector<Candidate>;

bool strided(const ResultClaim& c) {
  return std::ranges::any_of(c, [](const auto& p) { return p && p->blocks > 1; });
}

class OpProver {
public:
  OpProver(const OpRegistry& ops, OpKind kind, const RuleOptions& options, RuleReport& report)
      : ops_(ops), kind_(kind), options_(options), report_(report) {}

  void run() {
    static constexpr DType dtypes[] = {DType::F32,  DType::I32,  DType::U8,
                                       DType::Bool, DType::BF16, DType::C64};
    const bool converts = ops_[kind_].resultType == OpRecord::ResultType::AttrDType;
    for (DType t : dtypes) {
      if (t == DType::BF16 && !converts) continue;
      dtype_ = t;
      for (OpSample& s : opSamples(ops_, kind_, t)) {
        if (s.module[s.op].numResults == 0) continue;
        table_.samples.push_back({std::move(s), t, {}});
        sample(table_.samples.back());
      }
    }
    // A verdict is per dtype class: for integers, what holds for both signed and unsigned ones.
    for (auto& [key, found] : missing_)
      if (!isInteger(found.dtype) || found.times > 1) report_.missing.push_back(std::move(found.finding));
    if (options_.mutate) mutateRules(ops_, kind_, table_, options_, report_);
  }

private:
  void sample(TableSample& table) {
    OpSample& s = table.sample;
    proveShardedOps(s, report_);
    table.meshes = {addTrialMesh(s.module, 2), addTrialMesh(s.module, 3)};
    const std::vector<TrialMesh>& meshes = table.meshes;
    std::vector<std::vector<Placement>> choices;
    double all = 1;
    for (size_t i = 0; i < s.module[s.func].args.size(); ++i) {
      choices.push_back(choicesOf(s, i));
      all *= static_cast<double>(choices.back().size());
    }
    if (all > kMaxCombinations) return fewer(s, meshes, choices);
    std::vector<size_t> at(choices.size(), 0);
    while (true) {
      std::vector<Placement> operands;
      for (size_t i = 0; i < at.size(); ++i) operands.push_back(choices[i][at[i]]);
      combination(s, meshes, operands);
      size_t k = 0;
      while (k < at.size() && ++at[k] == choices[k].size()) at[k++] = 0;
      if (k == at.size()) return;
    }
  }

  // For many operands: every placement of each pair of them, and all combinations with a factor sharded along
  // it.
  void fewer(OpSample& s, std::span<const TrialMesh> meshes,
             const std::vector<std::vector<Placement>>& choices) {
    const size_t n = choices.size();
    std::vector<Placement> operands(n);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = i + 1; j < n; ++j)
        for (size_t a = 0; a < choices[i].size(); ++a)
          for (size_t b = 0; b < choices[j].size(); ++b) {
            if ((b == 0 && j + 1 < n) || (a == 0 && i > 0)) continue; // covered by another pair
            operands.assign(n, {});
            operands[i] = choices[i][a], operands[j] = choices[j][b];
            combination(s, meshes, operands);
          }
    Rule rule;
    Diagnostics quiet;
    if (!ruleOf(queryOf(s.module, s.op, quiet), rule)) return;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      operands.assign(n, {});
      size_t argument = 0;
      for (size_t i = 0; i < s.module[s.op].numOperands; ++i) {
        if (s.module[s.module.operand(s.op, i)].kind == ValueKind::Literal) continue;
        for (size_t d = 0; d < rule.operands[i].dims.size(); ++d)
          if (rule.factorOf(rule.operands[i], d) == static_cast<int>(f))
            operands[argument] = {Placement::S, static_cast<int>(d)};
        ++argument;
      }
      combination(s, meshes, operands);
    }
  }

  static std::vector<Placement> choicesOf(OpSample& s, size_t argument) {
    const Type& t = s.module.typeOf(s.module[s.func].args[argument].value);
    std::vector<Placement> out{{}};
    for (size_t d = 0; d < t.rank(); ++d) out.push_back({Placement::S, static_cast<int>(d)});
    if (s.ranges[argument].hi > s.ranges[argument].lo) return out; // indices
    for (PendingKind k : kKinds)
      if (hasPendingKind(t.dtype, k)) out.push_back({Placement::P, 0, 1, k});
    return out;
  }

  // The possible placements of the results, the same for all.
  static Candidates resultChoices(OpSample& s) {
    const uint32_t n = s.module[s.op].numResults;
    const Type& t = s.module.typeOf(s.module.result(s.op));
    Candidates out{{ResultClaim(n, Placement{})}};
    for (PendingKind k : kKinds)
      if (hasPendingKind(t.dtype, k)) out.push_back({ResultClaim(n, Placement{Placement::P, 0, 1, k})});
    for (size_t d = 0; d < t.rank(); ++d)
      out.push_back({ResultClaim(n, Placement{Placement::S, static_cast<int>(d)})});
    return out;
  }

  void combination(OpSample& s, std::span<const TrialMesh> meshes, const std::vector<Placement>& operands) {
    // No strict rule is missing: they are those of the promised ones that hold for all values.
    const bool strict = options_.nonFinite == NonFinite::Strict;
    Candidates all = strict ? Candidates() : resultChoices(s);
    bool ran = false;
    for (const TrialMesh& mesh : meshes) {
      const std::vector<ResultClaim> claims =
          claimedResults(s, mesh, operands, {.nonFinite = options_.nonFinite});
      for (Candidate& c : all) c.claimedHere = std::ranges::find(claims, c.results) != claims.end();
      // strided, or of some of several results: not among the choices
      for (const ResultClaim& claim : claims)
        if (std::ranges::none_of(all, [&](const Candidate& c) { return c.results == claim; }) &&
            (strict || strided(claim) || claim.size() > 1))
          all.push_back({claim, true, true});
      tryAll(s, mesh, operands, all, ran);
      for (Candidate& c : all) c.claimed = c.claimed && c.claimedHere;
    }
    if (ran) report(s, operands, all);
  }

  // Runs several sets of values; placements that do not hold leave the candidates. A claim that fails is
  // wrong; an unclaimed combination has to hold on many more values, so that it does not hold by chance.
  void tryAll(OpSample& s, const TrialMesh& mesh, const std::vector<Placement>& operands, Candidates& all,
              bool& ran) {
    for (uint64_t trials = 0; trials < kUnclaimedTrials; ++trials) {
      const TrialKey key = unclaimedTrialKey(trials);
      if (!isTried(dtype_, key.values)) continue;
      bool open = std::ranges::any_of(
          all, [&](const Candidate& c) { return trials < kTrials || !(c.claimedHere || implied(c, all)); });
      if (!open) break;
      RuleTrial trial(s, mesh, operands, key.values, key.seed, {options_.nonFinite});
      if (!trial.runs()) continue;
      ran = true;
      std::erase_if(all, [&](const Candidate& c) {
        ++report_.cases;
        std::string why = trial.check(c.results);
        if (!why.empty() && c.claimedHere) report_.wrong.push_back({claimText(s, operands, c.results), why});
        return !why.empty();
      });
    }
  }

  // Where R holds, that another placement does is a property of the values (0 and 1 are their own products).
  static bool implied(const Candidate& c, const Candidates& held) {
    return std::ranges::any_of(held, [&](const Candidate& other) {
      for (size_t r = 0; r < c.results.size(); ++r)
        if (c.results[r].has_value() != other.results[r].has_value() ||
            (c.results[r] && (c.results[r]->kind != Placement::P || other.results[r]->kind != Placement::R)))
          return false;
      return true;
    });
  }
  // The shards of a dim of size 1 are complete or empty: rules state nothing about them.
  static bool shardsSizeOne(OpSample& s, const std::vector<Placement>& operands, const ResultClaim& results) {
    auto one = [&](const Placement& p, ValueId v) {
      return p.kind == Placement::S && s.module.typeOf(v).dims[static_cast<size_t>(p.dim)] == Dim(1);
    };
    bool any = false;
    for (size_t r = 0; r < results.size(); ++r)
      any |= results[r] && one(*results[r], s.module.result(s.op, static_cast<uint32_t>(r)));
    for (size_t i = 0; i < operands.size(); ++i) any |= one(operands[i], s.module[s.func].args[i].value);
    return any;
  }

  void report(OpSample& s, const std::vector<Placement>& operands, const Candidates& held) {
    TableCase entry{table_.samples.size() - 1, operands, {}, {}};
    for (const Candidate& c : held) {
      if (options_.mutate) entry.holds.push_back(c.results);
      if (strided(c.results) || implied(c, held) || shardsSizeOne(s, operands, c.results)) continue;
      // Overflow in the narrow parts of a converted complex number is not tried.
      const bool converts = ops_[kind_].resultType == OpRecord::ResultType::AttrDType;
      if (converts && isComplex(dtype_) && !isComplex(s.module.typeOf(s.module.result(s.op)).dtype)) continue;
      if (c.claimed && options_.mutate) entry.required.push_back(c.results);
      if (!c.claimed) missing(s, operands, c.results);
    }
    if (options_.mutate) table_.cases.push_back(std::move(entry));
  }

  void missing(OpSample& s, const std::vector<Placement>& operands, const ResultClaim& results) {
    std::string combination = claimText(s, operands, results).substr(s.text.size() + 3);
    if (isCoincidence(ops_[kind_], combination)) return;
    std::string dtypeClass = isInteger(dtype_) ? "integers" : std::string(dtypeName(dtype_));
    Missing& found = missing_[s.pattern + " | " + dtypeClass + " | " + combination];
    found.finding = {s.text + " | " + combination,
                     "it holds on meshes of 2 and 3, but the record does not claim it"};
    found.dtype = dtype_;
    ++found.times;
  }

  struct Missing {
    RuleFinding finding;
    DType dtype = DType::F32;
    int times = 0;
  };

  const OpRegistry& ops_;
  OpKind kind_;
  const RuleOptions& options_;
  RuleReport& report_;
  RuleTable table_;
  DType dtype_ = DType::F32;
  std::map<std::string, Missing> missing_;
};

} // namespace

RuleReport proveRules(const OpRegistry& ops, const RuleOptions& options) {
  RuleReport report;
  for (size_t k = 0; k < ops.size(); ++k) {
    const OpRecord& r = ops[static_cast<OpKind>(k)];
    if (r.isCollective() || r.regions != RegionKind::None || r.isCall) continue;
    if (!options.only.empty() &&
        std::find(options.only.begin(), options.only.end(), r.name) == options.only.end())
      continue;
    if (options.progress) options.progress(r.name, k, ops.size());
    ++report.ops;
    OpProver(ops, static_cast<OpKind>(k), options, report).run();
  }
  return report;
}

} // namespace dtc
