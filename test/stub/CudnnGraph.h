#pragma once
// Graphs of operations as the tests' libcudnn.so.9 keeps and computes them.
#include "../../lib/Cuda/CudnnGraphTable.h"
#include "../../lib/Cuda/CudnnTable.h"
#include "CudnnStub.h"

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace stub {

struct CudnnTensor {
  int64_t id = 0, alignment = 1;
  int type = -1;
  std::array<int64_t, 4> dims = {}, strides = {};
  bool isVirtual = false, byValue = false;
  [[nodiscard]] int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  [[nodiscard]] int64_t at(const std::array<int64_t, 4>& index) const {
    int64_t i = 0;
    for (size_t d = 0; d < 4; ++d) i += index[d] * strides[d];
    return i;
  }
  friend bool operator==(const CudnnTensor&, const CudnnTensor&) = default;
};

struct CudnnOperation {
  enum Kind : uint8_t { Pointwise, Matmul, Reduction, Reshape } kind = Pointwise;
  int mode = 0; // of Pointwise and Reduction
  int64_t axis = -1;
  std::optional<CudnnTensor> x, b, t, y; // of Matmul: A, B, none, C
};

// Is it a graph of attention, or of its gradient, as cuDNN's engines look for it? A status.
int checkCudnnGraph(std::span<const CudnnOperation> operations);
// Computes it: `at` is where the tensors of these ids are, numbers already read. "" or what went wrong.
struct CudnnPlace {
  int64_t id = 0;
  void* at = nullptr;
  double number = 0;
};
std::string runCudnnGraph(std::span<const CudnnOperation> operations, std::span<const CudnnPlace> places);

} // namespace stub
