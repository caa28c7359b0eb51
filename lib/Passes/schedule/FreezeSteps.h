#pragma once
// Part of schedule: the steps that run once (Frozen.h).
#include "dtc/IR/Module.h"

namespace dtc {

// Marks further steps of a function that depend on frozen arguments and constants alone, such as copies for a library.
void freezeSteps(Module& m, FuncId f);
// Moves all marked ones to the start.
void putFrozenFirst(Module& m, FuncId f);

} // namespace dtc
