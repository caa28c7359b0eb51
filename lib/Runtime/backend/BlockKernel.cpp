#include "backend/BlockKernel.h"

#include <algorithm>

namespace dtc {
constexpr int64_t kThreadBytes = 256; // of operands held by a thread at a time: 64 registers

// Merges rows, and slabs, that are contiguous in all operands.
static BlockShape merged(BlockShape b) {
  if (b.rows == 1) b.rows = b.slabs, b.sourceRow = b.sourceSlab, b.targetRow = b.targetSlab, b.slabs = 1;
  if (b.slabs > 1 && b.sourceSlab == b.rows * b.sourceRow && b.targetSlab == b.rows * b.targetRow)
    b.rows *= b.slabs, b.slabs = 1;
  if (b.rows > 1 && b.sourceRow == b.length && b.targetRow == b.length) {
    b.length *= b.rows;
    b.rows = b.slabs, b.sourceRow = b.sourceSlab, b.targetRow = b.targetSlab, b.slabs = 1;
  }
  if (b.rows == 1) b.sourceRow = b.targetRow = 0;
  if (b.slabs == 1) b.sourceSlab = b.targetSlab = 0;
  return b;
}

static bool isAligned(const std::byte* at, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(bytes) == 0;
}

int64_t BlockKernel::pack() const {
  const int64_t width = std::max(dtypeBytes(to), dtypeBytes(from));
  int64_t pack = 16 / width;
  while (pack > 1 && static_cast<int64_t>(sources) * pack * width > kThreadBytes) pack /= 2;
  return pack;
}

// The loads of one element of each source, followed by `lines`.
static std::string elementText(const BlockKernel& kernel, const std::string& before,
                               const std::string& after) {
  std::string text;
  for (size_t k = 0; k < kernel.sources; ++k)
    text += "    auto x" + std::to_string(k) + " = dtc_load(" + before + std::to_string(k) + after + ");\n";
  return text + kernel.lines;
}

SourceUnit BlockKernel::unit() const {
  const std::string target(dtypeName(to)), source(dtypeName(from)), n = std::to_string(pack());
  std::string text = "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(";
  for (size_t k = 0; k < targets; ++k) text += target + "* t" + std::to_string(k) + ", ";
  for (size_t k = 0; k < sources; ++k) text += "const " + source + "* s" + std::to_string(k) + ", ";
  text += "i64 n, i64 length, i64 rows, i64 sourceRow, i64 targetRow, i64 sourceSlab, i64 targetSlab, i64 "
          "wide) {\n"
          "  const i64 i = ((i64)blockIdx.x * 256 + threadIdx.x) * wide;\n"
          "  if (i >= n) return;\n"
          "  const i64 row = dtc_quotient(i, length, n), column = i - row * length;\n"
          "  const i64 slab = dtc_quotient(row, rows, n), line = row - slab * rows;\n"
          "  const i64 from = slab * sourceSlab + line * sourceRow + column;\n"
          "  const i64 to = slab * targetSlab + line * targetRow + column;\n";
  if (pack() > 1) {
    text += "  if (wide > 1 && n - i >= wide) {\n";
    for (size_t k = 0; k < sources; ++k) {
      const std::string number = std::to_string(k);
      text += "  const auto p" + number + " = dtc_load_pack<" + n + ">(s" + number + " + from);\n";
    }
    text += "  dtc_pack<" + target + ", " + n + "> made;\n#pragma unroll\n  for (i32 lane = 0; lane < " + n +
            "; ++lane) {\n" + elementText(*this, "p", ".at + lane") +
            "    dtc_store(made.at + lane, y);\n  }\n";
    for (size_t k = 0; k < targets; ++k) text += "  dtc_store_pack(t" + std::to_string(k) + " + to, made);\n";
    text += "  return;\n  }\n";
  }
  text += "  for (i64 lane = 0; lane < wide && lane < n - i; ++lane) {\n" +
          elementText(*this, "s", " + from + lane");
  for (size_t k = 0; k < targets; ++k) text += "    dtc_store(t" + std::to_string(k) + " + to + lane, y);\n";
  return {name, text + "  }\n}\n"};
}

BlockLaunch launchOf(const BlockKernel& kernel, const BlockShape& block, std::span<std::byte* const> targets,
                     std::span<const std::byte* const> sources) {
  const BlockShape b = merged(block);
  const int64_t pack = kernel.pack();
  const auto allAligned = [&](const auto& addresses, DType dtype) {
    return std::all_of(addresses.begin(), addresses.end(),
                       [&](const std::byte* at) { return isAligned(at, pack * dtypeBytes(dtype)); });
  };
  // A partial pack at the end is processed by element; inside the block it would extend into the next row.
  const bool divisible =
      b.rows * b.slabs == 1 || (b.length % pack == 0 && b.sourceRow % pack == 0 && b.targetRow % pack == 0 &&
                                b.sourceSlab % pack == 0 && b.targetSlab % pack == 0);
  const int64_t wide =
      divisible && allAligned(targets, kernel.to) && allAligned(sources, kernel.from) ? pack : 1;
  return {{b.elements(), b.length, b.rows, b.sourceRow, b.targetRow, b.sourceSlab, b.targetSlab, wide},
          (b.elements() + wide - 1) / wide};
}

} // namespace dtc
