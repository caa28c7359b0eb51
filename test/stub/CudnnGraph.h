#pragma once
// Graphs of operations as the tests' libcudnn.so.9 keeps and computes them.
#include "../../lib/Cuda/CudnnGraphTable.h"
#include "../../lib/Cuda/CudnnTable.h"
#include "CudnnStub.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace stub {

// Of an element, by dim; and the elements of dense tensors in order.
using Index = std::vector<int64_t>;
[[nodiscard]] inline bool next(Index& index, const Index& dims) { // false after the last
  for (size_t d = dims.size(); d-- > 0;) {
    if (++index[d] < dims[d]) return true;
    index[d] = 0;
  }
  return false;
}
[[nodiscard]] inline int64_t dense(const Index& index, const Index& dims) {
  int64_t i = 0;
  for (size_t d = 0; d < dims.size(); ++d) i = i * dims[d] + index[d];
  return i;
}

struct CudnnTensor {
  int64_t id = 0, alignment = 1;
  int type = -1;
  std::vector<int64_t> dims, strides;
  bool isVirtual = false, byValue = false;
  [[nodiscard]] int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
  [[nodiscard]] int64_t at(const std::vector<int64_t>& index) const {
    int64_t i = 0;
    for (size_t d = 0; d < dims.size(); ++d) i += index[d] * strides[d];
    return i;
  }
  [[nodiscard]] int64_t last() const { // offset of the last element
    int64_t i = 0;
    for (size_t d = 0; d < dims.size(); ++d) i += (dims[d] - 1) * strides[d];
    return i;
  }
  friend bool operator==(const CudnnTensor&, const CudnnTensor&) = default;
};

struct CudnnOperation {
  enum Kind : uint8_t { Pointwise, Matmul, Reduction, Reshape, Convolution } kind = Pointwise;
  int mode = 0; // of Pointwise and Reduction; of Convolution the descriptor's type
  int64_t axis = -1;
  std::optional<CudnnTensor> x, b, t, y;                // of Matmul: A, B, none, C; y: what is computed
  std::vector<int64_t> stride, dilation, before, after; // of Convolution
  bool tf32 = false;                                    // of Convolution: the engine rounds f32
  [[nodiscard]] const CudnnTensor& image() const { return mode == dtc::kCudnnConvImageOp ? *y : *x; }
  [[nodiscard]] const CudnnTensor& window() const { return mode == dtc::kCudnnConvWindowOp ? *y : *b; }
  [[nodiscard]] const CudnnTensor& result() const {
    return mode == dtc::kCudnnConvOp ? *y : mode == dtc::kCudnnConvImageOp ? *x : *b;
  }
};

// Does the convolution's geometry fit its tensors? A status.
int checkConvolution(const CudnnOperation& op, int math);
// Is it a graph of a convolution, with a bias or without, that an engine takes? A status.
int checkConvolutionGraph(std::span<const CudnnOperation> operations);
void runConvolution(const CudnnOperation& op, const std::vector<double>& a, const std::vector<double>& b,
                    std::vector<double>& y);

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
