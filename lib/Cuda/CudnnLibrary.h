#pragma once
// The opened library, shared by convolutions and attention.
#include "CudnnGraph.h"
#include "CudnnTable.h"
#include "dtc/Cuda/Cudnn.h"
#include "dtc/Support/NonCopyable.h"
#include <functional>
#include <map>
#include <variant>

namespace dtc {

// 91300 is 9.13.0; before 9, 8906 is 8.9.6.
[[nodiscard]] std::string cudnnVersionText(size_t number);
[[nodiscard]] int cudnnType(DType dtype);

// What a plan is made of.
struct CudnnRequest {
  std::string what; // for messages: "f16 attention, …"
  uint32_t refusedNotes = 0;
  std::function<void(CudnnGraph&)> write;
};
// Error: this version, or this GPU, does not support it.
[[nodiscard]] Result<CudnnRequest> requestOf(const CudnnAttention&, size_t version, const CudaDeviceInfo&);
[[nodiscard]] CudnnRequest requestOf(const CudnnConv&);

struct CudnnPlan::Impl {
  std::string what; // for messages: "f16 attention, …"
  CudnnGraph graph;
  Impl(std::string text, const CudnnTable& table) : what(std::move(text)), graph(table) {}
};

struct Cudnn::Impl : NonCopyable {
  using Key = std::variant<CudnnAttention, CudnnConv>;
  CudnnTable table;
  CudaDevice device;
  void* handle = nullptr;
  mutable std::map<Key, Result<CudnnPlan>> plans; // and refusals
  explicit Impl(CudaDevice d) : device(std::move(d)) {}
  ~Impl() {
    plans.clear(); // they refer to the handle
    if (handle && device.makeCurrent().ok()) table.destroy(handle);
  }
  [[nodiscard]] std::string text(int status) const { return table.errorText(status); }
  // The plan of the requested graph, or the plan or refusal of an equal earlier call.
  [[nodiscard]] Result<CudnnPlan> plan(const Key& key, CudnnRequest request, size_t workspaceBytes) const;
};

} // namespace dtc
