#pragma once
// Convolutions and attention on the GPU by cuDNN, which is opened when the first one is planned: only where
// there is a GPU.
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Kernel/Problem.h"
#include <array>
#include <compare>
#include <memory>

namespace dtc {

// All three tensors are contiguous and row-major, in `dtype` (f16 bf16 f32 f64). f32 is not rounded to tf32.
// Sizes are at least 1; the padding is the same at both ends.
struct CudnnConv : ConvProblem<int64_t> {
  bool bias = false;          // of the result, one per channel (not for a window)
  bool tf32 = false;          // operands of f32 may be rounded to tf32
  bool deterministic = false; // deterministic: the same bits in every run
};

// Row i attends to at least one key. Strides are of batch, head, row and column; those of Lse, Delta and WideDQ
// (f32, [batch, heads, rows], and as dq) are contiguous and row-major. Sizes are at least 1; the dtype is bf16 or
// f16.
struct CudnnAttention : AttentionProblem<int64_t> {
  enum Tensor : uint8_t { Q, K, V, Y, Lse, DY, DQ, DK, DV, Delta, WideDQ, kTensors };
  std::array<std::array<int64_t, 4>, kTensors> strides = {};
  bool lse = false;           // requested as a result
  bool deterministic = false; // deterministic: the same bits in every run
  friend auto operator<=>(const CudnnAttention&, const CudnnAttention&) = default;
};

// Attention with its chosen engine, shared between copies and between equal calls of one library.
class CudnnAttentionPlan {
public:
  [[nodiscard]] size_t workspaceBytes() const;
  struct Impl;
  explicit CudnnAttentionPlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] Impl& impl() const { return *impl_; }

private:
  std::shared_ptr<Impl> impl_;
};

// A convolution with its chosen algorithm, shared between copies.
class CudnnPlan {
public:
  [[nodiscard]] size_t workspaceBytes() const;
  struct Impl;
  explicit CudnnPlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] Impl& impl() const { return *impl_; }

private:
  std::shared_ptr<Impl> impl_;
};

// Used by one thread at a time.
class Cudnn {
public:
  // True if the library's file exists. Nothing is opened.
  [[nodiscard]] static bool found();
  [[nodiscard]] static std::string howToInstall();
  // Error (Machine): the library is missing or too old (with the package to install) or does not start.
  [[nodiscard]] static Result<Cudnn> open(const CudaDevice& device);
  [[nodiscard]] std::string version() const; // "9.13.0"
  // Error (Machine): no algorithm that accumulates directly within `workspaceBytes`.
  [[nodiscard]] Result<CudnnPlan> plan(const CudnnConv& conv, size_t workspaceBytes) const;
  // Enqueued on the stream. Pointers are on the device; `workspace` has the plan's workspaceBytes, 256-byte
  // aligned.
  [[nodiscard]] Status run(const CudnnPlan& plan, void* image, void* window, void* result, const void* bias,
                           void* workspace, const CudaStream& stream) const;

  // Error (Machine): no engine within `workspaceBytes`, or the version is older than 9.11.
  [[nodiscard]] Result<CudnnAttentionPlan> plan(const CudnnAttention& attention, size_t workspaceBytes) const;
  // As above; `tensors` by CudnnAttention::Tensor, 16-byte aligned, null for absent ones.
  [[nodiscard]] Status run(const CudnnAttentionPlan& plan,
                           const std::array<void*, CudnnAttention::kTensors>& tensors, void* workspace,
                           const CudaStream& stream) const;

  struct Impl;

private:
  explicit Cudnn(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
