#pragma once
// What holds of one op, by trial: the table against which the prover holds what the record claims, and what changed records would.
#include "RuleClaims.h"
#include "dtc/Check/RuleProver.h"
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
  std::vector<ResultClaim> required; // of these what the record claims, and would be missed if it did not
};

struct RuleTable {
  std::deque<TableSample> samples;
  std::vector<TableCase> cases;
};

// The values that claim `number` 0, 1, 2, … of a row of trials is tried on. False where the dtype has no such trial.
struct TrialKey {
  TrialValues values;
  uint64_t seed;
};
inline constexpr uint64_t kOrderedTrials = 2048; // then special values alone
[[nodiscard]] inline TrialKey trialKey(uint64_t number) {
  if (number >= kOrderedTrials) return {TrialValues::Special, number + 1};
  return {kTrialOrder[number % std::size(kTrialOrder)], number + 1};
}
// An infinite part of a complex number makes NaN of the other in a product: nothing is promised there, nor where it overflows.
[[nodiscard]] inline bool isTried(DType dtype, TrialValues values) {
  return !isComplex(dtype) || values == TrialValues::Small || values == TrialValues::Sparse ||
         values == TrialValues::Near;
}

// What holds and yet is no rule, each with its reason (RuleProver.cpp). `combination`: "P(sum) -> P(prod)".
[[nodiscard]] bool isReviewed(std::string_view op, std::string_view combination);

// Changes every record and rule of the op in each way that it can be changed, one at a time, and asks the table whether the prover
// would report the change. Adds to report.mutants, .caught, .same and .survivors.
void mutateRules(const OpRegistry&, OpKind, RuleTable&, const RuleOptions&, RuleReport& report);

} // namespace dtc
