#pragma once
// Part of fuse: avoids storing a value in two layouts.
#include "analysis/FusionForm.h"

namespace dtc {

// A library call that needs a value in another layout (attention's result as the rows of a matrix) has it
// stored there; if other ops read the value itself, it is stored twice. Where its producer can write the other
// layout, and it keeps lines of memory whole, these ops read the stored one instead, by data movement back.
void storeOnce(Module& m, BlockId block, FusionForms& forms);

} // namespace dtc
