#pragma once
// Elementwise CUDA kernels over strided blocks (rows and slabs of rows), used by collectives to combine, pack
// and unpack.
#include "dtc/Jit/Source.h"
#include "dtc/Support/DType.h"
#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace dtc {

// Strides in elements: one set for all sources, one for all targets.
struct BlockShape {
  int64_t length = 0; // of a row, which is contiguous
  int64_t rows = 1, sourceRow = 0, targetRow = 0;
  int64_t slabs = 1, sourceSlab = 0, targetSlab = 0;
  [[nodiscard]] int64_t elements() const { return slabs * rows * length; }
};

// One kernel: computes each element of its `targets` from the same element of its `sources`.
struct BlockKernel {
  std::string name;
  DType to = DType::U8, from = DType::U8;
  size_t targets = 1, sources = 1;
  // CUDA statements that define `y`, of type `to`, from x0, x1, ... (loaded by dtc_load from `from`).
  std::string lines;

  // Elements per thread if all operands are sufficiently aligned: 16 bytes of the wider dtype, fewer if many
  // operands would exceed a thread's registers.
  [[nodiscard]] int64_t pack() const;
  // Parameters: targets, sources, and the sizes of BlockLaunch.
  [[nodiscard]] SourceUnit unit() const;
};

// The arguments of a block kernel after its pointers, and its number of threads.
struct BlockLaunch {
  std::array<int64_t, 8> numbers{};
  int64_t threads = 0;
};
// `targets`, `sources`: the block's first element in each.
[[nodiscard]] BlockLaunch launchOf(const BlockKernel& kernel, const BlockShape& block,
                                   std::span<std::byte* const> targets,
                                   std::span<const std::byte* const> sources);

} // namespace dtc
