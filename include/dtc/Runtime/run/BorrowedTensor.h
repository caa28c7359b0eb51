#pragma once
// A tensor in memory that belongs to someone else, for as long as a call.
#include "dtc/Support/DType.h"
#include <cstddef>
#include <span>

namespace dtc {

struct BorrowedTensor {
  std::byte* data = nullptr;
  DType dtype = DType::F32;
  std::span<const int64_t> shape = {};
  std::span<const int64_t> strides = {}; // in elements; empty: row-major
  bool onDevice = false;                 // in the memory of the backend's device, else of the host
  bool keep = false;                     // an argument: later runs may skip it
  bool skip = false;                     // an argument keeps the value that it has; a result is not copied
};

} // namespace dtc
