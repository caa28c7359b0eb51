#pragma once
// Ops that communicate inside themselves (CutOp.h), against the whole op.
#include "dtc/Check/RuleProver.h"
#include "dtc/Ops/Samples.h"

namespace dtc {

// Runs the op of the sample cut along each factor that it communicates along, alone on meshes of 2 and 3 devices and together
// with each other factor on one of 2 by 3, and compares each device's piece of each result with the piece that it should have.
// What differs goes to report.wrong.
void proveCuts(OpSample&, RuleReport& report);

} // namespace dtc
