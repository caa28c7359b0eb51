#pragma once
// What a record claims of one combination of placements on a 1-D mesh.
#include "RuleTrial.h"

namespace dtc {

// One placement per result; nothing where a claim does not speak of a result.
using ResultClaim = std::vector<std::optional<Placement>>;

// The record and the rule whose claims are asked for, where they are not the sample's own.
struct ClaimSource {
  const OpRecord* record = nullptr;
  const Rule* rule = nullptr;
  NonFinite nonFinite = NonFinite::Promised;
};

// The placements of the results that follow from rule, joins and homomorphism rows, and what those imply (R is P(max) too).
// Of several results each is claimed by itself where not all are.
[[nodiscard]] std::vector<ResultClaim>
claimedResults(OpSample&, const TrialMesh&, std::span<const Placement> operands, const ClaimSource& = {});

// "add f32[5, 3], f32[3] | P(sum), R -> P(sum)"; "cummax f32[5] {dim = 0} | P(max) -> P(max), _"
[[nodiscard]] std::string claimText(const OpSample&, std::span<const Placement> operands, const ResultClaim&);

} // namespace dtc
