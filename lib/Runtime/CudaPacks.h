#pragma once
#include "CudaPlaces.h"
#include "dtc/Runtime/Backend.h"

#include <functional>
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
  std::string kernel; // convertBy's, lookupKernel, copyKernel or transposeKernel
  bool tiled = false; // it is transposeKernel
};

// Elements of one operand, each of its matrices once.
[[nodiscard]] int64_t denseElements(const PlacedGemm& g, bool second);
// All matrices of one operand, each with where its copy lies, in elements of `width` bytes: dense, one after the other, later batch axes
// faster. Their rows lie side by side; `summed`: along k, as f8 is taken. The product's strides become those of the copies.
[[nodiscard]] std::vector<CudaPack> packsOf(PlacedGemm& g, bool second, std::byte* to, int64_t width,
                                            bool summed = false);

// Memory of a place for as long as the program is loaded, of so many bytes.
using CudaRoom = std::function<Result<std::byte*>(int64_t)>;
// Gives an operand that cuBLASLt does not take dense memory of its own, and the copies into it: one for each of the operand's matrices.
// `rows`: each operand whose row is looked up, too.
[[nodiscard]] Status packOperands(CudaPlaces& places, const CudaRoom& room, PlacedGemm& g, bool rows,
                                  std::vector<CudaPack>& packs);
// Starts a copy on the place's stream.
[[nodiscard]] Status runPack(CudaPlaces& places, int64_t place, CudaPack pack);

// Makes the result f32 at `to`, dense; what comes back copies it to where it was to be.
[[nodiscard]] std::vector<CudaPack> widenResult(PlacedGemm& g, std::byte* to);

// Makes the kernel that copies elements to another float dtype, and all of `packs` its launches.
[[nodiscard]] Status convertBy(CudaPlaces& places, DType to, DType from, std::vector<CudaPack>& packs);
// The same of one that copies bytes: in tiles by way of shared memory where a matrix is transposed.
[[nodiscard]] Status copyBytesBy(CudaPlaces& places, std::vector<CudaPack>& packs);

} // namespace dtc
