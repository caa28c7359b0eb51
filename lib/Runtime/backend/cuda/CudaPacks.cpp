#include "backend/cuda/CudaPacks.h"

#include "backend/DeviceCollectives.h"
#include "backend/cuda/CudaGemm.h"

#include <algorithm>

namespace dtc {

// If the row index is a loop index, the host knows it and can launch the matmul without a copy. The row is
// copied if that costs the device less than launching the matmul outside of a graph costs the host (a few
// microseconds). An estimate.
static constexpr int64_t kCopiedRow = 4 << 20;

int64_t denseElements(const PlacedGemm& g, bool second) {
  int64_t n = (second ? g.k : g.m).extent * (second ? g.n : g.k).extent;
  for (const PlacedGemm::Axis& axis : g.batch)
    if ((second ? axis.b : axis.a) != 0) n *= axis.extent;
  return n;
}

std::vector<CudaPack> packsOf(PlacedGemm& g, bool second, std::byte* to, int64_t width, bool summed) {
  PlacedGemm::Axis& rows = !second ? g.m : summed ? g.n : g.k;
  PlacedGemm::Axis& columns = second && !summed ? g.n : g.k;
  const auto stride = [second](PlacedGemm::Axis& axis) -> int64_t& { return second ? axis.b : axis.a; };
  const int64_t fromWidth = dtypeBytes(g.operandType(second)), matrix = rows.extent * columns.extent;
  CudaPack first{second ? g.b : g.a,
                 nullptr,
                 rows.extent,
                 columns.extent,
                 stride(rows),
                 stride(columns),
                 columns.extent,
                 1,
                 {},
                 {},
                 false};
  std::vector<CudaPack> packs{std::move(first)};
  int64_t dense = matrix;
  for (size_t i = g.batch.size(); i-- > 0;) {
    if (stride(g.batch[i]) == 0) continue;
    const int64_t before = stride(g.batch[i]), count = static_cast<int64_t>(packs.size());
    for (int64_t k = 1; k < g.batch[i].extent; ++k)
      for (int64_t j = 0; j < count; ++j) {
        packs.push_back(packs[static_cast<size_t>(j)]);
        packs.back().from += k * before * fromWidth;
      }
    stride(g.batch[i]) = dense;
    dense *= g.batch[i].extent;
  }
  for (size_t i = 0; i < packs.size(); ++i) packs[i].to = to + static_cast<int64_t>(i) * matrix * width;
  stride(rows) = columns.extent, stride(columns) = 1;
  return packs;
}

std::vector<CudaPack> widenResult(PlacedGemm& g, std::byte* to) {
  const int64_t width = dtypeBytes(g.dtype), matrix = g.m.extent * g.n.extent;
  CudaPack first{to, g.y, g.m.extent, g.n.extent, g.n.extent, 1, g.m.y, g.n.y, {}, {}, false};
  std::vector<CudaPack> packs{std::move(first)};
  int64_t dense = matrix;
  for (size_t i = g.batch.size(); i-- > 0;) {
    const int64_t count = static_cast<int64_t>(packs.size());
    for (int64_t k = 1; k < g.batch[i].extent; ++k)
      for (int64_t j = 0; j < count; ++j) {
        packs.push_back(packs[static_cast<size_t>(j)]);
        packs.back().to += k * g.batch[i].y * width;
      }
    g.batch[i].y = dense;
    dense *= g.batch[i].extent;
  }
  for (size_t i = 0; i < packs.size(); ++i)
    packs[i].from = to + static_cast<int64_t>(i) * matrix * dtypeBytes(DType::F32);
  g.y = to;
  g.m.y = g.n.extent, g.n.y = 1;
  g.result = DType::F32;
  return packs;
}

// Has the arguments of copyKernel.
static SourceUnit convertKernel(DType to, DType from) {
  const std::string target(dtypeName(to)), source(dtypeName(from)), name = "dtc_" + source + "_to_" + target;
  return {name, "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(" + target + "* t, const " +
                    source +
                    "* s, long long n, long long length, long long rows, long long sourceRow, "
                    "long long targetRow, long long sourceSlab, long long targetSlab) {\n"
                    "  const i64 i = (i64)blockIdx.x * 256 + threadIdx.x;\n"
                    "  if (i >= n) return;\n"
                    "  const i64 row = i / length, column = i % length;\n"
                    "  const i64 from = row / rows * sourceSlab + row % rows * sourceRow + column;\n"
                    "  const i64 to = row / rows * targetSlab + row % rows * targetRow + column;\n"
                    "  dtc_store(t + to, dtc_load(s + from));\n"
                    "}\n"};
}

Status convertBy(CudaDeviceQueue& queue, DType to, DType from, std::vector<CudaPack>& packs) {
  const SourceUnit unit = convertKernel(to, from);
  if (!queue.has(unit.name))
    if (Status s = queue.compile(unit); !s) return s;
  for (CudaPack& pack : packs) pack.kernel = unit.name;
  return Ok{};
}

// A tile of 64 x 64 bytes per 256 threads: each reads 16 bytes of a row and writes 16 bytes of a column. Tile
// rows have a stride of 17 words to avoid bank conflicts of column reads.
static SourceUnit transposeKernel() {
  return {"dtc_transpose_bytes",
          "extern \"C\" __global__ void __launch_bounds__(256) dtc_transpose_bytes(u8* t, const u8* s, long "
          "long rows, "
          "long long columns, long long sourceRow, long long targetRow) {\n"
          "  __shared__ u32 tile[64 * 17];\n"
          "  const i64 across = (columns + 63) / 64;\n"
          "  const i64 top = (i64)blockIdx.x / across * 64, left = (i64)blockIdx.x % across * 64;\n"
          "  const int row = threadIdx.x / 4, part = threadIdx.x % 4 * 16;\n"
          "  if (top + row < rows && left + part < columns) {\n"
          "    const uint4 x = *(const uint4*)(s + (top + row) * sourceRow + left + part);\n"
          "    u32* to = tile + row * 17 + part / 4;\n"
          "    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;\n"
          "  }\n"
          "  __syncthreads();\n"
          "  if (left + row >= columns || top + part >= rows) return;\n"
          "  u32 word[4] = {0, 0, 0, 0};\n"
          "  for (int i = 0; i < 16; ++i)\n"
          "    word[i / 4] |= (tile[(part + i) * 17 + row / 4] >> row % 4 * 8 & 255u) << i % 4 * 8;\n"
          "  *(uint4*)(t + (left + row) * targetRow + top + part) = make_uint4(word[0], word[1], word[2], "
          "word[3]);\n"
          "}\n"};
}

Status copyBytesBy(CudaDeviceQueue& queue, std::vector<CudaPack>& packs) {
  const auto isMultipleOf16 = [](int64_t n) { return n % 16 == 0; };
  for (CudaPack& p : packs) {
    p.tiled = p.rowStride == 1 && isMultipleOf16(p.rows) && isMultipleOf16(p.columns) &&
              isMultipleOf16(p.columnStride) &&
              isMultipleOf16(static_cast<int64_t>(reinterpret_cast<uintptr_t>(p.from)));
    const SourceUnit unit = p.tiled ? transposeKernel() : copyKernel(DType::U8);
    if (!queue.has(unit.name))
      if (Status s = queue.compile(unit); !s) return s;
    p.kernel = unit.name;
  }
  return Ok{};
}

Status packOperands(CudaDeviceQueue& queue, const CudaRoom& room, PlacedGemm& g, bool rows,
                    std::vector<CudaPack>& packs) {
  for (const bool second : {false, true}) {
    const PlacedGemm::Axis &down = second ? g.k : g.m, &across = second ? g.n : g.k;
    PlacedGemm::Row& row = second ? g.bRow : g.aRow;
    const int64_t width = dtypeBytes(g.operandType(second)), bytes = denseElements(g, second) * width;
    const bool supported = second ? CudaGemm::takes(down.extent, across.extent, down.b, across.b)
                                  : CudaGemm::takes(down.extent, across.extent, down.a, across.a);
    const bool copied = row.index && (rows || !row.loopIndex || !supported || bytes <= kCopiedRow);
    if (g.k.extent == 0 || (supported && !copied)) continue;
    DTC_TRY(auto to, room(bytes));
    const DType bits = bitsOf(width);
    const SourceUnit unit = row.index ? lookupKernel(bits) : copyKernel(bits);
    if (!queue.has(unit.name))
      if (Status s = queue.compile(unit); !s) return s;
    for (CudaPack& pack : packsOf(g, second, to, width)) {
      pack.row = row, pack.kernel = unit.name;
      packs.push_back(std::move(pack));
    }
    (second ? g.b : g.a) = to;
    row = {};
  }
  return Ok{};
}

static Status runTiled(CudaDeviceQueue& queue, int64_t coordinate, CudaPack& pack) {
  const int64_t tiles = (pack.columns + 63) / 64 * ((pack.rows + 63) / 64);
  int64_t numbers[] = {pack.columns, pack.rows, pack.columnStride, pack.toRowStride};
  std::vector<void*> arguments = {static_cast<void*>(&pack.to), static_cast<void*>(&pack.from)};
  for (int64_t& n : numbers) arguments.push_back(&n);
  return queue.launch(coordinate, pack.kernel, tiles * 256, arguments);
}

Status runPack(CudaDeviceQueue& queue, int64_t coordinate, CudaPack pack) {
  if (pack.tiled) return runTiled(queue, coordinate, pack);
  int64_t numbers[] = {
      pack.rows * pack.columns, 1, pack.columns, pack.columnStride, pack.toColumnStride, pack.rowStride,
      pack.toRowStride};
  int64_t wide = pack.row.dtype == DType::I64, count = pack.row.rows, stride = pack.row.stride;
  std::vector<void*> arguments = {static_cast<void*>(&pack.to), static_cast<void*>(&pack.from)};
  if (pack.row.index)
    arguments.insert(arguments.end(), {static_cast<void*>(&pack.row.index), &wide, &count, &stride});
  for (int64_t& n : numbers) arguments.push_back(&n);
  return queue.launch(coordinate, pack.kernel, numbers[0], arguments);
}

std::vector<SourceUnit> cudaHelperKernels() {
  std::vector<SourceUnit> units = {transposeKernel()};
  for (const int64_t bytes : {1, 2, 4, 8}) {
    units.push_back(copyKernel(bitsOf(bytes)));
    units.push_back(lookupKernel(bitsOf(bytes)));
    units.push_back(stackKernel(bitsOf(bytes)));
  }
  return units;
}

} // namespace dtc
