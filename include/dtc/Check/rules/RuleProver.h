#pragma once
// Rules are proved, not trusted: each op of the registry is run on 1-D meshes of 2 and 3 devices with every
// combination of placements of its operands, over the samples of its record; each device's result is compared
// with the shard that a placement of the result assigns to it. The combinations that hold are compared with
// the claims of the record.
#include "dtc/IR/Homomorphism.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Progress.h"
#include "dtc/Support/Result.h"

namespace dtc {

struct RuleFinding {
  std::string text; // "add f32[5, 3], f32[3] | P(sum), R -> P(sum)"
  std::string why;  // a counterexample, or the combination that holds
};
struct RuleReport {
  std::vector<RuleFinding> wrong;   // claimed by the record, but refuted
  std::vector<RuleFinding> missing; // holds on all samples, but not claimed by the record
  int64_t ops = 0, cases = 0;       // a case: one combination on one sample, mesh and set of values
  // Mutated rules (RuleOptions::mutate): their number; how many the prover would report; how many change no
  // claim about a sample; those that change a claim and yet are not reported, since all their claims hold.
  int64_t mutants = 0, caught = 0;
  std::vector<RuleFinding> silent, sound;
};

struct RuleOptions {
  std::vector<std::string> only; // names of ops; empty: all
  Progress progress = {};        // called for each op; may be empty
  // Promised: rows must meet the guarantees of docs/sharding.md for infinities and NaN. Strict: only rows
  // that hold for all values count, and they must give the same infinities and NaN as the global op; none is
  // missing there.
  NonFinite nonFinite = NonFinite::Promised;
  bool mutate = false; // mutate every rule, and check that the prover reports it
};
[[nodiscard]] RuleReport proveRules(const OpRegistry&, const RuleOptions& = {});

// User claims, one per line: `op | placements -> placement`, `//` to the end of the line is a comment. A
// sample may follow the op: `mul f32[4, 3], 2.0 | P(max), R -> P(max)`, `sum {dims = [0]} | S(0) -> P(sum)`;
// else the claim is judged on the first sample of the op's record that has as many operands and the named
// dims.
//
// A placement is R, S(d), S(d, f) or P(kind). One after the arrow stands for every result; else there is one
// for each, where `_` omits a result: `cummax | P(max) -> P(max), _`.
struct ClaimVerdict {
  std::string claim;
  bool holds = false;
  size_t begin = 0;       // byte offset in the text: of the claim; malformed: of the error in it
  bool judged = false;    // false: no sample could be built (unknown op, operands, dims or attributes)
  bool malformed = false; // not a claim at all
  // Judged: a counterexample if it does not hold, or the exceptions to it. Else the error in the claim.
  std::string why;
};
[[nodiscard]] std::vector<ClaimVerdict> judgeClaims(std::string_view text, const OpRegistry&,
                                                    NonFinite = NonFinite::Promised);

} // namespace dtc
