#pragma once
// A graph of operations for cuDNN's backend interface, and the plan of an engine for it. The status of the
// first failing call is kept; later calls do nothing.
#include "CudnnGraphTable.h"
#include "CudnnTable.h"
#include "dtc/Kernel/Problem.h"
#include "dtc/Support/NonCopyable.h"
#include <array>
#include <deque>
#include <span>
#include <vector>

namespace dtc {

// Dims and strides, in elements: dense where no strides are given.
struct CudnnLayout {
  std::vector<int64_t> dims = {1, 1, 1, 1}, strides = {};
  int type = kCudnnF32;
  int64_t alignment = 16; // of the address, in bytes
  [[nodiscard]] CudnnLayout dense() const;
  [[nodiscard]] CudnnLayout as(int dtype) const;
  // Transposes the last two dims; the same elements.
  [[nodiscard]] CudnnLayout transposed() const;
};

// A convolution's parameters along each spatial dim.
struct CudnnWindow {
  std::vector<int64_t> stride, dilation, before, after; // before, after: padding
};

class CudnnGraph : NonCopyable {
public:
  using Tensor = void*; // a descriptor; owned by the graph
  explicit CudnnGraph(const CudnnTable& table) : t_(table) {}
  ~CudnnGraph();

  // A tensor in memory; its address is pointers[number] of run().
  [[nodiscard]] Tensor memory(size_t number, const CudnnLayout& layout);
  // an intermediate value between operations, not in memory
  [[nodiscard]] Tensor between(const CudnnLayout& layout);
  [[nodiscard]] Tensor number(float value);
  [[nodiscard]] Tensor integer(int32_t value);

  // y = mode(x), mode(x, b), or a selection by `t` (bools): x where true, else b. Computed in `math`.
  void pointwise(int mode, Tensor x, Tensor y, Tensor b = nullptr, Tensor t = nullptr, int math = kCudnnF32);
  void index(Tensor like, Tensor y, int64_t dim); // the coordinate along a dim
  void reduce(int kind, Tensor x, Tensor y);      // along the dims where y has size 1
  void matmul(Tensor a, Tensor b, Tensor c);      // of the last two dims; accumulates in f32
  void reshape(Tensor x, Tensor y);
  // result = image * window (cross-correlation), or the image or window that is the gradient of that. Groups
  // are the ratio of the channels of image and window. Accumulates in `math`.
  void convolution(ConvKind kind, Tensor image, Tensor window, Tensor result, const CudnnWindow& along,
                   int math);

  // The first engine, in the order of cuDNN's estimate, that supports the graph within `workspaceBytes`, for
  // the handle's GPU, and has none of the numerical notes (a set of 1 << note). Returns a status.
  [[nodiscard]] int plan(void* handle, size_t workspaceBytes, uint32_t refusedNotes);
  [[nodiscard]] size_t workspaceBytes() const { return static_cast<size_t>(workspace_); }
  // Enqueued on the handle's stream. Returns a status.
  [[nodiscard]] int run(void* handle, std::span<void* const> pointers, void* workspace);

private:
  [[nodiscard]] void* create(int type);
  void set(void* descriptor, int attribute, int type, int64_t count, const void* values);
  void set(void* descriptor, int attribute, int type, int value) {
    set(descriptor, attribute, type, 1, &value);
  }
  void set(void* descriptor, int attribute, void* other) {
    set(descriptor, attribute, kCudnnTypeDescriptor, 1, &other);
  }
  void finalize(void* descriptor);
  void add(void* operation);
  [[nodiscard]] Tensor tensor(int64_t id, const CudnnLayout& layout, bool isVirtual, bool byValue);
  [[nodiscard]] uint32_t notesOf(void* config);
  [[nodiscard]] std::vector<void*> engines(void* graph, int mode);
  [[nodiscard]] int planWith(void* config, void* handle, size_t workspaceBytes);

  const CudnnTable& t_;
  int status_ = 0;
  int64_t nextVirtual_ = 1000; // above the ids of all tensors in memory
  int64_t workspace_ = 0;
  void* plan_ = nullptr;
  std::vector<void*> made_, operations_; // made_: all descriptors, to be destroyed
  std::vector<int64_t> ids_;             // of tensors in memory and scalars
  std::vector<size_t> numbers_;          // of tensors in memory, by id: the index of run()'s pointer
  std::deque<std::array<std::byte, 4>> values_;
  std::vector<int64_t> valueIds_;
};

} // namespace dtc
