#pragma once
// Convolutions and attention on the GPU by cuDNN, which is opened when the first one is planned: only where
// there is a GPU.
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Kernel/Problem.h"
#include <array>
#include <compare>
#include <memory>
#include <span>
#include <vector>

namespace dtc {

// A convolution of cuDNN, of two or three spatial dims. Sizes and strides are at least 1, in elements; the
// number of groups is the ratio of the channels of image and window. f32 is not rounded to tf32.
struct CudnnConv {
  enum Which : uint8_t { Image, Window, Result, Bias, kTensors };
  struct Tensor {
    std::vector<int64_t> dims, strides; // [n, channels, spatial…]; of the window [o, channels of a group, …]
    int64_t alignment = 16;             // of the address, in bytes
    friend auto operator<=>(const Tensor&, const Tensor&) = default;
  };
  ConvKind kind = ConvKind::Forward;
  DType dtype = DType::F32;                             // of all tensors
  std::array<Tensor, kTensors> tensors;                 // Bias: [1, channels, 1…], unused unless `bias`
  std::vector<int64_t> stride, dilation, before, after; // by spatial dim; before, after: padding
  bool bias = false;          // of what is computed, one per channel (not for a window)
  bool tf32 = false;          // operands of f32 may be rounded to tf32
  bool deterministic = false; // deterministic: the same bits in every run
  friend auto operator<=>(const CudnnConv&, const CudnnConv&) = default;
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

// A graph of operations with its chosen engine, shared between copies and between equal calls of one library.
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
  // Error (Machine): no engine that accumulates directly within `workspaceBytes`. An engine is compiled when
  // it is planned, which takes seconds: equal calls share the plan.
  [[nodiscard]] Result<CudnnPlan> plan(const CudnnConv& conv, size_t workspaceBytes) const;
  // Error (Machine): no engine within `workspaceBytes`, or the version is older than 9.11.
  [[nodiscard]] Result<CudnnPlan> plan(const CudnnAttention& attention, size_t workspaceBytes) const;
  // Enqueued on the stream. Pointers are on the device: `tensors` by CudnnConv::Which or
  // CudnnAttention::Tensor (16-byte aligned), null for absent ones; `workspace` has the plan's
  // workspaceBytes, 256-byte aligned.
  [[nodiscard]] Status run(const CudnnPlan& plan, std::span<void* const> tensors, void* workspace,
                           const CudaStream& stream) const;

  struct Impl;

private:
  explicit Cudnn(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
