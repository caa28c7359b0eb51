#pragma once
// CUDA kernels that go over a block of elements, in rows at one stride and slabs of rows at another, in each of their operands: what
// collectives combine, pack and unpack.
#include "dtc/Jit/Source.h"
#include "dtc/Support/DType.h"
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dtc {

// Strides in elements. All operands that are read have the same, and all that are written.
struct BlockShape {
  int64_t length = 0; // of a row, whose elements lie side by side
  int64_t rows = 1, sourceRow = 0, targetRow = 0;
  int64_t slabs = 1, sourceSlab = 0, targetSlab = 0;
  [[nodiscard]] int64_t elements() const { return slabs * rows * length; }
};

// One kernel: each element of its `targets` is made of the same element of each of its `sources`.
struct BlockKernel {
  std::string name;
  DType to = DType::U8, from = DType::U8;
  size_t targets = 1, sources = 1;
  // CUDA statements that make `y`, of type `to`, of x0, x1, ... (as dtc_load gives an element of `from`).
  std::string lines;

  // Elements that a thread takes where all operands are aligned to them: 16 bytes of the wider dtype, fewer where many operands would
  // not fit a thread's registers.
  [[nodiscard]] int64_t pack() const;
  // Parameters: the targets, the sources, and the numbers of BlockLaunch.
  [[nodiscard]] SourceUnit unit() const;
};

// The arguments of a block kernel behind its pointers, and how many threads it is launched with.
struct BlockLaunch {
  std::array<int64_t, 8> numbers{};
  int64_t threads = 0;
};
// `targets`, `sources`: where the block begins in each.
[[nodiscard]] BlockLaunch launchOf(const BlockKernel& kernel, const BlockShape& block,
                                   std::span<std::byte* const> targets,
                                   std::span<const std::byte* const> sources);

} // namespace dtc
