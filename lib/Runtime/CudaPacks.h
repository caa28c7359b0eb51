#pragma once
#include "CudaPlaces.h"
#include "dtc/Runtime/Backend.h"

#include <string>
#include <vector>

namespace dtc {

// A matrix that is copied by a kernel of its own before or after a product: because cuBLASLt does not take it as it lies, because which
// row of a stack it is stands in the device's memory, or to another dtype. Strides are in elements.
struct CudaPack {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t rows = 0, columns = 0, rowStride = 0, columnStride = 0;
  int64_t toRowStride = 0, toColumnStride = 1;
  PlacedGemm::Row row;
  std::string kernel; // convertBy's, lookupKernel or copyKernel
};

// Elements of one operand, each of its matrices once.
[[nodiscard]] int64_t denseElements(const PlacedGemm& g, bool second);
// All matrices of one operand, each with where its copy lies, in elements of `width` bytes: dense, one after the other, later batch axes
// faster. The product's strides become those of the copies.
[[nodiscard]] std::vector<CudaPack> packsOf(PlacedGemm& g, bool second, std::byte* to, int64_t width);

// Makes the result f32 at `to`, dense; what comes back copies it to where it was to be.
[[nodiscard]] std::vector<CudaPack> widenResult(PlacedGemm& g, std::byte* to);

// Why cuBLASLt would not take it as a product of f8, or nothing: it asks for sm_89 or later, the summed dim side by side in both operands
// ("TN"), and sizes and strides of whole 16 bytes.
[[nodiscard]] std::string whyNotF8(const CudaDeviceInfo& gpu, const PlacedGemm& g);

// Makes the kernel that copies elements to another float dtype, and all of `packs` its launches.
[[nodiscard]] Status convertBy(CudaPlaces& places, DType to, DType from, std::vector<CudaPack>& packs);

} // namespace dtc
