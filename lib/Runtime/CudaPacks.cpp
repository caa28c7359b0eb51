#include "CudaPacks.h"

#include "CudaGemm.h"
#include "DeviceCollectives.h"

#include <algorithm>

namespace dtc {

// A row of the index of a loop is known to the host, which can start the product where it lies; it is copied where that costs the
// device less than starting the product outside of a graph costs the host (some microseconds). Reasoned, not measured.
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

// With the arguments of copyKernel.
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

Status convertBy(CudaPlaces& places, DType to, DType from, std::vector<CudaPack>& packs) {
  const SourceUnit unit = convertKernel(to, from);
  if (!places.has(unit.name))
    if (Status s = places.compile(unit); !s) return s;
  for (CudaPack& pack : packs) pack.kernel = unit.name;
  return Ok{};
}

// A tile of 64 x 64 bytes by 256 threads: each reads 16 bytes of a row, and writes 16 of a column. The rows of the tile are 17 words apart,
// so that the bytes of a column that a warp reads together lie in as many banks as they can.
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

Status copyBytesBy(CudaPlaces& places, std::vector<CudaPack>& packs) {
  const auto whole = [](int64_t n) { return n % 16 == 0; };
  for (CudaPack& p : packs) {
    p.tiled = p.rowStride == 1 && whole(p.rows) && whole(p.columns) && whole(p.columnStride) &&
              whole(static_cast<int64_t>(reinterpret_cast<uintptr_t>(p.from)));
    const SourceUnit unit = p.tiled ? transposeKernel() : copyKernel(DType::U8);
    if (!places.has(unit.name))
      if (Status s = places.compile(unit); !s) return s;
    p.kernel = unit.name;
  }
  return Ok{};
}

Status packOperands(CudaPlaces& places, const CudaRoom& room, PlacedGemm& g, bool rows,
                    std::vector<CudaPack>& packs) {
  for (const bool second : {false, true}) {
    const PlacedGemm::Axis &down = second ? g.k : g.m, &across = second ? g.n : g.k;
    PlacedGemm::Row& row = second ? g.bRow : g.aRow;
    const int64_t width = dtypeBytes(g.operandType(second)), bytes = denseElements(g, second) * width;
    const bool lies = second ? CudaGemm::takes(down.extent, across.extent, down.b, across.b)
                             : CudaGemm::takes(down.extent, across.extent, down.a, across.a);
    const bool copied = row.index && (rows || !row.trip || !lies || bytes <= kCopiedRow);
    if (g.k.extent == 0 || (lies && !copied)) continue;
    auto to = room(bytes);
    if (!to) return to.error();
    const DType bits = bitsOf(width);
    const SourceUnit unit = row.index ? lookupKernel(bits) : copyKernel(bits);
    if (!places.has(unit.name))
      if (Status s = places.compile(unit); !s) return s;
    for (CudaPack& pack : packsOf(g, second, *to, width)) {
      pack.row = row, pack.kernel = unit.name;
      packs.push_back(std::move(pack));
    }
    (second ? g.b : g.a) = *to;
    row = {};
  }
  return Ok{};
}

static Status runTiled(CudaPlaces& places, int64_t place, CudaPack& pack) {
  const int64_t tiles = (pack.columns + 63) / 64 * ((pack.rows + 63) / 64);
  int64_t numbers[] = {pack.columns, pack.rows, pack.columnStride, pack.toRowStride};
  std::vector<void*> arguments = {static_cast<void*>(&pack.to), static_cast<void*>(&pack.from)};
  for (int64_t& n : numbers) arguments.push_back(&n);
  return places.launch(place, pack.kernel, tiles * 256, arguments);
}

Status runPack(CudaPlaces& places, int64_t place, CudaPack pack) {
  if (pack.tiled) return runTiled(places, place, pack);
  int64_t numbers[] = {
      pack.rows * pack.columns, 1, pack.columns, pack.columnStride, pack.toColumnStride, pack.rowStride,
      pack.toRowStride};
  int64_t wide = pack.row.dtype == DType::I64, count = pack.row.rows, stride = pack.row.stride;
  std::vector<void*> arguments = {static_cast<void*>(&pack.to), static_cast<void*>(&pack.from)};
  if (pack.row.index)
    arguments.insert(arguments.end(), {static_cast<void*>(&pack.row.index), &wide, &count, &stride});
  for (int64_t& n : numbers) arguments.push_back(&n);
  return places.launch(place, pack.kernel, numbers[0], arguments);
}

} // namespace dtc
