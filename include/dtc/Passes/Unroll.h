#pragma once
// unroll: a `for` of few trips, whose bounds are numbers, becomes its block once per trip.
//
// Takes text of every level before `fuse`; leaves the level as it is. Stands outside the standard pipeline: a loop's
// kernels are compiled once however often they run, and straight-line code pays only where trips differ (a trip index
// that becomes a number, a first trip that others do not look like).
#include "dtc/Passes/Pass.h"

namespace dtc {

// Option `limit`: loops of more trips stay loops. A loop stays, too, where its copies would pass 65,536 ops.
[[nodiscard]] bool unrollPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo unrollInfo();

} // namespace dtc
