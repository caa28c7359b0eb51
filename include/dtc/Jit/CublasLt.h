#pragma once
// Matrix products on the GPU by cuBLASLt, which is opened when the first product is planned: only where a GPU is.
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Support/DType.h"
#include <memory>
#include <optional>

namespace dtc {

// y[b, i, j] = f((scales) * sum over k of a[b, i, k] * c[b, k, j] (+ bias[j]) (+ residual[b, i, j])), all in `dtype` (f16 bf16 f32 f64; a and c in
// `dtype` and `second`, f8 too, where the rest is of a wider `result`);
// sums are in f32, for f64 in f64 (and without bias: cuBLASLt has no epilogue in f64), and rounded once. f32 is cut to tf32 where `tf32` says so. Strides are in elements. A matrix is stored row by row, or, where it is transposed,
// column by column: `lead` is the distance of its rows (columns). `batchStride` may be 0 for operands.
struct CublasGemm {
  struct Matrix {
    int64_t lead = 0;
    int64_t batchStride = 0;
    bool transposed = false; // not for y
  };
  DType dtype = DType::F32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  Matrix a, b, y;
  const void* bias = nullptr;     // n elements, equal for all rows and batches
  std::optional<Matrix> residual; // not transposed
  bool gelu = false;              // f is gelu's tanh form
  bool relu = false;              // f is max(x, 0), and 0 of NaN
  uint32_t alignment = 256;       // of a, b, y and residual, in bytes: a power of two
  bool tf32 = false;              // operands of f32 may be cut to tf32
  bool deterministic = false;     // only algorithms that add up in one sequence: the same bits in every run
  std::optional<DType> second;    // of c, where it is another
  std::optional<DType> result;    // of y, bias and residual, where it is another
  // What the sum is multiplied by: f32 on the device, each or both null. Of f8 alone.
  const void *aScale = nullptr, *bScale = nullptr;
  // The same of any dtype but f64: one f32 for both, then 0 and 1, all on the device; or null.
  struct Alpha {
    const void *alpha = nullptr, *zero = nullptr, *one = nullptr;
  } alpha;
};

// A product with its algorithm chosen. Copies share it.
class CublasPlan {
public:
  [[nodiscard]] size_t workspaceBytes() const;
  struct Impl;
  explicit CublasPlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] Impl& impl() const { return *impl_; }

private:
  std::shared_ptr<Impl> impl_;
};

// Safe to use from several threads; one plan runs on one thread at a time.
class CublasLt {
public:
  // Error (Machine): the library is missing (says what to install) or does not start.
  [[nodiscard]] static Result<CublasLt> open(const CudaDevice& device);
  // Error (Machine): no algorithm for these sizes and strides within `workspaceBytes`.
  [[nodiscard]] Result<CublasPlan> plan(const CublasGemm& gemm, size_t workspaceBytes = 32u << 20) const;
  // In stream order. Pointers are of the device; `workspace` has the plan's workspaceBytes, 256-byte aligned.
  [[nodiscard]] Status run(const CublasPlan& plan, const void* a, const void* b, const void* residual,
                           void* y, void* workspace, const CudaStream& stream) const;

  struct Impl;

private:
  explicit CublasLt(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
