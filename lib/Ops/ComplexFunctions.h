#pragma once
// The complex column of pointwise records: what a function of real numbers is on complex ones.
#include "dtc/IR/OpRecord.h"

namespace dtc {

// Sets OpRecord::complex and its columns where the record's function has a meaning on complex numbers; else leaves it alone.
void addComplexForm(OpRecord&);

} // namespace dtc
