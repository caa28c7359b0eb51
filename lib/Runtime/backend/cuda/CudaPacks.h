#pragma once
#include "backend/cuda/CudaDeviceQueue.h"
#include "dtc/Runtime/backend/Backend.h"

#include <functional>
#include <string>
#include <vector>

namespace dtc {

// A matrix copied by a kernel before or after a matmul: because cuBLASLt does not support its strides,
// because its row index is in device memory, or to convert its dtype. Strides are in elements.
struct CudaPack {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t rows = 0, columns = 0, rowStride = 0, columnStride = 0;
  int64_t toRowStride = 0, toColumnStride = 1;
  PlacedGemm::Row row;
  std::string kernel; // of convertBy(), lookupKernel, copyKernel or transposeKernel
  bool tiled = false; // uses transposeKernel
};

// Elements of one operand, counting each distinct matrix once.
[[nodiscard]] int64_t denseElements(const PlacedGemm& g, bool second);
// All matrices of one operand with the offsets of their copies, in elements of `width` bytes: contiguous, in
// batch order. Copies are row-major; with `summed`, contiguous along k, as f8 requires. Updates the matmul's
// strides to the copies'.
[[nodiscard]] std::vector<CudaPack> packsOf(PlacedGemm& g, bool second, std::byte* to, int64_t width,
                                            bool summed = false);

// Allocates device memory for the lifetime of the program.
using CudaRoom = std::function<Result<std::byte*>(int64_t)>;
// Adds contiguous copies of operands that cuBLASLt does not support: one copy per matrix of the operand.
// `rows`: also of operands with a row index.
[[nodiscard]] Status packOperands(CudaDeviceQueue& queue, const CudaRoom& room, PlacedGemm& g, bool rows,
                                  std::vector<CudaPack>& packs);
// Enqueues a copy on the device's stream.
[[nodiscard]] Status runPack(CudaDeviceQueue& queue, int64_t coordinate, CudaPack pack);

// Redirects the result to `to`, contiguous f32; returns the copy to the original result.
[[nodiscard]] std::vector<CudaPack> widenResult(PlacedGemm& g, std::byte* to);

// Creates the kernel that converts to another float dtype, and makes all `packs` use it.
[[nodiscard]] Status convertBy(CudaDeviceQueue& queue, DType to, DType from, std::vector<CudaPack>& packs);
// The same with a bytewise copy, tiled through shared memory if the matrix is transposed.
[[nodiscard]] Status copyBytesBy(CudaDeviceQueue& queue, std::vector<CudaPack>& packs);

} // namespace dtc
