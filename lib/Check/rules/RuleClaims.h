#pragma once
// The claims of a record about one combination of placements on a 1-D mesh.
#include "rules/RuleTrial.h"

namespace dtc {

// One placement per result; nothing for a result that a claim does not cover.
using ResultClaim = std::vector<std::optional<Placement>>;

// The record and the rule whose claims are requested, where they are not the sample's own.
struct ClaimSource {
  const OpRecord* record = nullptr;
  const Rule* rule = nullptr;
  NonFinite nonFinite = NonFinite::Promised;
};

// The placements of the results that follow from rule, joins and homomorphism rows, and what those imply (R
// is P(max) too). Where not all of several results are claimed, each is claimed by itself.
[[nodiscard]] std::vector<ResultClaim>
claimedResults(OpSample&, const TrialMesh&, std::span<const Placement> operands, const ClaimSource& = {});

// "add f32[5, 3], f32[3] | P(sum), R -> P(sum)"; "cummax f32[5] {dim = 0} | P(max) -> P(max), _"
[[nodiscard]] std::string claimText(const OpSample&, std::span<const Placement> operands, const ResultClaim&);

} // namespace dtc
