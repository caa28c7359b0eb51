#pragma once
// The complex column of pointwise records: the extension of real functions to complex operands.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Sets OpRecord::complex and its columns if the record's function is defined on complex numbers; otherwise a
// no-op.
void addComplexForm(OpRecord&);

} // namespace dtc
