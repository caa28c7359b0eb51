#pragma once
// Convolutions and attention on the GPU by cuDNN, which is opened when the first one is planned: only where a GPU is.
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Support/DType.h"
#include <array>
#include <compare>
#include <memory>

namespace dtc {

// result[n, g o, p…] = sum over c and k of image[n, g c, stride p + dilation k - pad, …] * window[g o, c, k, …], 0 outside of the image, or
// the gradient of that for image or window. All three are dense and row-major, in `dtype` (f16 bf16 f32 f64); sums are in f32, for f64 in
// f64. f32 is not cut to tf32. Sizes are at least 1.
struct CudnnConv {
  enum Kind : uint8_t { Forward, Image, Window } kind = Forward; // what is made
  DType dtype = DType::F32;
  int64_t n = 1, groups = 1, c = 1, o = 1; // c and o: channels of a group
  struct Spatial {
    int64_t size = 1, length = 1, result = 1, stride = 1, dilation = 1, pad = 0;
  };
  std::vector<Spatial> spatial; // one to three
  bool bias = false;            // of what is made, one for each of its channels (not for a window)
  bool tf32 = false;            // operands of f32 may be cut to tf32
  bool deterministic = false;   // the same bits in every run
};

// softmax(scale q kT) v of [batch, heads, rows or keys, depth or width], or its gradient. Heads share keys in order: heads / keyHeads
// queries' heads each. Row i sees keys i - before … i + after, and at least one. Strides are in elements, of batch, head, row and column;
// those of Lse, Delta and WideDQ (f32, [batch, heads, rows], and as dq) are dense and row-major. Sizes are at least 1.
struct CudnnAttention {
  enum Tensor : uint8_t { Q, K, V, Y, Lse, DY, DQ, DK, DV, Delta, WideDQ, kTensors };
  bool gradient = false;     // dq, dk, dv from q, k, v, y, lse, dy; else y, and lse if asked for
  DType dtype = DType::BF16; // bf16 or f16, of all but what is f32
  int64_t batch = 1, heads = 1, keyHeads = 1, rows = 1, keys = 1, depth = 1, width = 1;
  std::array<std::array<int64_t, 4>, kTensors> strides = {};
  double scale = 1;
  static constexpr int64_t kAll = INT64_MAX; // a bound that there is not
  int64_t before = kAll, after = kAll;
  bool lse = false;
  bool deterministic = false; // the same bits in every run
  friend auto operator<=>(const CudnnAttention&, const CudnnAttention&) = default;
};

// Attention with its engine chosen. Copies share it, and so do equal ones of one library.
class CudnnAttentionPlan {
public:
  [[nodiscard]] size_t workspaceBytes() const;
  struct Impl;
  explicit CudnnAttentionPlan(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] Impl& impl() const { return *impl_; }

private:
  std::shared_ptr<Impl> impl_;
};

// A convolution with its algorithm chosen. Copies share it.
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
  // Is there a file of that name? Nothing is opened.
  [[nodiscard]] static bool found();
  [[nodiscard]] static std::string howToInstall();
  // Error (Machine): the library is missing or too old (says what to install) or does not start.
  [[nodiscard]] static Result<Cudnn> open(const CudaDevice& device);
  [[nodiscard]] std::string version() const; // "9.13.0"
  // Error (Machine): it has no algorithm for this that adds up products within `workspaceBytes`.
  [[nodiscard]] Result<CudnnPlan> plan(const CudnnConv& conv, size_t workspaceBytes) const;
  // In stream order. Pointers are of the device; `workspace` has the plan's workspaceBytes, 256-byte aligned.
  [[nodiscard]] Status run(const CudnnPlan& plan, void* image, void* window, void* result, const void* bias,
                           void* workspace, const CudaStream& stream) const;

  // Error (Machine): it has no engine for this within `workspaceBytes`, or is older than 9.11.
  [[nodiscard]] Result<CudnnAttentionPlan> plan(const CudnnAttention& attention, size_t workspaceBytes) const;
  // As above; `tensors` by CudnnAttention::Tensor, 16-byte aligned, null what there is not.
  [[nodiscard]] Status run(const CudnnAttentionPlan& plan,
                           const std::array<void*, CudnnAttention::kTensors>& tensors, void* workspace,
                           const CudaStream& stream) const;

  struct Impl;

private:
  explicit Cudnn(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
