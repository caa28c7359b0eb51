// The numbers that control flow reads, and how often loops run.
#include "program/Program.h"

#include <cstring>

namespace dtc {

Error tooManyIterations(int64_t maxIterations) {
  return inputError("it exceeds its max_trips, " + std::to_string(maxIterations));
}

Result<IterationRange> iterationRange(const ForStep& loop, int64_t lo, int64_t hi) {
  const int64_t count = hi - lo;
  if (count <= 0) return IterationRange{lo, 0};
  if (loop.maxIterations >= 0 && count > loop.maxIterations) return tooManyIterations(loop.maxIterations);
  if (loop.stacked >= 0 && count != loop.stacked)
    return inputError("it runs " + std::to_string(count) +
                      " iterations, but its stacked results have room for " + std::to_string(loop.stacked));
  return IterationRange{lo, count};
}

Result<int64_t> readNumber(Backend& backend, const Program& program, int64_t coordinate, int64_t offset,
                           DType dtype) {
  // Reads without a Tensor: steps must not allocate.
  std::byte bytes[4] = {};
  std::span<std::byte> wanted(bytes, dtype == DType::Bool ? 1 : 4);
  Status s = backend.read(coordinate, wanted, program.address(coordinate, offset));
  if (!s) return s.error();
  int32_t number = 0;
  std::memcpy(&number, bytes, sizeof number);
  return dtype == DType::Bool ? bytes[0] != std::byte{0} : number;
}

} // namespace dtc
