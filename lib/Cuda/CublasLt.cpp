#include "dtc/Cuda/CublasLt.h"
#include "CublasTable.h"
#include "CudaLibrary.h"
#include "dtc/Support/NonCopyable.h"
#include <algorithm>

namespace dtc {
// The names of cublasStatus_t.
static std::string statusName(int status) {
  switch (status) {
  case 1: return "CUBLAS_STATUS_NOT_INITIALIZED";
  case 3: return "CUBLAS_STATUS_ALLOC_FAILED";
  case 7: return "CUBLAS_STATUS_INVALID_VALUE";
  case 8: return "CUBLAS_STATUS_ARCH_MISMATCH";
  case 11: return "CUBLAS_STATUS_MAPPING_ERROR";
  case 13: return "CUBLAS_STATUS_EXECUTION_FAILED";
  case 14: return "CUBLAS_STATUS_INTERNAL_ERROR";
  case 15: return "CUBLAS_STATUS_NOT_SUPPORTED";
  default: return "CUBLAS status " + std::to_string(status);
  }
}

static int cudaType(DType dtype) {
  switch (dtype) {
  case DType::F16: return kCudaF16;
  case DType::BF16: return kCudaBf16;
  case DType::F64: return kCudaF64;
  case DType::F8E4M3: return kCudaF8E4M3;
  case DType::F8E5M2: return kCudaF8E5M2;
  default: return kCudaF32;
  }
}

static std::string describe(const CublasGemm& g) {
  return std::string(dtypeName(g.dtype)) +
         (g.second && *g.second != g.dtype ? " by " + std::string(dtypeName(*g.second)) : "") +
         (g.tf32 && g.dtype == DType::F32 ? " (tf32) " : " ") + std::to_string(g.batch) + " x [" +
         std::to_string(g.m) + ", " + std::to_string(g.k) + "] x [" + std::to_string(g.k) + ", " +
         std::to_string(g.n) + "]" +
         (g.aScale || g.bScale || g.deviceScale.scale || g.alpha != 1 ? " with scales" : "") +
         (g.bias ? " with bias" : "") + (g.residual ? " with residual" : "") + (g.gelu ? " with gelu" : "") +
         (g.geluGradient ? " with gelu's gradient"
          : g.aux        ? " and its operand"
                         : "") +
         (g.relu ? " with relu" : "");
}

struct CublasLt::Impl : NonCopyable {
  CublasTable table;
  CudaDevice device;
  void* handle = nullptr;
  explicit Impl(CudaDevice d) : device(std::move(d)) {}
  ~Impl() {
    if (handle && device.makeCurrent().ok()) table.destroy(handle);
  }
};

struct CublasPlan::Impl : NonCopyable {
  std::shared_ptr<const CublasLt::Impl> library;
  CublasGemm gemm;
  void *desc = nullptr, *left = nullptr, *right = nullptr, *out = nullptr, *added = nullptr,
       *prefer = nullptr;
  CublasHeuristic chosen{};
  Impl() = default;
  ~Impl() {
    if (added == out) added = nullptr;
    for (void* layout : {left, right, out, added})
      if (layout) library->table.layoutDestroy(layout);
    if (desc) library->table.descDestroy(desc);
    if (prefer) library->table.preferDestroy(prefer);
  }
};

size_t CublasPlan::workspaceBytes() const { return impl_->chosen.workspaceBytes; }

Result<CublasLt> CublasLt::open(const CudaDevice& device) {
  const std::string path = findCudaLibrary("cublasLt");
  if (path.empty())
    return machineError(
        "matrix products on the GPU need cuBLASLt (libcublasLt.so.13 or .12), which is not in "
        "LD_LIBRARY_PATH, CUDA_HOME, "
        "/usr/local/cuda*, the system's folders or a Python environment; install the CUDA toolkit's "
        "package libcublas-13-0, or `pip install nvidia-cublas`");
  keepNvrtcOpen();
  DTC_TRY(auto library, openLibrary(path));
  auto impl = std::make_shared<Impl>(device);
  std::string missing;
#define DTC_BIND(member, symbol, parameters)                                                                 \
  if (!bindSymbol(library, #symbol, impl->table.member)) missing += missing.empty() ? #symbol : ", " #symbol;
  DTC_CUBLAS_FUNCTIONS(DTC_BIND)
#undef DTC_BIND
  if (!missing.empty()) return machineError(path + " has no " + missing);
  if (auto s = device.makeCurrent(); !s) return s.error();
  if (int status = impl->table.create(&impl->handle)) {
    impl->handle = nullptr;
    return machineError(path + " does not start on " + device.info().name + ": " + statusName(status));
  }
  return CublasLt(std::move(impl));
}

namespace {

// cuBLASLt's matrices are column-major, so a row-major matrix is the transpose of a cuBLASLt matrix in the
// same memory. The computation is y' = b' a': `left` is b, `right` is a, and both are passed transposed if
// dtc's are.
class Planner {
public:
  Planner(const CublasTable& table, CublasPlan::Impl& plan, void* aux) : t_(table), p_(plan), aux_(aux) {}

  int layout(void*& to, DType dtype, const CublasGemm::Matrix& matrix, int64_t rows, int64_t columns) {
    if (matrix.transposed) std::swap(rows, columns); // as stored
    int status = t_.layoutCreate(&to, cudaType(dtype), static_cast<uint64_t>(columns),
                                 static_cast<uint64_t>(rows), matrix.lead);
    if (p_.gemm.batch == 1 || status) return status;
    const auto count = static_cast<int32_t>(p_.gemm.batch);
    status = t_.layoutSet(to, kLayoutBatch, &count, sizeof count);
    if (!status)
      status = t_.layoutSet(to, kLayoutBatchStride, &matrix.batchStride, sizeof matrix.batchStride);
    return status;
  }

  int describe() {
    const CublasGemm& g = p_.gemm;
    const bool wide = g.dtype == DType::F64;
    const int compute = wide ? kComputeF64 : g.tf32 && g.dtype == DType::F32 ? kComputeTf32 : kComputeF32;
    int status = t_.descCreate(&p_.desc, compute, wide ? kCudaF64 : kCudaF32);
    const int32_t transposed = kTransposed, type = cudaType(g.result.value_or(g.dtype));
    const int32_t activation = g.gelu           ? kEpilogueGelu
                               : g.geluGradient ? kEpilogueGeluGradient
                               : g.relu         ? kEpilogueRelu
                                                : 0;
    const int32_t epilogue = // flags, one bit each
        activation | (g.bias ? kEpilogueBias : 0) | (g.aux ? kEpilogueAux : 0);
    if (!status && g.b.transposed) status = t_.descSet(p_.desc, kDescTransA, &transposed, sizeof transposed);
    if (!status && g.a.transposed) status = t_.descSet(p_.desc, kDescTransB, &transposed, sizeof transposed);
    if (!status) status = scales();
    if (!status && epilogue) status = t_.descSet(p_.desc, kDescEpilogue, &epilogue, sizeof epilogue);
    if (!status && g.bias) status = t_.descSet(p_.desc, kDescBiasType, &type, sizeof type);
    // The address determines the alignment that an algorithm may assume.
    if (!status && g.bias)
      status = t_.descSet(p_.desc, kDescBias, static_cast<const void*>(&g.bias), sizeof g.bias);
    return status ? status : auxiliary();
  }

  int auxiliary() {
    if (!p_.gemm.aux) return 0;
    const CublasGemm::Matrix& m = *p_.gemm.aux;
    if (m.lead % 8 != 0 || m.batchStride % 8 != 0) return 15; // not supported
    int status = t_.descSet(p_.desc, kDescAux, static_cast<const void*>(&aux_), sizeof aux_);
    if (!status) status = t_.descSet(p_.desc, kDescAuxLead, &m.lead, sizeof m.lead);
    if (!status && p_.gemm.batch > 1)
      status = t_.descSet(p_.desc, kDescAuxBatchStride, &m.batchStride, sizeof m.batchStride);
    return status;
  }

  // cuBLASLt computes the transposed product: its `a` is b.
  int scales() {
    const CublasGemm& g = p_.gemm;
    int status = 0;
    if (g.bScale)
      status = t_.descSet(p_.desc, kDescScaleA, static_cast<const void*>(&g.bScale), sizeof g.bScale);
    if (!status && g.aScale)
      status = t_.descSet(p_.desc, kDescScaleB, static_cast<const void*>(&g.aScale), sizeof g.aScale);
    const int32_t device = kPointersOfDevice;
    if (!status && g.deviceScale.scale)
      status = t_.descSet(p_.desc, kDescPointerMode, &device, sizeof device);
    return status;
  }

  int choose(void* handle, size_t workspaceBytes, uint32_t alignment) {
    const uint64_t maxBytes = workspaceBytes;
    int status = t_.preferCreate(&p_.prefer), found = 0;
    if (!status) status = t_.preferSet(p_.prefer, kPreferWorkspace, &maxBytes, sizeof maxBytes);
    for (int which = kPreferAlignmentA; which <= kPreferAlignmentD && !status; ++which)
      status = t_.preferSet(p_.prefer, which, &alignment, sizeof alignment);
    const uint32_t inSequence = 0;
    if (!status && p_.gemm.deterministic)
      status = t_.preferSet(p_.prefer, kPreferReductions, &inSequence, sizeof inSequence);
    void* added = p_.added ? p_.added : p_.out;
    if (!status)
      status =
          t_.heuristic(handle, p_.desc, p_.left, p_.right, added, p_.out, p_.prefer, 1, &p_.chosen, &found);
    if (!status && found == 0) status = 15; // not supported
    return status ? status : p_.chosen.status;
  }

private:
  const CublasTable& t_;
  CublasPlan::Impl& p_;
  void* aux_;
};

} // namespace

Result<CublasPlan> CublasLt::plan(const CublasGemm& gemm, void* aux, size_t workspaceBytes) const {
  if (gemm.m <= 0 || gemm.n <= 0 || gemm.k <= 0 || gemm.batch <= 0 || gemm.batch > INT32_MAX)
    return Error{Error::Bug,
                 "cuBLASLt does not support the empty or too large matrix product " + describe(gemm)};
  auto plan = std::make_shared<CublasPlan::Impl>();
  plan->library = impl_;
  plan->gemm = gemm;
  if (auto s = impl_->device.makeCurrent(); !s) return s.error();
  Planner planner(impl_->table, *plan, aux);
  const DType made = gemm.result.value_or(gemm.dtype);
  int status = planner.describe();
  if (!status) status = planner.layout(plan->left, gemm.second.value_or(gemm.dtype), gemm.b, gemm.k, gemm.n);
  if (!status) status = planner.layout(plan->right, gemm.dtype, gemm.a, gemm.m, gemm.k);
  if (!status) status = planner.layout(plan->out, made, gemm.y, gemm.m, gemm.n);
  // In place, cuBLASLt wants one description of both.
  if (gemm.residual && *gemm.residual == gemm.y)
    plan->added = plan->out;
  else if (!status && gemm.residual)
    status = planner.layout(plan->added, made, *gemm.residual, gemm.m, gemm.n);
  if (!status) status = planner.choose(impl_->handle, workspaceBytes, gemm.alignment);
  if (status)
    return machineError("cuBLASLt has no algorithm for " + describe(gemm) + ": " + statusName(status));
  return CublasPlan(std::move(plan));
}

Status CublasLt::run(const CublasPlan& plan, const Matrices& at, void* workspace,
                     const CudaStream& stream) const {
  CublasPlan::Impl& p = plan.impl();
  if (auto s = impl_->device.makeCurrent(); !s) return s.error();
  const double alpha64 = p.gemm.alpha, beta64 = p.added ? p.gemm.beta : 0;
  const auto alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const bool wide = p.gemm.dtype == DType::F64;
  const void* alpha = wide ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  if (const CublasGemm::DeviceScale& given = p.gemm.deviceScale; given.scale)
    alpha = given.scale, beta = p.added ? given.one : given.zero;
  int status = 0;
  if (p.gemm.aux)
    status = impl_->table.descSet(p.desc, kDescAux, static_cast<const void*>(&at.aux), sizeof at.aux);
  if (!status)
    status = impl_->table.matmul(impl_->handle, p.desc, alpha, at.b, p.left, at.a, p.right, beta,
                                 p.added ? at.residual : at.y, p.added ? p.added : p.out, at.y, p.out,
                                 &p.chosen.algorithm, workspace, p.chosen.workspaceBytes, stream.get);
  if (status)
    return machineError("cuBLASLt failed to compute " + describe(p.gemm) + " on " +
                        impl_->device.info().name + ": " + statusName(status));
  return Ok{};
}

} // namespace dtc
