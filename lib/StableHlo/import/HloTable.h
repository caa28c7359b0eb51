#pragma once
// One row per op of the text. Each family of ops has a file Hlo<Family>.cpp with its rows; HloTable.cpp lists
// the families.
#include "import/HloContext.h"

namespace dtc {

struct HloRow {
  const char* name; // "stablehlo.add"; '?': each of s, d, c and z, LAPACK's dtypes
  bool (*convert)(HloContext&);
  int operands = -1; // their number; -1: `convert` checks it
  [[nodiscard]] bool run(HloContext& c) const {
    return (operands < 0 || c.expectOperands(static_cast<size_t>(operands))) && convert(c);
  }
};

// The row of an op, or nullptr. mhlo.add is stablehlo.add or chlo.add, and custom_call @mhlo.erf is chlo.erf.
[[nodiscard]] const HloRow* findHloRow(std::string_view name);
// chlo.broadcast_add has the row of this name; hloBroadcastRow is that of the op itself: stablehlo.add.
inline constexpr std::string_view kHloBroadcast = "chlo.broadcast_";
[[nodiscard]] const HloRow* hloBroadcastRow(std::string_view name);
// All names, for "did you mean".
[[nodiscard]] std::vector<std::string_view> hloNames();

// --- the families ---
[[nodiscard]] std::span<const HloRow> hloElementwiseRows(); // HloElementwise.cpp
[[nodiscard]] std::span<const HloRow> hloShapeRows();       // HloShape.cpp
[[nodiscard]] std::span<const HloRow> hloControlRows();     // HloControl.cpp
[[nodiscard]] std::span<const HloRow> hloContractRows();    // HloContract.cpp
[[nodiscard]] std::span<const HloRow> hloCheckRows();       // HloCheck.cpp
[[nodiscard]] std::span<const HloRow> hloNormalizeRows();   // HloNormalize.cpp
[[nodiscard]] std::span<const HloRow> hloComplexRows();     // HloComplex.cpp
[[nodiscard]] std::span<const HloRow> hloReduceRows();      // HloReduce.cpp
[[nodiscard]] std::span<const HloRow> hloWindowRows();      // HloWindow.cpp
[[nodiscard]] std::span<const HloRow> hloSortRows();        // HloSort.cpp
[[nodiscard]] std::span<const HloRow> hloSliceRows();       // HloSlices.cpp
[[nodiscard]] std::span<const HloRow> hloScatterRows();     // HloScatter.cpp
[[nodiscard]] std::span<const HloRow> hloShardyRows();      // ShardyOps.cpp
[[nodiscard]] std::span<const HloRow> hloCollectiveRows();  // HloCollectives.cpp
[[nodiscard]] std::span<const HloRow> hloParallelRows();    // HloParallel.cpp

[[nodiscard]] std::span<const HloRow> hloMathRows();          // HloMath.cpp
[[nodiscard]] std::span<const HloRow> hloFunctionRows();      // HloMath.cpp
[[nodiscard]] std::span<const HloRow> hloConvolutionRows();   // HloConvolution.cpp
[[nodiscard]] std::span<const HloRow> hloLinearAlgebraRows(); // HloLinearAlgebra.cpp
[[nodiscard]] std::span<const HloRow> hloRandomRows();        // HloRandom.cpp
[[nodiscard]] std::span<const HloRow> hloDynamicRows();       // HloDynamic.cpp
[[nodiscard]] std::span<const HloRow> hloOlderRows();         // HloOlder.cpp
[[nodiscard]] std::span<const HloRow> hloFactorRows();        // HloFactor.cpp
[[nodiscard]] std::span<const HloRow> hloRaggedRows();        // HloRagged.cpp

} // namespace dtc
