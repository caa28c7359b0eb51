#pragma once
// The steps that form the groups of a block, each a function over the table. groupOps runs them.
#include "fuse/FusionGroups.h"

namespace dtc {

// Groups all ops. `narrow`: matmuls fuse the conversions and scalings of operands of these dtypes.
void groupOps(FusionGroups& fusion, uint32_t narrow, FusionTables& tables);

// FusionRows.cpp: kernels with reductions.
// Why the op cannot join the group that produces one of its operands; "" if it can. Not for matmuls.
[[nodiscard]] std::string_view kernelObstacle(FusionGroups& fusion, OpId o, uint32_t g);
[[nodiscard]] bool columnsOf(const FusionGroups& fusion, OpId o, const FusionGroup& g);
void addTo(FusionGroups& fusion, OpId o, uint32_t g);

// FusionEpilogue.cpp: ops on the result of a matmul.
// Why the op cannot be an epilogue of the matmul that group `g` ends with; "" if it can.
[[nodiscard]] std::string_view epilogueObstacle(FusionGroups& fusion, OpId o, uint32_t g);
[[nodiscard]] bool joinEpilogue(FusionGroups& fusion, OpId o);
void takeInReaders(FusionGroups& fusion);

// FusionFactors.cpp: f8, i8 and u8 operands of a matmul.
struct NarrowFactor {
  std::vector<OpId> through;   // conversions and scalings that the matmul folds
  std::vector<ValueId> scales; // the scalars, as values in memory
};
[[nodiscard]] bool takesNarrow(const FusionGroups& fusion, OpId matmul, uint32_t dtypes, NarrowFactor& both);
void foldFactors(FusionGroups& fusion, OpId matmul, const NarrowFactor& both);

// FusionViews.cpp: operands of matmuls and concatenations as views.
// The layout of a value in memory after data-movement ops; nothing if it is not strided.
[[nodiscard]] std::optional<StridedView> viewOf(const FusionGroups& fusion, ValueId v, bool lookups);
// True if it is a permutation of a value in memory; with `anyOrder`, the last dim need not stay last.
[[nodiscard]] bool permuted(const FusionGroups& fusion, ValueId v, bool anyOrder);
void storeForOneWalk(FusionGroups& fusion, OpId o);
void storeForLibrary(FusionGroups& fusion, OpId o);

// FusionTransposes.cpp: on GPUs, data-movement ops whose results are stored, since row kernels read them.
class TransposedRows {
public:
  explicit TransposedRows(FusionGroups& fusion);
  [[nodiscard]] bool stores(OpId move) const;

private:
  [[nodiscard]] bool readByRows(ValueId moved) const;
  FusionGroups& fusion_;
  ByValue<OpId> readers_;
};

void chooseLayouts(FusionGroups& fusion); // FusionLayouts.cpp: of stored values
void computeAgain(FusionGroups& fusion); // FusionBytes.cpp: producers that cost less to compute than to store
void joinSmall(FusionGroups& fusion);    // FusionSmall.cpp: horizontal fusion of small independent kernels

} // namespace dtc
