#pragma once
// if-to-select: a `cond` whose blocks are cheap and pure becomes both blocks and a `select` for each result.
//
// Takes text of every level before `fuse`; leaves the level as it is. What the blocks compute may then fuse with what
// stands around them, and no device has to read the predicate back. Run it after `autodiff`: the gradient of a `select`
// goes through both sides, so that a 0 times an infinity of the side not taken would be NaN.
#include "dtc/Passes/Pass.h"

namespace dtc {

// Option `limit`: how many ops both blocks may have together.
[[nodiscard]] bool ifToSelectPass(Module&, const PassOptions&, Diagnostics&);
[[nodiscard]] PassInfo ifToSelectInfo();

} // namespace dtc
