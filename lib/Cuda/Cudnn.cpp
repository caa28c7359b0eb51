#include "dtc/Cuda/Cudnn.h"
#include "CudaLibrary.h"
#include "CudnnLibrary.h"

namespace dtc {

std::string cudnnVersionText(size_t number) {
  const size_t major = number >= 90000 ? 10000 : 1000;
  return std::to_string(number / major) + "." + std::to_string(number % major / 100) + "." +
         std::to_string(number % 100);
}

int cudnnType(DType dtype) {
  switch (dtype) {
  case DType::F16: return kCudnnF16;
  case DType::BF16: return kCudnnBf16;
  case DType::F64: return kCudnnF64;
  default: return kCudnnF32;
  }
}

size_t CudnnPlan::workspaceBytes() const { return impl_->graph.workspaceBytes(); }

bool Cudnn::found() { return !findCudaLibrary("cudnn").empty(); }
std::string Cudnn::howToInstall() {
  return "install the package cudnn9-cuda-13, or `pip install nvidia-cudnn-cu13`";
}
std::string Cudnn::version() const { return cudnnVersionText(impl_->table.version()); }

Result<Cudnn> Cudnn::open(const CudaDevice& device) {
  const std::string path = findCudaLibrary("cudnn");
  if (path.empty())
    return machineError("cuDNN (libcudnn.so.9) is not in LD_LIBRARY_PATH, CUDA_HOME, /usr/local/cuda*, the "
                        "system's folders or a Python environment; " +
                        howToInstall());
  keepNvrtcOpen();
  DTC_TRY(auto library, openLibrary(path));
  auto impl = std::make_shared<Impl>(device);
  std::string missing;
  auto bind = [&](const char* symbol, auto& to) {
    if (!bindSymbol(library, symbol, to)) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
#define DTC_BIND(member, symbol, parameters) bind(#symbol, impl->table.member);
  DTC_CUDNN_FUNCTIONS(DTC_BIND)
#undef DTC_BIND
  bind("cudnnGetErrorString", impl->table.errorText);
  bind("cudnnGetVersion", impl->table.version);
  if (!missing.empty())
    return machineError(path + " has no " + missing + ": it is too old or too new; " + howToInstall());
  if (impl->table.version() < 8000)
    return machineError(path + " is cuDNN " + cudnnVersionText(impl->table.version()) + ", older than 8; " +
                        howToInstall());
  if (auto s = device.makeCurrent(); !s) return s.error();
  if (int status = impl->table.create(&impl->handle)) {
    impl->handle = nullptr;
    return machineError(path + " does not start on " + device.info().name + ": " + impl->text(status));
  }
  return Cudnn(std::move(impl));
}

Result<CudnnPlan> Cudnn::Impl::plan(const Key& key, CudnnRequest request, size_t workspaceBytes) const {
  if (const auto at = plans.find(key); at != plans.end()) return at->second;
  if (auto s = device.makeCurrent(); !s) return s.error();
  auto plan = std::make_shared<CudnnPlan::Impl>(std::move(request.what), table);
  request.write(plan->graph);
  const int status = plan->graph.plan(handle, workspaceBytes, request.refusedNotes);
  if (status)
    return plans.emplace(key, machineError("cuDNN does not support " + plan->what + ": " + text(status)))
        .first->second;
  return plans.emplace(key, CudnnPlan(std::move(plan))).first->second;
}

Result<CudnnPlan> Cudnn::plan(const CudnnAttention& attention, size_t workspaceBytes) const {
  DTC_TRY(auto request, requestOf(attention, impl_->table.version(), impl_->device.info()));
  return impl_->plan(attention, std::move(request), workspaceBytes);
}
Result<CudnnPlan> Cudnn::plan(const CudnnConv& conv, size_t workspaceBytes) const {
  return impl_->plan(conv, requestOf(conv), workspaceBytes);
}

Status Cudnn::run(const CudnnPlan& plan, std::span<void* const> tensors, void* workspace,
                  const CudaStream& stream) const {
  if (auto s = impl_->device.makeCurrent(); !s) return s;
  if (int status = impl_->table.setStream(impl_->handle, stream.get))
    return machineError("cuDNN rejected the stream: " + impl_->text(status));
  if (int status = plan.impl().graph.run(impl_->handle, tensors, workspace))
    return machineError("cuDNN failed to compute " + plan.impl().what + " on " + impl_->device.info().name +
                        ": " + impl_->text(status));
  return Ok{};
}

} // namespace dtc
