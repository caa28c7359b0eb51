#pragma once
// GSPMD's form of a manual computation (the older shard_map of JAX): values enter per-device code through
// custom calls @SPMDFullToShardShape and leave it through @SPMDShardToFullShape.
#include "mlir/MlirTree.h"

namespace dtc {

// The attribute of a manual computation built from such calls: a list of dictionaries of one entry of this
// name each, the string by which a call states its manual axes. Its in_shardings and out_shardings are lists
// of dictionaries: the attributes of the calls that state the shardings of the global values; an empty one
// means replicated.
inline constexpr const char* kGspmdManual = "gspmd.manual";

// Builds one sdy.manual_computation from each set of ops that are connected by per-device values. Other
// inputs of such ops enter replicated; constants are duplicated inside. All other ops stay in order. False
// after a report: a shard is returned, or a set cannot be placed contiguously; that region's ops are then
// left unchanged. Linear in the text except for nesting.
[[nodiscard]] bool formManualComputations(MlirTree&, Diagnostics&);
// True if the function has such calls.
[[nodiscard]] bool hasManualComputations(const MlirTree&);

} // namespace dtc
