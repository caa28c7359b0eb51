#pragma once
// The program of `dtc run`, with what its inputs and its package decide.
#include "Execute.h"
#include "RunResults.h"

namespace dtc {

// The module with symbolic sizes bound to those of the inputs.
[[nodiscard]] Result<Module> withSizes(Environment&, const RunOptions&, const Module&, FuncId);
// Sums of symbolic sizes import only if their symbols are bound: by --dim, or by the files of the inputs.
[[nodiscard]] Result<RunOptions> withBoundSizes(Environment&, const RunOptions&);
// A package runs as it was compiled.
[[nodiscard]] Status usePackage(Environment&, RunOptions&);

// --loop needs at least one carried result; else each iteration would repeat the same step.
[[nodiscard]] Status checkCarries(Environment&, const RunOptions&, const Module&, FuncId, const RunResults&);

[[nodiscard]] bool hasComplexNumbers(const Module&);
// Whether some op gathers or scatters by indices that are data. Kernels read 0 for an index out of range; the
// reference evaluator reports it.
[[nodiscard]] bool usesDataIndices(const Module&);

} // namespace dtc
