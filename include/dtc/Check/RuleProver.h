#pragma once
// Rules are proved, not trusted (sharding.md §2): each op of the registry is run on 1-D meshes of 2 and 3 devices with every
// combination of placements of its operands, over the samples of its record; each device's result is compared with the piece
// that a placement of the result assigns to it. What holds is compared with what the record claims.
#include "dtc/IR/Homomorphism.h"
#include "dtc/IR/OpRecord.h"
#include "dtc/Support/Progress.h"
#include "dtc/Support/Result.h"

namespace dtc {

struct RuleFinding {
  std::string text; // "add f32[5, 3], f32[3] | P(sum), R -> P(sum)"
  std::string why;  // a counterexample, or what holds
};
struct RuleReport {
  std::vector<RuleFinding> wrong;   // the record claims it, and it does not hold
  std::vector<RuleFinding> missing; // it holds on all samples, and the record does not claim it
  int64_t ops = 0, cases = 0;       // a case: one combination on one sample, mesh and set of values
  // Of changed rules (RuleOptions::mutate): how many there are; of how many the prover would report something; which change no claim
  // about a sample; which change claims and yet are not reported, as all that they claim holds.
  int64_t mutants = 0, caught = 0;
  std::vector<RuleFinding> silent, sound;
};

struct RuleOptions {
  std::vector<std::string> only; // names of ops; empty: all
  Progress progress = {};        // told of each op; may be empty
  // Promised: rows are held to what docs/sharding.md promises of infinities and NaN. Strict: only rows that hold for all values
  // count, and they are held to the same infinities and NaN as the whole op's; none is missing there.
  NonFinite nonFinite = NonFinite::Promised;
  bool mutate =
      false; // change every rule in each way that it can be changed, and see whether the prover reports it
};
[[nodiscard]] RuleReport proveRules(const OpRegistry&, const RuleOptions& = {});

// Claims from outside, one a line: `op | placements -> placement`, `//` to the end of the line is a comment. After the op may
// stand what its sample should be: `mul f32[4, 3], 2.0 | P(max), R -> P(max)`, `sum {dims = [0]} | S(0) -> P(sum)`; else it
// is judged on the first sample of the op's record that has as many operands and the dims that are named.
// A placement is R, S(d), S(d, f) or P(kind). One after the arrow stands for every result; else there is one for each,
// where `_` leaves a result out: `cummax | P(max) -> P(max), _`.
struct ClaimVerdict {
  std::string claim;
  bool holds = false;
  size_t begin = 0;       // byte offset in the text: of the claim; malformed: of what is wrong in it
  bool judged = false;    // false: no sample could be made (no such op, operands, dims or attributes)
  bool malformed = false; // not a claim at all
  // Judged: a counterexample where it does not hold, or what it holds but for. Else what is wrong with the claim.
  std::string why;
};
[[nodiscard]] std::vector<ClaimVerdict> judgeClaims(std::string_view text, const OpRegistry&,
                                                    NonFinite = NonFinite::Promised);

} // namespace dtc
