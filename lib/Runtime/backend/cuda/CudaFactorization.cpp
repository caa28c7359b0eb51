#include "backend/cuda/CudaFactorization.h"

namespace dtc {
namespace {

using Kind = FactorizationKind;

// One thread per matrix: the pivots counted from 0, and the rows that they permute.
const SourceUnit kRows = {"dtc_lu_rows", R"(
extern "C" __global__ void __launch_bounds__(256) dtc_lu_rows(int* pivots, int* rows, const long long* found,
                                                              long long n, long long k, long long m) {
  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  for (long long j = 0; j < m; ++j) rows[i * m + j] = (int)j;
  for (long long j = 0; j < k; ++j) {
    const int p = (int)found[i * k + j] - 1, row = rows[i * m + j];
    pivots[i * k + j] = p;
    rows[i * m + j] = rows[i * m + p];
    rows[i * m + p] = row;
  }
}
)"};

// NaN where the matrix of an element has failed.
SourceUnit nanKernel(bool wide) {
  const std::string type = wide ? "double" : "float", name = "dtc_nan_where_failed_" + type;
  return {name, "extern \"C\" __global__ void __launch_bounds__(256) " + name + "(" + type +
                    "* to, const int* info, long long n, long long each) {\n"
                    "  const long long i = (long long)blockIdx.x * 256 + threadIdx.x;\n"
                    "  if (i < n && info[i / each] != 0) to[i] = (" +
                    type + ")__builtin_nanf(\"\");\n}\n"};
}

bool isSpectrum(const Factorization& f) { return f.kind == Kind::Eigen || f.kind == Kind::Singular; }

} // namespace

std::byte* CudaFactorization::part(size_t buffer, int64_t matrix) const {
  const size_t operands = f_.what.numOperands();
  return f_.buffers[buffer] +
         matrix * (buffer < operands ? f_.what.operandBytes(buffer) : f_.what.resultBytes(buffer - operands));
}

Result<CudaFactorization> CudaFactorization::plan(const Cusolver& library, CudaDeviceQueue& queue,
                                                  const PlacedFactorization& f) {
  CudaFactorization out;
  out.f_ = f;
  if (f.what.count() > 0) {
    DTC_TRY(auto sizes, library.workspace(f.what));
    out.sizes_ = sizes;
    out.host_.resize(sizes.host);
  }
  // The workspace comes first, so that it has the alignment of the scratch.
  out.copy_ = alignedBytes(out.sizes_.device);
  out.pivots_ = out.copy_ + alignedBytes(static_cast<size_t>(f.what.operandBytes(0)));
  out.info_ = out.pivots_ + alignedBytes(static_cast<size_t>(8 * f.batch * f.what.count()));
  out.scratchBytes_ = out.info_ + alignedBytes(static_cast<size_t>(4 * f.batch));
  for (const SourceUnit& unit : factorizationKernels(f.what))
    if (!queue.has(unit.name))
      if (Status s = queue.compile(unit); !s) return s.error();
  return out;
}

Status CudaFactorization::each(const Cusolver& library, const CudaDevice& device, const CudaStream& stream,
                               std::byte* scratch) {
  const Factorization& w = f_.what;
  const size_t out = w.numOperands();
  std::byte* infos = w.kind == Kind::Lu ? part(4, 0) : scratch + info_;
  if (Status s = device.fill(infos, 0, static_cast<size_t>(4 * f_.batch), stream); !s) return s;
  for (int64_t i = 0; i < f_.batch; ++i) {
    Cusolver::Matrix x;
    x.info = infos + 4 * i;
    x.pivots = scratch + pivots_ + 8 * i * w.count();
    x.a = part(out, i);
    if (w.kind == Kind::Qr) x.taus = part(2, i);
    if (w.kind == Kind::Reflectors) x.taus = part(1, i);
    if (isSpectrum(w)) {
      x.a = w.kind == Kind::Eigen && w.vectors ? part(2, i) : scratch + copy_;
      x.values = part(1, i);
      if (w.kind == Kind::Singular && w.vectors) x.u = part(2, i), x.vh = part(3, i);
    }
    if (Status s = device.copy(x.a, part(0, i), static_cast<size_t>(w.operandBytes(0)), stream); !s) return s;
    if (w.count() == 0) continue;
    if (Status s = library.run(w, x, sizes_, scratch, host_.data(), stream); !s) return s;
  }
  return Ok{};
}

Status CudaFactorization::run(const Cusolver& library, CudaDeviceQueue& queue, int64_t coordinate,
                              void* scratch) {
  auto* room = static_cast<std::byte*>(scratch);
  const Factorization& w = f_.what;
  const auto work = [&](const CudaDevice& d, const CudaStream& s) { return each(library, d, s, room); };
  if (Status s = queue.start(coordinate, work); !s) return s;
  const auto launch = [&](const std::string& kernel, std::vector<void*> pointers,
                          std::vector<int64_t> numbers) {
    std::vector<void*> arguments;
    for (void*& p : pointers) arguments.push_back(static_cast<void*>(&p));
    for (int64_t& n : numbers) arguments.push_back(&n);
    return numbers[0] == 0 ? Status(Ok{}) : queue.launch(coordinate, kernel, numbers[0], arguments);
  };
  if (w.kind == Kind::Lu)
    return launch(kRows.name, {f_.buffers[2], f_.buffers[3], room + pivots_}, {f_.batch, w.count(), w.rows});
  if (!isSpectrum(w)) return Ok{};
  const bool wide = partType(w.dtype) == DType::F64;
  for (size_t r = 0; r < w.numResults(); ++r) {
    const int64_t each = w.resultBytes(r) / (wide ? 8 : 4);
    if (Status s = launch(nanKernel(wide).name, {f_.buffers[1 + r], room + info_}, {f_.batch * each, each});
        !s)
      return s;
  }
  return Ok{};
}

std::vector<SourceUnit> factorizationKernels(const Factorization& what) {
  if (isSpectrum(what)) return {nanKernel(partType(what.dtype) == DType::F64)};
  return what.kind == Kind::Lu ? std::vector<SourceUnit>{kRows} : std::vector<SourceUnit>{};
}

} // namespace dtc
