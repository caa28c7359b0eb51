#pragma once
// Tensors in memory that belongs to someone else, for as long as a call.
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
  bool skip = false;                     // an argument keeps the value that it has; a result is not written
};

// The tensors of one run.
struct Borrowing {
  // A whole tensor for each argument; with `argumentShards` one for each argument and device: first all
  // devices' shards of argument 0. Read during the run.
  std::span<const BorrowedTensor> arguments;
  bool argumentShards = false;
  // Likewise the results, written during the run. Empty: none is wanted.
  std::span<const BorrowedTensor> results;
  bool resultShards = false;
};

} // namespace dtc
