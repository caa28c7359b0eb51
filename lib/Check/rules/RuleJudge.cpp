// Judges claims about sharding rules given by the user.
#include "dtc/Check/rules/RuleProver.h"
#include "dtc/IR/Homomorphism.h"
#include "dtc/Support/Words.h"
#include "rules/RuleTable.h"
#include <algorithm>
#include <cstdlib>

namespace dtc {

namespace {

std::string_view bare(std::string_view text) { return trimmed(text, " \t\r"); }

// Splits at commas outside of parentheses.
std::vector<std::string_view> words(std::string_view s) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && (s[i] == '(' || s[i] == '[')) ++depth;
    if (i < s.size() && (s[i] == ')' || s[i] == ']')) --depth;
    if (i < s.size() && (s[i] != ',' || depth > 0)) continue;
    if (auto w = bare(s.substr(begin, i - begin)); !w.empty()) out.push_back(w);
    begin = i + 1;
  }
  return out;
}

// R, S(0), S(0, 2), P(sum); PyTorch's Replicate(), Shard(0), Partial(sum) too. Nothing for anything else.
std::optional<Placement> parsePlacement(std::string_view w) {
  if (w.size() > 2 && w.front() == '[' && w.back() == ']') w = bare(w.substr(1, w.size() - 2));
  size_t open = w.find('(');
  std::string_view name = w.substr(0, open), inside;
  if (open != std::string_view::npos) {
    if (w.back() != ')') return std::nullopt;
    inside = bare(w.substr(open + 1, w.size() - open - 2));
  }
  if ((name == "R" || name == "Replicate") && inside.empty()) return Placement{};
  if (name == "P" || name == "Partial") {
    while (!inside.empty() && (inside.front() == '"' || inside.front() == '\'')) inside.remove_prefix(1);
    while (!inside.empty() && (inside.back() == '"' || inside.back() == '\'')) inside.remove_suffix(1);
    auto kind = parsePendingKind(inside == "product" ? "prod" : inside.empty() ? "sum" : inside);
    if (!kind || *kind == PendingKind::None) return std::nullopt;
    return Placement{Placement::P, 0, 1, *kind};
  }
  if (name != "S" && name != "Shard") return std::nullopt;
  std::vector<std::string_view> numbers = words(inside);
  if (numbers.empty() || numbers.size() > 2) return std::nullopt;
  int64_t values[2] = {0, 1};
  for (size_t i = 0; i < numbers.size(); ++i) {
    std::string text(numbers[i].substr(numbers[i].substr(0, 4) == "dim=" ? 4 : 0));
    char* end;
    values[i] = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end || values[i] < (i ? 1 : -64) || values[i] > 1 << 20) return std::nullopt;
  }
  return Placement{Placement::S, static_cast<int>(values[0]), values[1]};
}

struct Claim {
  OpKind op = kNoOpKind;
  DType dtype = DType::F32;
  std::string sample; // types, literals and attributes after the op's name, or ""
  std::vector<Placement> operands;
  std::vector<std::string> literals; // per operand: "" or a literal
  // One for every result, or one each; nothing: that result is not judged.
  std::vector<std::optional<Placement>> results;
};

class Judge {
public:
  Judge(std::string_view line, const OpRegistry& ops, NonFinite nonFinite)
      : line_(line), ops_(ops), nonFinite_(nonFinite) {}

  // Parses a claim line; an error where it is malformed.
  std::string parse() {
    size_t bar = line_.find('|'), arrow = line_.rfind("->");
    if (bar == std::string_view::npos || arrow == std::string_view::npos || arrow < bar)
      return "expected `op | placements -> placement`";
    std::string_view head = bare(line_.substr(0, bar));
    size_t space = std::min(head.find_first_of(" {"), head.size());
    name_ = head.substr(0, space);
    claim_.sample = bare(head.substr(space));
    for (std::string_view w : words(line_.substr(bar + 1, arrow - bar - 1))) {
      bool literal = (w[0] >= '0' && w[0] <= '9') || w[0] == '-' || w == "true" || w == "false";
      auto p = literal ? std::optional(Placement{}) : parsePlacement(w);
      if (!p) return notPlacement(w);
      claim_.operands.push_back(*p);
      claim_.literals.emplace_back(literal ? w : std::string_view());
    }
    std::vector<std::string_view> results = words(line_.substr(arrow + 2));
    if (results.empty()) return "expected the result's placement after ->";
    for (std::string_view w : results) {
      auto p = parsePlacement(w);
      if (!p && w != "_") return notPlacement(w);
      claim_.results.push_back(p);
    }
    claim_.op = ops_.find(name_, claim_.operands.size());
    return "";
  }

  // The part of the line that parse() reports.
  [[nodiscard]] std::string_view wrong() const { return wrong_.empty() ? line_ : wrong_; }

  ClaimVerdict judge() {
    ClaimVerdict v{std::string(line_)};
    if (claim_.op == kNoOpKind) {
      v.why = unknownOp();
      return v;
    }
    chooseDType();
    for (OpSample& s : opSamples(ops_, claim_.op, claim_.dtype, sampleLines())) {
      std::vector<Placement> placements;
      if (!fit(s, placements)) continue;
      v.why = impossible(s, placements);
      v.judged = true;
      if (v.why.empty()) tryValues(s, placements, v);
      return v;
    }
    v.why = noSample();
    return v;
  }

private:
  std::string notPlacement(std::string_view word) {
    wrong_ = word;
    return "'" + std::string(word) + "' is not a placement: R, S(0), S(0, 2) or P(sum)";
  }
  std::string unknownOp() const {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < ops_.size(); ++i) names.emplace_back(ops_[OpKind(i)].name);
    std::string_view near = nearestWord(name_, names);
    return "there is no op '" + std::string(name_) + "'" +
           (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?");
  }
  // The verifier's message for the sample of the claim, else a note that no sample matches.
  std::string noSample() const {
    const std::string name(name_);
    std::string text = sampleLines();
    text.resize(std::min(text.find('\n'), text.size()));
    if (std::string problem = validateSample(ops_, claim_.op, claim_.dtype, text); !problem.empty())
      return problem;
    return "no sample of '" + name + "' has such operands and dims: write types after the op, as in `" +
           name + " f32[4, 6] | S(0) -> S(0)`";
  }

  // The dtype in the claim's text if given; else one that the pending kinds and the op allow.
  void chooseDType() {
    size_t end = std::min(claim_.sample.find_first_of(" ,["), claim_.sample.size());
    if (auto d = parseDType(claim_.sample.substr(0, end));
        d && (end == claim_.sample.size() || claim_.sample[end] == ' ')) {
      claim_.dtype = *d;
      claim_.sample = bare(std::string_view(claim_.sample).substr(end));
      return;
    }
    auto logical = [](const Placement& p) {
      return p.kind == Placement::P && (p.pending == PendingKind::Any || p.pending == PendingKind::All);
    };
    bool bools = std::ranges::any_of(claim_.operands, logical);
    uint8_t classes = ops_[claim_.op].allClasses();
    claim_.dtype = bools || classes == 1 ? DType::Bool : classes & 4 ? DType::F32 : DType::I32;
  }

  // One sample line per sample, with the claim's types, literals and attributes where given.
  std::string sampleLines() const {
    std::string text = sampleText(ops_[claim_.op]);
    // For ops without operands the type follows the attributes.
    bool hasTypes = claim_.sample.find('[') < claim_.sample.find('{') ||
                    (claim_.operands.empty() && claim_.sample.find(':') != std::string::npos);
    if (hasTypes)
      text = claim_.sample;
    else if (!claim_.sample.empty())
      text = withAttributes(text);
    bool literals = std::ranges::any_of(claim_.literals, [](const std::string& l) { return !l.empty(); });
    if (literals && !hasTypes) {
      text.clear();
      for (size_t i = 0; i < claim_.literals.size(); ++i)
        text += (i ? ", " : "") + (claim_.literals[i].empty() ? std::string("T[5, 3]") : claim_.literals[i]);
      text += claim_.sample.empty() ? "" : " " + claim_.sample;
    }
    return text;
  }
  // The record's shapes with the claim's attributes.
  std::string withAttributes(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      size_t end = std::min(text.find('\n', i), text.size());
      std::string_view line = bare(text.substr(i, end - i));
      line = bare(line.substr(0, line.find('{')));
      if (!line.empty()) out += std::string(line) + " " + claim_.sample + "\n";
      i = end + 1;
    }
    return out;
  }

  // The number of arguments matches, and all named dims exist; negative dims count from the end.
  bool fit(OpSample& s, std::vector<Placement>& placements) {
    Module& m = s.module;
    size_t argument = 0, numOperands = m[s.op].numOperands;
    if (numOperands != claim_.operands.size()) {
      if (m[s.func].args.size() != claim_.operands.size()) return false;
    }
    auto checkDims = [](Placement& p, size_t rank) {
      if (p.kind != Placement::S) return true;
      if (p.dim < 0) p.dim += static_cast<int>(rank);
      return p.dim >= 0 && static_cast<size_t>(p.dim) < rank;
    };
    for (size_t i = 0; i < claim_.operands.size(); ++i) {
      if (numOperands == claim_.operands.size() && m[m.operand(s.op, i)].kind == ValueKind::Literal) {
        if (claim_.operands[i].kind != Placement::R) return false;
        continue;
      }
      Placement p = claim_.operands[i];
      if (!checkDims(p, m.typeOf(m[s.func].args[argument++].value).rank())) return false;
      placements.push_back(p);
    }
    const uint32_t results = m[s.op].numResults;
    if (results == 0 || (claim_.results.size() != 1 && claim_.results.size() != results)) return false;
    results_.clear();
    for (uint32_t r = 0; r < results; ++r) {
      results_.push_back(claim_.results[claim_.results.size() == 1 ? 0 : r]);
      if (results_[r] && !checkDims(*results_[r], m.typeOf(m.result(s.op, r)).rank())) return false;
    }
    return true;
  }

  // Integers of a sample may be indices: 0 up to the smallest size is valid for any dim.
  static bool boundIntegers(OpSample& s) {
    Module& m = s.module;
    int64_t smallest = INT64_MAX;
    for (const FuncArg& a : m[s.func].args)
      for (int64_t n : m.typeOf(a.value).staticShape()) smallest = std::min(smallest, n);
    bool any = false;
    for (size_t i = 0; i < s.ranges.size(); ++i) {
      OpSample::Range& r = s.ranges[i];
      if (!isInteger(m.typeOf(m[s.func].args[i].value).dtype)) continue;
      const OpSample::Range bound =
          r.lo == r.hi ? OpSample::Range{0, smallest}
                       : OpSample::Range{std::max<int64_t>(r.lo, 0), std::min(r.hi, smallest)};
      any = any || bound.lo != r.lo || bound.hi != r.hi;
      r = bound;
    }
    return any && smallest > 0 && smallest != INT64_MAX;
  }

  // "" or the reason why no values can have these placements.
  std::string impossible(OpSample& s, const std::vector<Placement>& placements) const {
    Module& m = s.module;
    for (size_t i = 0; i < placements.size(); ++i) {
      DType d = m.typeOf(m[s.func].args[i].value).dtype;
      if (placements[i].kind == Placement::P && !hasPendingKind(d, placements[i].pending))
        return std::string(dtypeName(d)) + " values are never " + placementText(placements[i]);
    }
    for (uint32_t r = 0; r < results_.size(); ++r)
      if (DType d = m.typeOf(m.result(s.op, r)).dtype;
          results_[r] && results_[r]->kind == Placement::P && !hasPendingKind(d, results_[r]->pending))
        return "a result of " + std::string(dtypeName(d)) + " is never " + placementText(*results_[r]);
    return "";
  }

  // Small tensors are tried often: each trial of one element is one opportunity to refute.
  static uint64_t trialsOf(const OpSample& s) {
    const Module& m = s.module;
    int64_t elements = 1;
    for (const FuncArg& a : m[s.func].args) {
      int64_t n = 1;
      for (int64_t d : m.typeOf(a.value).staticShape()) n *= std::max<int64_t>(d, 1);
      elements += n;
    }
    return static_cast<uint64_t>(std::clamp<int64_t>(18'000 / elements, kMinTrials, kMaxTrials));
  }
  static constexpr int64_t kMinTrials = 128, kMaxTrials = 960;

  void tryValues(OpSample& s, const std::vector<Placement>& placements, ClaimVerdict& v) {
    TrialOptions options{nonFinite_};
    Tried tried = counterexample(s, placements, options);
    if (tried.runs < kMinTrials && tried.why.empty() && boundIntegers(s)) {
      const Tried bounded = counterexample(s, placements, options);
      tried.why = bounded.why;
      tried.runs += bounded.runs;
    }
    // The op as written, applied to the shards: for example the mean of a shard, where the rule's local op
    // uses the global size.
    options.asWritten = true;
    if (!tried.why.empty() && ops_[claim_.op].localize)
      if (Tried written = counterexample(s, placements, options); written.runs && written.why.empty())
        tried = written;
    v.why = tried.why;
    v.holds = v.why.empty();
    if (tried.runs == 0) {
      v.holds = v.judged = false;
      v.why = "the op does not run on any of the values tried; give the range of its integers, as in i32[4] "
              "in 0..5";
    } else if (v.holds && tried.excepted) {
      v.why = "except for NaN where a replicated factor is infinite or a divisor is 0 (docs/sharding.md, "
              "\"Infinities "
              "and NaN\")";
    }
  }

  struct Tried {
    std::string why; // the counterexample
    int64_t runs = 0;
    bool excepted = false; // an element passed because nothing is promised of it
  };
  Tried counterexample(OpSample& s, const std::vector<Placement>& placements, const TrialOptions& options) {
    Tried tried;
    const TrialMesh meshes[] = {addTrialMesh(s.module, 2), addTrialMesh(s.module, 3)};
    const uint64_t trials = trialsOf(s);
    for (uint64_t number = 0; number < trials; ++number)
      for (const TrialMesh& mesh : meshes) {
        const TrialKey key = trialKey(number);
        if (!isTried(claim_.dtype, key.values)) continue;
        RuleTrial trial(s, mesh, placements, key.values, key.seed, options);
        if (!trial.runs()) continue;
        ++tried.runs;
        tried.why = trial.check(results_);
        tried.excepted = tried.excepted || trial.usedTheException();
        if (tried.why.empty()) continue;
        tried.why = s.text + ": " + tried.why;
        return tried;
      }
    return tried;
  }

  std::string_view line_, name_, wrong_;
  const OpRegistry& ops_;
  NonFinite nonFinite_;
  Claim claim_;
  std::vector<std::optional<Placement>> results_; // as claimed, for the current sample
};

} // namespace

std::vector<ClaimVerdict> judgeClaims(std::string_view text, const OpRegistry& ops, NonFinite nonFinite) {
  std::vector<ClaimVerdict> verdicts;
  auto offset = [&](std::string_view part) { return static_cast<size_t>(part.data() - text.data()); };
  for (size_t i = 0; i < text.size();) {
    size_t end = std::min(text.find('\n', i), text.size());
    std::string_view line = text.substr(i, end - i);
    i = end + 1;
    line = bare(line.substr(0, std::min(line.find("//"), line.find('#'))));
    if (line.empty()) continue;
    Judge judge(line, ops, nonFinite);
    if (std::string problem = judge.parse(); !problem.empty())
      verdicts.push_back({std::string(line), false, offset(judge.wrong()), false, true, problem});
    else
      verdicts.push_back(judge.judge()), verdicts.back().begin = offset(line);
  }
  return verdicts;
}

} // namespace dtc
