#pragma once
// Which results of a step are its next arguments. Private to lib/Import.
#include "dtc/IR/Module.h"
#include <optional>

namespace dtc {

// An argument whose buffer the caller gives away: `tf.aliasing_output = N` names a result, `jax.buffer_donor` none.
struct DonatedArgument {
  size_t argument = 0;
  std::optional<size_t> aliased; // index of a result of the function
};

// Marks the results that donated arguments become with {carry = true}, names them after those arguments, and gives both one
// sharding where only one has it. JAX pairs buffers by type alone, first with first. So the names of the pytree decide
// where they can: an argument `state['w']` carries from the subtree of the results in which every leaf of `state` is found
// with its type. Aliasing decides between several such subtrees, and where names say nothing. What is left is paired in
// order, as XLA pairs donated buffers.
void carryDonated(Module&, FuncId, std::span<const DonatedArgument>);

} // namespace dtc
