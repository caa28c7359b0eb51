#pragma once
// Matches the results of a step with its next arguments.
#include "dtc/IR/Module.h"
#include <optional>

namespace dtc {

// A donated argument: `tf.aliasing_output = N` names a result, `jax.buffer_donor` none.
struct DonatedArgument {
  size_t argument = 0;
  std::optional<size_t> aliased; // index of a result of the function
};

// Marks the results that donated arguments become with {carry = true}, names them after those arguments, and
// gives both one sharding where only one has it. JAX pairs buffers by type alone, in order. So the names of
// the pytree decide where possible: an argument `state['w']` carries from the subtree of the results that
// contains every leaf of `state` with its type. Aliasing decides between several such subtrees, and where
// names do not determine the pair. The rest is paired in order, as XLA pairs donated buffers.
void carryDonated(Module&, FuncId, std::span<const DonatedArgument>);

} // namespace dtc
