#pragma once
// The opened library, shared by convolutions and attention.
#include "CudnnTable.h"
#include "dtc/Cuda/Cudnn.h"
#include "dtc/Support/NonCopyable.h"
#include <map>

namespace dtc {

// 91300 is 9.13.0; before 9, 8906 is 8.9.6.
[[nodiscard]] std::string cudnnVersionText(size_t number);

struct Cudnn::Impl : NonCopyable {
  CudnnTable table;
  CudaDevice device;
  void* handle = nullptr;
  // An engine is compiled when it is planned, which takes seconds: equal layers share the plan.
  mutable std::map<CudnnAttention, Result<CudnnAttentionPlan>> attentions;
  explicit Impl(CudaDevice d) : device(std::move(d)) {}
  ~Impl() {
    attentions.clear(); // they refer to the handle
    if (handle && device.makeCurrent().ok()) table.destroy(handle);
  }
  [[nodiscard]] std::string text(int status) const { return table.errorText(status); }
};

} // namespace dtc
