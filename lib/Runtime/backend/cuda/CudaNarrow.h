#pragma once
#include "backend/cuda/CudaGemm.h"
#include "backend/cuda/CudaPacks.h"

namespace dtc {

// The context in which an f8 matmul is planned.
struct NarrowPlanner {
  CudaDeviceQueue& queue;
  int64_t coordinate = 0;
  const CublasLt& library;
  bool deterministic = false;
  CudaRoom room;
};

// The steps of an f8 matmul: `scales`, `packs`, the library call, `after`.
struct NarrowProduct {
  CudaGemm gemm;
  std::optional<PlacedKernel> scales;
  std::vector<CudaPack> packs, after;
  uint32_t plain = 0; // Backend::Placed::plain
  std::string note;   // for --stats: the implementation and its reason
};

// Plans a matmul with f8 operands. The result is rounded to f8 (by a kernel, because cuBLASLt saturates) or
// stored in a wider dtype. cuBLASLt supports f8 from sm_89 on, if n and k are multiples of 16; operands that
// are not contiguous along k are copied. Otherwise operands are converted to bf16 (f16 for an f16 result),
// which represents every f8 value. Error (Machine): see CublasLt::plan.
[[nodiscard]] Result<NarrowProduct> planNarrow(const NarrowPlanner& planner, const PlacedGemm& gemm);

} // namespace dtc
