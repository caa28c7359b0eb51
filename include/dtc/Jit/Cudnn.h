#pragma once
// Convolutions on the GPU by cuDNN, which is opened when the first one is planned: only where a GPU is.
#include "dtc/Jit/CudaDriver.h"
#include "dtc/Support/DType.h"
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

  struct Impl;

private:
  explicit Cudnn(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
