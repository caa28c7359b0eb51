#pragma once
// One row per op of the text. A family of ops is one file Hlo<Family>.cpp with its rows; HloTable.cpp lists the families.
#include "HloContext.h"

namespace dtc {

struct HloRow {
  const char* name; // "stablehlo.add"; mhlo.add is a synonym
  bool (*convert)(HloContext&);
};

// The row of an op, or nullptr.
[[nodiscard]] const HloRow* findHloRow(std::string_view name);
// All names, for "did you mean".
[[nodiscard]] std::vector<std::string_view> hloNames();

// --- the families ---
[[nodiscard]] std::span<const HloRow> hloElementwiseRows(); // HloElementwise.cpp
[[nodiscard]] std::span<const HloRow> hloShapeRows();       // HloShape.cpp
[[nodiscard]] std::span<const HloRow> hloControlRows();     // HloControl.cpp
[[nodiscard]] std::span<const HloRow> hloContractRows();    // HloContract.cpp
[[nodiscard]] std::span<const HloRow> hloCheckRows();       // HloCheck.cpp
[[nodiscard]] std::span<const HloRow> hloNormaliseRows();   // HloNormalise.cpp
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
[[nodiscard]] std::span<const HloRow> hloConvolutionRows();   // HloConvolution.cpp
[[nodiscard]] std::span<const HloRow> hloLinearAlgebraRows(); // HloLinearAlgebra.cpp
[[nodiscard]] std::span<const HloRow> hloRandomRows();        // HloRandom.cpp
[[nodiscard]] std::span<const HloRow> hloDynamicRows();       // HloDynamic.cpp
[[nodiscard]] std::span<const HloRow> hloOlderRows();         // HloOlder.cpp
[[nodiscard]] std::span<const HloRow> hloFactorRows();        // HloFactor.cpp
[[nodiscard]] std::span<const HloRow> hloSpectralRows();      // HloSpectral.cpp
[[nodiscard]] std::span<const HloRow> hloRaggedRows();        // HloRagged.cpp

} // namespace dtc
