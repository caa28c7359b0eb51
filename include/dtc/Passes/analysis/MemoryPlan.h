#pragma once
// The buffers of a local function: their live ranges, sharing, and offsets.
#include "dtc/IR/Module.h"
#include "dtc/Support/Diagnostics.h"
#include <array>
#include <optional>
#include <unordered_map>

namespace dtc {

// The buffers of one function, for allocation, traces and reports.
struct MemoryPlan {
  struct Range {
    uint32_t first = 0, last = 0; // positions, inclusive
    friend bool operator==(const Range&, const Range&) = default;
  };
  struct Buffer {
    ValueId value; // the first value in the buffer
    int64_t bytes = 0, offset = 0;
    std::vector<Range> live; // ascending, disjoint
  };
  struct Held { // one value, in definition order
    ValueId value;
    uint32_t buffer = 0;
    Range live;
  };
  std::vector<Buffer> buffers;
  std::vector<Held> values;
  std::unordered_map<ValueId, uint32_t> bufferOf; // of every value with a buffer
  // the first and (with regions) the last position of an op
  std::unordered_map<OpId, std::array<uint32_t, 2>> position;
  uint32_t numPositions = 0;
  int64_t arenaBytes = 0;
  int64_t lowerBound = 0;    // max live bytes at one position, each buffer rounded up to kBufferAlignment
  uint32_t peakPosition = 0; // the first such position
};

// Sets lowerBound and peakPosition. False if the total size of the buffers exceeds 2^61-1 bytes.
[[nodiscard]] bool measureBuffers(MemoryPlan& plan);
// The max live bytes at one position: the memory that the function needs with this op order, whatever the
// offsets. Nothing, with diagnostics, if a size is not bound.
[[nodiscard]] std::optional<int64_t> memoryLowerBound(const Module& m, FuncId f, Diagnostics& diags);

inline constexpr int64_t kBufferAlignment = 64; // of every buffer, in bytes
// True if this fused region only reshapes its operand (the same bytes in the same order).
[[nodiscard]] bool isViewRegion(const Module& m, OpId op);
// True if this op is evaluated once, when the program is loaded (constants, device indices).
[[nodiscard]] bool isLoadTimeOp(const Module& m, OpId op);
// A result with {carry = true}, and the argument that it becomes in the next step.
struct CarriedResult {
  size_t result, argument;
};
[[nodiscard]] std::vector<CarriedResult> carriedResults(const Module& m,
                                                        FuncId f); // in the order of the results

// True if the kernel of a fused region may write this result over this operand, which is dead afterwards.
// Required: the region uses the operand only in elementwise ops of its shape, the result is one of them, and
// every result has that shape; a kernel then reads each element in the loop that stores it, before the store.
// Reductions and norms of the operand's rows are allowed if the result is the only one: they finish a row
// before its first element is stored.
[[nodiscard]] bool canWriteInPlace(const Module& m, OpId fused, uint32_t operand, uint32_t result);

} // namespace dtc
