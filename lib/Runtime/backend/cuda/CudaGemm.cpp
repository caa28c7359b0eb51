#include "backend/cuda/CudaGemm.h"

#include <algorithm>

namespace dtc {
// Describes a matrix by its row and column strides. Strides of dims of size 1 are ignored.
static std::optional<CublasGemm::Matrix> matrixOf(int64_t rows, int64_t columns, int64_t rowStride,
                                                  int64_t columnStride, int64_t batchStride) {
  if ((columnStride == 1 || columns == 1) && (rowStride >= columns || rows == 1))
    return CublasGemm::Matrix{std::max(rows == 1 ? columns : rowStride, columns), batchStride, false};
  if ((rowStride == 1 || rows == 1) && (columnStride >= rows || columns == 1))
    return CublasGemm::Matrix{std::max(columns == 1 ? rows : columnStride, rows), batchStride, true};
  return std::nullopt;
}

static Error unfit(const char* which) {
  return {Error::Bug, std::string("cuBLASLt is given a matmul whose ") + which + " has no dim of stride 1"};
}

// The transposed matmul: exchanges the operands and writes the transposed result to the same memory.
static PlacedGemm transposedGemm(const PlacedGemm& g) {
  PlacedGemm t = g;
  std::swap(t.a, t.b), std::swap(t.aRow, t.bRow);
  if (t.narrow)
    t.narrow->swapped = !t.narrow->swapped, std::swap(t.narrow->a, t.narrow->b),
    std::swap(t.narrow->aScale, t.narrow->bScale), std::swap(t.narrow->aScaled, t.narrow->bScaled);
  for (PlacedGemm::Axis& axis : t.batch) std::swap(axis.a, axis.b);
  t.m = {g.n.extent, g.n.b, g.n.a, g.n.y, g.n.residual, g.n.aux};
  t.n = {g.m.extent, g.m.b, g.m.a, g.m.y, g.m.residual, g.m.aux};
  std::swap(t.k.a, t.k.b);
  return t;
}

// Whether the result is column-major.
static bool isColumnMajor(const PlacedGemm& g) {
  return g.n.y != 1 && g.n.extent > 1 && (g.m.y == 1 || g.m.extent == 1);
}

bool CudaGemm::takes(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  return matrixOf(rows, columns, rowStride, columnStride, 0).has_value();
}

PlacedGemm CudaGemm::oriented(const PlacedGemm& g) { return isColumnMajor(g) ? transposedGemm(g) : g; }

// One call per index of all batch axes but the innermost.
void CudaGemm::makeCalls() {
  const PlacedGemm& g = gemm_;
  const int64_t width = dtypeBytes(g.dtype), made = dtypeBytes(g.result.value_or(g.dtype));
  const int64_t a = dtypeBytes(g.operandType(false)), b = dtypeBytes(g.operandType(true));
  calls_ = {{g.a, g.b, g.y, g.residual, g.aux}};
  for (size_t axis = 0; axis + 1 < g.batch.size(); ++axis) {
    std::vector<Call> wider;
    for (const Call& call : calls_)
      for (int64_t i = 0; i < g.batch[axis].extent; ++i)
        wider.push_back({call.a + i * g.batch[axis].a * a, call.b + i * g.batch[axis].b * b,
                         call.y + i * g.batch[axis].y * made,
                         call.residual ? call.residual + i * g.batch[axis].residual * width : nullptr,
                         call.aux ? call.aux + i * g.batch[axis].aux * width : nullptr});
    calls_ = std::move(wider);
  }
  DTC_CHECK(static_cast<int64_t>(calls_.size()) == libraryCalls(g),
            "a matmul has the calls that reports count");
}

uint32_t CudaGemm::alignment() const {
  uint64_t bits = 256; // the lowest set bit is the common alignment
  for (const Call& c : calls_)
    for (const std::byte* at :
         {c.a, c.b, static_cast<const std::byte*>(c.y), c.residual, static_cast<const std::byte*>(c.aux)})
      bits |= reinterpret_cast<uintptr_t>(at);
  bits |= static_cast<uint64_t>(gemm_.aRow.stride * dtypeBytes(gemm_.operandType(false))) |
          static_cast<uint64_t>(gemm_.bRow.stride * dtypeBytes(gemm_.operandType(true)));
  return static_cast<uint32_t>(bits & (~bits + 1));
}

Result<CudaGemm> CudaGemm::plan(const CublasLt& library, const CudaDevice& device, const PlacedGemm& given,
                                bool deterministic, bool tf32, const CublasGemm::DeviceScale& scale) {
  const PlacedGemm g = oriented(given);
  if (isColumnMajor(given) && (given.bias || given.residual || given.aux))
    return Error{Error::Bug, "cuBLASLt is given a matmul with an epilogue and a column-major result"};
  CudaGemm out;
  out.gemm_ = g;
  out.makeCalls();
  if (g.k.extent == 0 && given.plain) return machineError("cuBLASLt does not support k = 0");
  const PlacedGemm::Axis batch = g.batch.empty() ? PlacedGemm::Axis{.extent = 1} : g.batch.back();
  auto y = matrixOf(g.m.extent, g.n.extent, g.m.y, g.n.y, batch.y);
  if (!y || y->transposed) return unfit("row-major result");
  if (g.k.extent == 0) return out;
  CublasGemm gemm{g.operandType(false), batch.extent, g.m.extent, g.n.extent, g.k.extent, {}, {}, {}};
  auto a = matrixOf(g.m.extent, g.k.extent, g.m.a, g.k.a, batch.a);
  auto b = matrixOf(g.k.extent, g.n.extent, g.k.b, g.n.b, batch.b);
  if (!a) return unfit("first operand");
  if (!b) return unfit("second operand");
  gemm.a = *a, gemm.b = *b, gemm.y = *y;
  gemm.result = g.narrow ? g.dtype : g.result;
  if (g.narrow) gemm.second = g.narrow->b, gemm.aScale = g.narrow->aScale, gemm.bScale = g.narrow->bScale;
  gemm.deviceScale = scale;
  gemm.alpha = g.alpha, gemm.beta = g.beta;
  gemm.bias = g.bias;
  gemm.gelu = g.activation == GemmActivation::GeluTanh;
  gemm.relu = g.activation == GemmActivation::Relu;
  gemm.geluGradient = g.activation == GemmActivation::GeluTanhGradient;
  gemm.deterministic = deterministic;
  gemm.tf32 = tf32;
  gemm.alignment = out.alignment();
  if (g.residual) {
    gemm.residual = matrixOf(g.m.extent, g.n.extent, g.m.residual, g.n.residual, batch.residual);
    if (!gemm.residual || gemm.residual->transposed) return unfit("row-major residual");
  }
  if (g.aux) {
    gemm.aux = matrixOf(g.m.extent, g.n.extent, g.m.aux, g.n.aux, batch.aux);
    if (!gemm.aux || gemm.aux->transposed) return unfit("row-major aux");
  }
  if (g.bias && g.biasStride == 0 && g.n.extent > 1) {
    DTC_TRY(auto bias, device.allocate(static_cast<size_t>(g.n.extent * dtypeBytes(g.dtype))));
    out.bias_ = bias;
    gemm.bias = bias.get;
  }
  DTC_TRY(auto plan, library.plan(gemm, out.calls_[0].aux));
  out.plan_.push_back(plan);
  return out;
}

// Repeats the first `done` bytes by doubling, in about log2(bytes / done) copies.
static Status repeat(const CudaDevice& device, const CudaStream& stream, std::byte* to, size_t done,
                     size_t bytes) {
  for (; done < bytes; done *= 2)
    if (auto s = device.copy(to + done, to, std::min(done, bytes - done), stream); !s) return s;
  return Ok{};
}

// Broadcasts the bias.
Status CudaGemm::spreadBias(const CudaDevice& device, const CudaStream& stream) const {
  const auto width = static_cast<size_t>(dtypeBytes(gemm_.dtype));
  auto* to = static_cast<std::byte*>(bias_.get);
  if (auto s = device.copy(to, gemm_.bias, width, stream); !s) return s;
  return repeat(device, stream, to, width, bias_.bytes);
}

// k = 0: every element is the bias, or 0. Rows are contiguous; y may consist of several runs of them.
Status CudaGemm::fillEmpty(const CudaDevice& device, const CudaStream& stream) const {
  const PlacedGemm& g = gemm_;
  const auto width = static_cast<size_t>(dtypeBytes(g.result.value_or(g.dtype)));
  const auto n = static_cast<size_t>(g.n.extent), row = n * width;
  const bool together = g.m.y == g.n.extent;
  const PlacedGemm::Axis batch = g.batch.empty() ? PlacedGemm::Axis{.extent = 1} : g.batch.back();
  const int64_t runs = together ? 1 : g.m.extent;
  const size_t bytes = together ? static_cast<size_t>(g.m.extent) * row : row;
  for (const Call& call : calls_)
    for (int64_t i = 0; i < batch.extent * runs; ++i) {
      std::byte* to = call.y + (i / runs * batch.y + i % runs * g.m.y) * static_cast<int64_t>(width);
      if (!g.bias) {
        if (auto s = device.fill(to, 0, bytes, stream); !s) return s;
        continue;
      }
      const size_t given = g.biasStride == 1 ? row : width;
      if (auto s = device.copy(to, g.bias, given, stream); !s) return s;
      if (auto s = repeat(device, stream, to, given, bytes); !s) return s;
    }
  return Ok{};
}

Status CudaGemm::run(const CublasLt& library, const CudaDevice& device, const CudaStream& stream,
                     std::optional<int64_t> aRow, std::optional<int64_t> bRow, void* workspace) const {
  if (plan_.empty() || !aRow || !bRow) return fillEmpty(device, stream);
  if (bias_.get)
    if (auto s = spreadBias(device, stream); !s) return s;
  for (const Call& call : calls_)
    if (auto s = library.run(plan_.front(), {call.a + *aRow, call.b + *bRow, call.residual, call.y, call.aux},
                             workspace, stream);
        !s)
      return s;
  return Ok{};
}

} // namespace dtc
