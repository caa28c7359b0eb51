#pragma once
// GSPMD's form of a manual computation (the older shard_map of JAX): values go into the code of one device through custom calls
// @SPMDFullToShardShape and come out through @SPMDShardToFullShape. Private to lib/Import.
#include "MlirTree.h"

namespace dtc {

// The attribute of a manual computation that was made of such calls: a list of dictionaries of one entry of this name each, the
// string by which a call says what is manual. Its in_shardings and out_shardings are lists of dictionaries: the attributes of the
// calls that say how the whole values are cut; an empty one: replicated.
inline constexpr const char* kGspmdManual = "gspmd.manual";

// Makes one sdy.manual_computation of each set of ops that pieces of one device connect. What such ops take besides goes in replicated;
// constants are repeated inside. All other ops stay in their order. False after a report: a piece that is returned, or a set that cannot
// stand in one place; that region's ops are left as they were then. Linear in the text but for nesting.
[[nodiscard]] bool formManualComputations(MlirTree&, Diagnostics&);
// Were there any?
[[nodiscard]] bool hasManualComputations(const MlirTree&);

} // namespace dtc
