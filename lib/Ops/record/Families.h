#pragma once
// One function per family, which adds its records.
#include "dtc/IR/OpRecord.h"
#include "dtc/IR/infer/RuleText.h"

namespace dtc {

void addMakeOps(OpRegistry&);
void addRandomOps(OpRegistry&);
void addUnaryOps(OpRegistry&);
void addBinaryOps(OpRegistry&);
void addSpecialOps(OpRegistry&);
void addTernaryOps(OpRegistry&);
void addComplexOps(OpRegistry&);
void addContractOps(OpRegistry&);
void addGroupedMatmulOps(OpRegistry&); // of the family `contract`
void addLinearAlgebraOps(OpRegistry&);
void addReduceOps(OpRegistry&);
void addCollectiveOps(OpRegistry&);
void addNormalizeOps(OpRegistry&);
void addConvolutionOps(OpRegistry&);
void addShapeOps(OpRegistry&);
void addScanOps(OpRegistry&);
void addIndexOps(OpRegistry&);
void addAttentionOps(OpRegistry&);
void addControlOps(OpRegistry&);
void addShardingOps(OpRegistry&);
void addCustomOps(OpRegistry&);
void addCheckOps(OpRegistry&);

} // namespace dtc
