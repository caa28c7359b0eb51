#pragma once
#include "dtc/Cuda/CublasLt.h"
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Runtime/backend/Backend.h"

namespace dtc {

// A matmul executed by cuBLASLt, with several calls if it has more than one batch axis.
class CudaGemm {
public:
  // Whether cuBLASLt supports a matrix with these strides: one of them must be 1.
  [[nodiscard]] static bool takes(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride);
  // Error (Bug): an unsupported matrix. Error (Machine): see CublasLt::plan.
  // `deterministic`: bitwise reproducible. `tf32`: f32 operands may be rounded to tf32. `scale`: see
  // CublasGemm::deviceScale.
  [[nodiscard]] static Result<CudaGemm> plan(const CublasLt& library, const CudaDevice& device,
                                             const PlacedGemm& gemm, bool deterministic, bool tf32,
                                             const CublasGemm::DeviceScale& scale = {});
  // The matmul with row-major y, as required by plan(): may exchange the operands.
  [[nodiscard]] static PlacedGemm oriented(const PlacedGemm& gemm);
  // The bytes of run()'s `workspace`, which the calls of a stream share.
  [[nodiscard]] size_t workspaceBytes() const { return plan_.empty() ? 0 : plan_.front().workspaceBytes(); }
  // `aRow`, `bRow`: byte offsets of the operands' rows (PlacedGemm::Row); empty: the operand is all zeros.
  [[nodiscard]] Status run(const CublasLt& library, const CudaDevice& device, const CudaStream& stream,
                           std::optional<int64_t> aRow, std::optional<int64_t> bRow, void* workspace) const;
  [[nodiscard]] const PlacedGemm& gemm() const { return gemm_; }

private:
  struct Call {
    const std::byte *a, *b;
    std::byte* y;
    const std::byte* residual = nullptr;
    std::byte* aux = nullptr;
  };
  void makeCalls();
  [[nodiscard]] uint32_t alignment() const; // common alignment of all addresses, in bytes
  [[nodiscard]] Status fillEmpty(const CudaDevice& device, const CudaStream& stream) const;
  [[nodiscard]] Status spreadBias(const CudaDevice& device, const CudaStream& stream) const;

  PlacedGemm gemm_;
  std::vector<Call> calls_;
  std::vector<CublasPlan> plan_; // one for all calls; none if k is 0
  CudaMemory bias_;              // n copies of a scalar bias
};

} // namespace dtc
