#pragma once
#include "dtc/Jit/CublasLt.h"
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Runtime/Backend.h"

namespace dtc {

// One matrix product of a program on the GPU, as cuBLASLt takes it: several calls where there is more than one batch axis.
class CudaGemm {
public:
  // Does cuBLASLt take a matrix with these strides? One of them must be 1.
  [[nodiscard]] static bool takes(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride);
  // Error (Bug): a matrix that it does not take. Error (Machine): as CublasLt::plan.
  // `deterministic`: the same bits in every run. `tf32`: operands of f32 may be cut to tf32. `alpha`: CublasGemm's.
  [[nodiscard]] static Result<CudaGemm> plan(const CublasLt& library, const CudaDevice& device,
                                             const PlacedGemm& gemm, bool deterministic, bool tf32,
                                             const CublasGemm::Alpha& alpha = {});
  // The same product with y's rows side by side, as plan() takes it: the operands may change places.
  [[nodiscard]] static PlacedGemm oriented(const PlacedGemm& gemm);
  // `aRow`, `bRow`: where the operands' rows begin (PlacedGemm::Row), in bytes; nothing: an operand is all zeros.
  [[nodiscard]] Status run(const CublasLt& library, const CudaDevice& device, const CudaStream& stream,
                           std::optional<int64_t> aRow, std::optional<int64_t> bRow) const;
  [[nodiscard]] const PlacedGemm& gemm() const { return gemm_; }

private:
  struct Call {
    const std::byte *a, *b;
    std::byte* y;
    const std::byte* residual = nullptr;
  };
  void makeCalls();
  [[nodiscard]] uint32_t alignment() const; // of all addresses together, in bytes
  [[nodiscard]] Status fillEmpty(const CudaDevice& device, const CudaStream& stream) const;
  [[nodiscard]] Status spreadBias(const CudaDevice& device, const CudaStream& stream) const;

  PlacedGemm gemm_;
  std::vector<Call> calls_;
  std::vector<CublasPlan> plan_; // one, for all calls; none where k is 0
  CudaMemory workspace_, bias_;  // bias_: n copies of a bias that does not run along n
};

} // namespace dtc
