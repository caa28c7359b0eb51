#pragma once
// What a record claims of one combination of placements on a 1-D mesh.
#include "RuleTrial.h"

namespace dtc {

// The placements of the result that follow from rule, joins and homomorphism rows: none or one, and what that one implies
// (R is P(max) too).
[[nodiscard]] std::vector<Placement> claimedResults(OpSample&, const TrialMesh&,
                                                    std::span<const Placement> operands);

// "add f32[5, 3], f32[3] | P(sum), R -> P(sum)"
[[nodiscard]] std::string claimText(const OpSample&, std::span<const Placement> operands,
                                    const Placement& result);

} // namespace dtc
