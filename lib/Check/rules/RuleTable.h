#pragma once
// The empirical facts about one op: the table against which the prover checks the claims of the record, and
// of mutated records.
#include "dtc/Check/rules/RuleProver.h"
#include "rules/RuleClaims.h"
#include <deque>

namespace dtc {

struct TableSample {
  OpSample sample;
  DType dtype;
  std::vector<TrialMesh> meshes; // of 2 and of 3 devices
};

// One combination of placements of the operands.
struct TableCase {
  size_t sample = 0;
  std::vector<Placement> operands;
  std::vector<ResultClaim> holds;    // on both meshes
  std::vector<ResultClaim> required; // the subset that the record claims; these must not be missing
};

struct RuleTable {
  std::deque<TableSample> samples;
  std::vector<TableCase> cases;
};

// The values for trial 0, 1, 2, … of a claim. False where the dtype has no such trial.
struct TrialKey {
  TrialValues values;
  uint64_t seed;
};
inline constexpr uint64_t kOrderedTrials = 2048; // then special values only
[[nodiscard]] inline TrialKey trialKey(uint64_t number) {
  if (number >= kOrderedTrials) return {TrialValues::Special, number + 1};
  return {kTrialOrder[number % std::size(kTrialOrder)], number + 1};
}
// A claim that the record does not make is tried on so many values that it does not hold by chance: mixed
// ones, then special values only.
inline constexpr uint64_t kMixedTrials = 112, kUnclaimedTrials = kMixedTrials + 64;
[[nodiscard]] inline TrialKey unclaimedTrialKey(uint64_t number) {
  return trialKey(number < kMixedTrials ? number : kOrderedTrials + number - kMixedTrials);
}
// In a product, an infinite part of a complex number turns the other part into NaN: there, and on overflow,
// nothing is promised.
[[nodiscard]] inline bool isTried(DType dtype, TrialValues values) {
  return !isComplex(dtype) || values == TrialValues::Small || values == TrialValues::Sparse ||
         values == TrialValues::Near;
}

// Applies every mutation to every record and rule of the op, one at a time, and checks with the table whether
// the prover would report it. Adds to report.mutants, .caught, .same and .survivors.
void mutateRules(const OpRegistry&, OpKind, RuleTable&, const RuleOptions&, RuleReport& report);

} // namespace dtc
