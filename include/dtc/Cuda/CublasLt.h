#pragma once
// Matrix products on the GPU by cuBLASLt, which is opened when the first one is planned: only where there is
// a GPU.
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Support/DType.h"
#include <memory>
#include <optional>

namespace dtc {

// y[b, i, j] = f(alpha (scales) * sum over k of a[b, i, k] * c[b, k, j] (+ bias[j]) (+ beta * residual[b, i, j])), in
// `dtype` (f16 bf16 f32 f64; a and c in `dtype` and `second`, also f8, if the rest has a wider `result`).
// Sums are in f32, for f64 in f64 (and without bias: cuBLASLt has no epilogue in f64), and rounded once. f32
// is rounded to tf32 if `tf32` is set. Strides are in elements. A matrix is row-major, or column-major if
// transposed: `lead` is the stride of its rows (columns). `batchStride` may be 0 for operands.
struct CublasGemm {
  struct Matrix {
    int64_t lead = 0;
    int64_t batchStride = 0;
    bool transposed = false; // not for y
    friend bool operator==(const Matrix&, const Matrix&) = default;
  };
  DType dtype = DType::F32;
  int64_t batch = 1, m = 0, n = 0, k = 0;
  Matrix a, b, y;
  const void* bias = nullptr;     // n elements, equal for all rows and batches
  std::optional<Matrix> residual; // not transposed; its memory may be that of y, with the same strides
  bool geluGradient = false;      // f(x) is x times the derivative of gelu's tanh form at aux
  std::optional<Matrix> aux;      // of gelu: where its operand is stored as well; not transposed
  double alpha = 1, beta = 1;     // not 0: cuBLASLt does not read what it multiplies by 0
  bool gelu = false;              // f is gelu's tanh form
  bool relu = false;              // f is relu: max(x, 0), and 0 for NaN
  uint32_t alignment = 256;       // alignment of all matrices, in bytes: a power of two
  bool tf32 = false;              // operands of f32 may be rounded to tf32
  bool deterministic = false;     // only algorithms with one sequential sum: the same bits in every run
  std::optional<DType> second;    // of c, if different
  std::optional<DType> result;    // of y, bias and residual, if different
  // Scales of the sum: f32 on the device, one or both may be null. For f8 only.
  const void *aScale = nullptr, *bScale = nullptr;
  // The same for any dtype except f64: one f32 for both, then 0 and 1, all on the device; or null. In place of
  // alpha and beta, which are 1.
  struct DeviceScale {
    const void *scale = nullptr, *zero = nullptr, *one = nullptr;
  } deviceScale;
};

// A matrix product with its chosen algorithm, shared between copies.
class CublasPlan {
public:
  [[nodiscard]] size_t workspaceBytes() const;
  struct Impl;
  explicit CublasPlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] Impl& impl() const { return *impl_; }

private:
  std::shared_ptr<Impl> impl_;
};

// Thread-safe; one plan runs on one thread at a time.
class CublasLt {
public:
  // Error (Machine): the library is missing (with the package to install) or does not start.
  [[nodiscard]] static Result<CublasLt> open(const CudaDevice& device);
  // Error (Machine): no algorithm for these sizes and strides within `workspaceBytes`. `aux`: its address in one of
  // the runs, if there is an aux.
  [[nodiscard]] Result<CublasPlan> plan(const CublasGemm& gemm, void* aux = nullptr,
                                        size_t workspaceBytes = 32u << 20) const;
  struct Matrices {
    const void *a = nullptr, *b = nullptr, *residual = nullptr;
    void *y = nullptr, *aux = nullptr;
  };
  // Enqueued on the stream. Pointers are on the device; `workspace` has the plan's workspaceBytes, 256-byte
  // aligned.
  [[nodiscard]] Status run(const CublasPlan& plan, const Matrices& at, void* workspace,
                           const CudaStream& stream) const;

  struct Impl;

private:
  explicit CublasLt(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
