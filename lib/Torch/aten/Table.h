#pragma once
// The table of ATen ops and of PyTorch's higher-order ops. A row's target is an op with its overload,
// "aten.max.dim", or without, "aten.add", which serves all overloads that have no row of their own.
#include "dtc/Import/program/GraphImport.h"
#include <span>

namespace dtc {

// Who made the program; what helps if an op has no row differs.
enum class TorchOrigin : uint8_t {
  Export,
  Compile,
  Plan
}; // torch.export, torch.compile, dtc.torch.parallelize
[[nodiscard]] const ImportTable& atenTable(TorchOrigin);
// The row of "aten.add" or "aten.add.Tensor"; nullptr if there is none.
[[nodiscard]] const ImportRow* atenRow(std::string_view target);

// The rows by family.
using ImportRows = std::span<const ImportRow>;
[[nodiscard]] ImportRows torchPointwiseRows();
[[nodiscard]] ImportRows torchSpecialRows();
[[nodiscard]] ImportRows torchCreateRows();
[[nodiscard]] ImportRows torchShapeRows();
[[nodiscard]] ImportRows torchSliceRows();
[[nodiscard]] ImportRows torchReduceRows();
[[nodiscard]] ImportRows torchLogSumRows();
[[nodiscard]] ImportRows torchSortRows();
[[nodiscard]] ImportRows torchIndexRows();
[[nodiscard]] ImportRows torchContractRows();
[[nodiscard]] ImportRows torchAttentionRows();
[[nodiscard]] ImportRows torchNormRows();
[[nodiscard]] ImportRows torchWindowRows();
[[nodiscard]] ImportRows torchLossRows();
[[nodiscard]] ImportRows torchGradientRows();
[[nodiscard]] ImportRows torchBackwardRows();
[[nodiscard]] ImportRows torchControlRows();
[[nodiscard]] ImportRows torchLinalgRows();
[[nodiscard]] ImportRows torchLuRows();
[[nodiscard]] ImportRows torchLdlRows();
[[nodiscard]] ImportRows torchEigenRows();
[[nodiscard]] ImportRows torchPairRows();
[[nodiscard]] ImportRows torchBagRows();
[[nodiscard]] ImportRows torchFourierRows();
[[nodiscard]] ImportRows torchMiscRows();
[[nodiscard]] ImportRows torchRecurrentRows();
[[nodiscard]] ImportRows torchDistributedRows();
[[nodiscard]] ImportRows torchBesselRows();
[[nodiscard]] ImportRows torchSegmentRows();
[[nodiscard]] ImportRows torchSignalRows();
[[nodiscard]] ImportRows torchQuantizeRows();

} // namespace dtc
