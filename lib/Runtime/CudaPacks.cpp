#include "CudaPacks.h"

#include <algorithm>

namespace dtc {

int64_t denseElements(const PlacedGemm& g, bool second) {
  int64_t n = (second ? g.k : g.m).extent * (second ? g.n : g.k).extent;
  for (const PlacedGemm::Axis& axis : g.batch)
    if ((second ? axis.b : axis.a) != 0) n *= axis.extent;
  return n;
}

std::vector<CudaPack> packsOf(PlacedGemm& g, bool second, std::byte* to, int64_t width) {
  PlacedGemm::Axis &rows = second ? g.k : g.m, &columns = second ? g.n : g.k;
  const auto stride = [second](PlacedGemm::Axis& axis) -> int64_t& { return second ? axis.b : axis.a; };
  const int64_t fromWidth = dtypeBytes(g.dtype), matrix = rows.extent * columns.extent;
  CudaPack first{second ? g.b : g.a,
                 nullptr,
                 rows.extent,
                 columns.extent,
                 stride(rows),
                 stride(columns),
                 columns.extent,
                 1,
                 {},
                 {}};
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
  CudaPack first{to, g.y, g.m.extent, g.n.extent, g.n.extent, 1, g.m.y, g.n.y, {}, {}};
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

std::string whyNotF8(const CudaDeviceInfo& gpu, const PlacedGemm& g) {
  if (gpu.major * 10 + gpu.minor < 89) return "this GPU has no tensor cores for them";
  const auto whole = [](int64_t n) { return n % 16 == 0; };
  const auto aligned = [](const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; };
  if (g.k.a != 1 || g.k.b != 1) return "the summed dim does not lie side by side in both operands";
  const bool fits = whole(g.m.extent) && whole(g.n.extent) && whole(g.k.extent) && whole(g.m.a) &&
                    whole(g.n.b) && aligned(g.a) && aligned(g.b) &&
                    std::all_of(g.batch.begin(), g.batch.end(),
                                [&](const auto& axis) { return whole(axis.a) && whole(axis.b); });
  return fits ? "" : "sizes and strides are no multiples of 16";
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

} // namespace dtc
