#pragma once
// The arithmetic of collectives in host memory: reductions in member order, and copies of strided blocks.
#include "dtc/Runtime/comm/Collective.h"
#include <cstring>
#include <span>

namespace dtc {

// The operands of a reduction, all read from the same byte offset. Not a vector: steps must not allocate.
struct ReductionSources {
  std::span<const std::byte* const> operands;
  std::span<const BlockCopy> blocks; // empty: all operands in order; else the operand of each block's sender
  int64_t offset = 0;
  [[nodiscard]] size_t size() const { return blocks.empty() ? operands.size() : blocks.size(); }
  const std::byte* operator[](size_t i) const {
    return operands[blocks.empty() ? i : blocks[i].from] + offset;
  }
};

// The targets of a reduction, all written from the same byte offset.
struct ReductionTargets {
  std::span<std::byte* const> results;
  int64_t offset = 0;
  // `write` computes a block in the first target; the others copy it from the cache.
  template <class Fn> void put(int64_t at, int64_t bytes, Fn&& write) const {
    std::byte* first = results[0] + offset + at;
    write(first);
    for (size_t i = 1; i < results.size(); ++i)
      std::memcpy(results[i] + offset + at, first, static_cast<size_t>(bytes));
  }
};

// Combines `n` elements of the sources in their order. Floats of up to 32 bits accumulate in f32; integers in 64 bits,
// which wraps to the same bits as their own width.
void reduceElements(const CollectivePlan& plan, const ReductionSources& sources,
                    const ReductionTargets& targets, int64_t n);
// Copies a row of a block, rounded to the communication dtype.
void copyRow(const CollectivePlan& plan, const BlockCopy& block, const std::byte* source, std::byte* target);

// Calls fn(offset in source, offset in target) in bytes for each contiguous row of a block.
template <class Fn> void forEachRow(const BlockCopy& c, int64_t width, Fn&& fn) {
  for (int64_t s = 0; s < c.slabs; ++s)
    for (int64_t r = 0; r < c.rows; ++r)
      fn((c.source + s * c.sourceSlab + r * c.sourceRow) * width,
         (c.target + s * c.targetSlab + r * c.targetRow) * width);
}

} // namespace dtc
