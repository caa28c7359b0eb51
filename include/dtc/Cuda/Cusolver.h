#pragma once
// Factorizations on the GPU by cuSOLVER, which is opened when the first one is planned: only where there is a
// GPU.
#include "dtc/Cuda/CudaDriver.h"
#include "dtc/Ops/linear_algebra/Factorization.h"
#include <memory>

namespace dtc {

// Used by one thread at a time.
class Cusolver {
public:
  [[nodiscard]] static std::string howToInstall();
  // Error (Machine): the library is missing (with the package to install) or does not start.
  [[nodiscard]] static Result<Cusolver> open(const CudaDevice& device);

  // The memory of one matrix, all on the device: `a` is factorized in place (of Eigen it becomes the vectors,
  // of Singular it is lost).
  struct Matrix {
    void* a = nullptr;
    void* pivots = nullptr;                              // Lu: k i64, counted from 1
    void* taus = nullptr;                                // Qr (result), Reflectors (operand)
    void *values = nullptr, *u = nullptr, *vh = nullptr; // Eigen, Singular
    void* info = nullptr;                                // i32
  };
  struct Workspace {
    size_t device = 0, host = 0; // bytes
  };
  // Error (Machine): sizes that the library does not support.
  [[nodiscard]] Result<Workspace> workspace(const Factorization& f) const;
  // Enqueued on the stream; may wait for it. `workspace` is 256-byte aligned, `host` may be reused when the
  // stream has been synchronized.
  [[nodiscard]] Status run(const Factorization& f, const Matrix& matrix, const Workspace& sizes,
                           void* workspace, void* host, const CudaStream& stream) const;

  struct Impl;

private:
  explicit Cusolver(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

} // namespace dtc
