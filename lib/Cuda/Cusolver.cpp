#include "dtc/Cuda/Cusolver.h"
#include "CudaLibrary.h"
#include "CusolverTable.h"
#include "dtc/Support/NonCopyable.h"
#include <algorithm>
#include <climits>

namespace dtc {

struct Cusolver::Impl : NonCopyable {
  CusolverTable table;
  CudaDevice device;
  void *handle = nullptr, *params = nullptr;
  explicit Impl(CudaDevice d) : device(std::move(d)) {}
  ~Impl() {
    if (!device.makeCurrent().ok()) return;
    if (params) table.paramsDestroy(params);
    if (handle) table.destroy(handle);
  }
};

namespace {

using Kind = FactorizationKind;

int solverType(DType dtype) {
  switch (dtype) {
  case DType::F64: return kCusolverF64;
  case DType::C64: return kCusolverC64;
  case DType::C128: return kCusolverC128;
  default: return kCusolverF32;
  }
}

size_t productOf(DType dtype) {
  return dtype == DType::F32 ? 0 : dtype == DType::F64 ? 1 : dtype == DType::C64 ? 2 : 3;
}

Error failed(const Factorization& f, int status) {
  return machineError(std::string("cuSOLVER cannot compute ") + f.name() + " of a " +
                      std::string(dtypeName(f.dtype)) + " matrix of " + std::to_string(f.rows) + " by " +
                      std::to_string(f.columns) + ": cuSOLVER status " + std::to_string(status));
}

} // namespace

std::string Cusolver::howToInstall() {
  return "install the CUDA toolkit's package libcusolver-13-0, or `pip install nvidia-cusolver`";
}

Result<Cusolver> Cusolver::open(const CudaDevice& device) {
  const std::string path = findCudaLibrary("cusolver");
  if (path.empty())
    return machineError("factorizations on the GPU need cuSOLVER (libcusolver.so.12 or .11), which is not in "
                        "LD_LIBRARY_PATH, "
                        "CUDA_HOME, /usr/local/cuda*, the system's folders or a Python environment; " +
                        howToInstall());
  DTC_TRY(auto library, openLibrary(path));
  auto impl = std::make_shared<Impl>(device);
  std::string missing;
#define DTC_BIND(member, symbol, parameters)                                                                 \
  if (!bindSymbol(library, #symbol, impl->table.member)) missing += missing.empty() ? #symbol : ", " #symbol;
  DTC_CUSOLVER_FUNCTIONS(DTC_BIND)
#undef DTC_BIND
#define DTC_BIND(number, letter, name)                                                                       \
  if (!bindSymbol(library, "cusolverDn" #letter #name "_bufferSize", impl->table.productSize[number]) ||     \
      !bindSymbol(library, "cusolverDn" #letter #name, impl->table.product[number]))                         \
    missing += missing.empty() ? "cusolverDn" #letter #name : ", cusolverDn" #letter #name;
  DTC_CUSOLVER_PRODUCTS(DTC_BIND)
#undef DTC_BIND
  if (!missing.empty()) return machineError(path + " has no " + missing);
  if (auto s = device.makeCurrent(); !s) return s.error();
  int status = impl->table.create(&impl->handle);
  if (status == 0) status = impl->table.paramsCreate(&impl->params);
  if (status != 0)
    return machineError(path + " does not start on " + device.info().name + ": cuSOLVER status " +
                        std::to_string(status));
  return Cusolver(std::move(impl));
}

Result<Cusolver::Workspace> Cusolver::workspace(const Factorization& f) const {
  const CusolverTable& t = impl_->table;
  void *h = impl_->handle, *p = impl_->params;
  const int type = solverType(f.dtype), real = solverType(partType(f.dtype)),
            half = f.lower ? kCusolverLower : kCusolverUpper;
  const int64_t m = f.rows, n = f.columns, ld = std::max<int64_t>(m, 1);
  if (m > INT_MAX || n > INT_MAX) return failed(f, 3);
  if (auto s = impl_->device.makeCurrent(); !s) return s.error();
  Workspace out;
  int status = 0;
  switch (f.kind) {
  case Kind::Lu: status = t.getrfSize(h, p, m, n, type, nullptr, ld, type, &out.device, &out.host); break;
  case Kind::Qr:
    status = t.geqrfSize(h, p, m, n, type, nullptr, ld, type, nullptr, type, &out.device, &out.host);
    break;
  case Kind::Reflectors: {
    int elements = 0;
    status = t.productSize[productOf(f.dtype)](h, static_cast<int>(m), static_cast<int>(n),
                                               static_cast<int>(f.taus), nullptr, static_cast<int>(ld),
                                               nullptr, &elements);
    out.device = static_cast<size_t>(elements) * static_cast<size_t>(dtypeBytes(f.dtype));
    break;
  }
  case Kind::Eigen:
    status = t.syevdSize(h, p, f.vectors ? kCusolverVectors : 0, half, n, type, nullptr, ld, real, nullptr,
                         type, &out.device, &out.host);
    break;
  case Kind::Singular: {
    const signed char job = f.vectors ? 'S' : 'N';
    status = t.gesvdSize(h, p, job, job, m, n, type, nullptr, ld, real, nullptr, type, nullptr, ld, type,
                         nullptr, std::max<int64_t>(n, 1), type, &out.device, &out.host);
    break;
  }
  }
  if (status != 0) return failed(f, status);
  return out;
}

Status Cusolver::run(const Factorization& f, const Matrix& x, const Workspace& sizes, void* workspace,
                     void* host, const CudaStream& stream) const {
  const CusolverTable& t = impl_->table;
  void *h = impl_->handle, *p = impl_->params;
  const int type = solverType(f.dtype), real = solverType(partType(f.dtype)),
            half = f.lower ? kCusolverLower : kCusolverUpper;
  const int64_t m = f.rows, n = f.columns, ld = std::max<int64_t>(m, 1);
  auto* info = static_cast<int*>(x.info);
  if (auto s = impl_->device.makeCurrent(); !s) return s;
  int status = t.setStream(h, stream.get);
  if (status != 0) return failed(f, status);
  switch (f.kind) {
  case Kind::Lu:
    status = t.getrf(h, p, m, n, type, x.a, ld, static_cast<int64_t*>(x.pivots), type, workspace,
                     sizes.device, host, sizes.host, info);
    break;
  case Kind::Qr:
    status = t.geqrf(h, p, m, n, type, x.a, ld, type, x.taus, type, workspace, sizes.device, host, sizes.host,
                     info);
    break;
  case Kind::Reflectors:
    status = t.product[productOf(f.dtype)](
        h, static_cast<int>(m), static_cast<int>(n), static_cast<int>(f.taus), x.a, static_cast<int>(ld),
        x.taus, workspace, static_cast<int>(sizes.device / static_cast<size_t>(dtypeBytes(f.dtype))), info);
    break;
  case Kind::Eigen:
    status = t.syevd(h, p, f.vectors ? kCusolverVectors : 0, half, n, type, x.a, ld, real, x.values, type,
                     workspace, sizes.device, host, sizes.host, info);
    break;
  case Kind::Singular: {
    const signed char job = f.vectors ? 'S' : 'N';
    status = t.gesvd(h, p, job, job, m, n, type, x.a, ld, real, x.values, type, x.u, ld, type, x.vh,
                     std::max<int64_t>(n, 1), type, workspace, sizes.device, host, sizes.host, info);
    break;
  }
  }
  if (status != 0) return failed(f, status);
  return Ok{};
}

} // namespace dtc
