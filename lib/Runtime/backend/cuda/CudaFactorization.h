#pragma once
#include "backend/cuda/CudaDeviceQueue.h"
#include "dtc/Cuda/Cusolver.h"
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

// A factorization executed by cuSOLVER, matrix by matrix; two kernels translate its pivots and failures.
class CudaFactorization {
public:
  // Error (Machine): see Cusolver::workspace.
  [[nodiscard]] static Result<CudaFactorization> plan(const Cusolver& library, CudaDeviceQueue& queue,
                                                      const PlacedFactorization& f);
  [[nodiscard]] size_t scratchBytes() const { return scratchBytes_; }
  // `scratch`: as of CudaConv::run. Not for capture: cuSOLVER may wait for the stream.
  [[nodiscard]] Status run(const Cusolver& library, CudaDeviceQueue& queue, int64_t coordinate,
                           void* scratch);

private:
  [[nodiscard]] Status each(const Cusolver& library, const CudaDevice& device, const CudaStream& stream,
                            std::byte* scratch);
  [[nodiscard]] std::byte* part(size_t buffer, int64_t matrix) const;

  PlacedFactorization f_;
  Cusolver::Workspace sizes_;
  std::vector<std::byte> host_;
  // Offsets in the scratch: a copy of one matrix, the pivots and the failures of all.
  size_t copy_ = 0, pivots_ = 0, info_ = 0, scratchBytes_ = 0;
};

// The kernels that a factorization needs besides cuSOLVER.
[[nodiscard]] std::vector<SourceUnit> factorizationKernels(const Factorization&);

} // namespace dtc
