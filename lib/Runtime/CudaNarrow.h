#pragma once
#include "CudaGemm.h"
#include "CudaPacks.h"

namespace dtc {

// Where a product of f8 is planned, and by what.
struct NarrowPlanner {
  CudaPlaces& places;
  int64_t place = 0;
  const CublasLt& library;
  bool deterministic = false;
  CudaRoom room;
};

// How a product of f8 runs: `scales`, `packs`, the library's call, `after`.
struct NarrowProduct {
  CudaGemm gemm;
  std::optional<PlacedKernel> scales;
  std::vector<CudaPack> packs, after;
  bool plain = false; // it is PlacedGemm::plain
  std::string note;   // for --stats: which way, and why
};

// A product whose operands are f8, rounded to f8 (by a kernel, because cuBLASLt makes the largest number of what overflows) or stored wider.
// cuBLASLt takes it as f8 from sm_89 on, where n and k are multiples of 16; what does not lie along k is copied so, a byte an element. What
// it does not take as f8, it takes as bf16 (f16 where the result is), which holds every f8. Error (Machine): as CublasLt::plan.
[[nodiscard]] Result<NarrowProduct> planNarrow(const NarrowPlanner& planner, const PlacedGemm& gemm);

} // namespace dtc
