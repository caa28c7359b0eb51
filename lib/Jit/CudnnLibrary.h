#pragma once
// The opened library, which convolutions and attention share (private to lib/Jit).
#include "CudnnTable.h"
#include "dtc/Jit/Cudnn.h"
#include <map>

namespace dtc {

// 91300 is 9.13.0; before 9, 8906 is 8.9.6.
[[nodiscard]] std::string cudnnVersionText(size_t number);

struct Cudnn::Impl {
  CudnnTable table;
  CudaDevice device;
  void* handle = nullptr;
  // An engine is compiled when it is planned, which takes seconds: layers that are alike share the plan.
  mutable std::map<CudnnAttention, Result<CudnnAttentionPlan>> attentions;
  explicit Impl(CudaDevice d) : device(std::move(d)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    attentions.clear(); // they speak of the handle
    if (handle && device.makeCurrent().ok()) table.destroy(handle);
  }
  [[nodiscard]] std::string text(int status) const { return table.errorText(status); }
};

} // namespace dtc
