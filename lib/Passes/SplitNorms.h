#pragma once
// Part of fuse (private to lib/Passes): softmax, norms, losses and variances of few, very long rows. A kernel of rows has a row in the
// blocks of one cluster at most, and reads it once a pass where it is too long to be kept; here every part of a row is a row of a
// kernel, so that all of a GPU has work, a small kernel puts together what the parts give, and one more pass writes: two reads in all.
#include "dtc/IR/Builder.h"

namespace dtc {

// False: the op stays as it is. Else the value that takes the place of its result. The cut depends on the shape alone.
bool splitNorm(Module& m, OpId o, Builder& b, std::vector<ValueId>& results);

} // namespace dtc
