#include "Handles.h"

#include "dtc/dlpack.h"

#include <new>

namespace dtc {
namespace {

// DLPack's type codes of dtc's dtypes, in their order.
constexpr DLDataType kTypes[kNumDTypes] = {{6, 8, 1},  {0, 8, 1},  {0, 16, 1}, {0, 32, 1}, {0, 64, 1},
                                           {1, 8, 1},  {1, 16, 1}, {1, 32, 1}, {1, 64, 1}, {10, 8, 1},
                                           {12, 8, 1}, {4, 16, 1}, {2, 16, 1}, {2, 32, 1}, {2, 64, 1},
                                           {5, 64, 1}, {5, 128, 1}};

constexpr int32_t kHost = 1, kCuda = 2, kPinned = 3, kManaged = 13;
constexpr uint32_t kMajor = 1, kMinor = 1;

Status view(const DLTensor& t, dtc_buffer* out) {
  const auto& given = t.dtype;
  dtc_dtype dtype = 0;
  while (dtype < kNumDTypes &&
         !(kTypes[dtype].code == given.code && kTypes[dtype].bits == given.bits && given.lanes == 1))
    ++dtype;
  if (dtype == kNumDTypes)
    return usageError("a DLPack tensor has a dtype that dtc does not have: code " +
                      std::to_string(given.code) + ", " + std::to_string(given.bits) + " bits, " +
                      std::to_string(given.lanes) + " lanes");
  const int32_t device = t.device.device_type;
  if (device != kHost && device != kCuda && device != kPinned && device != kManaged)
    return usageError("a DLPack tensor is on a device that dtc does not have, of type " +
                      std::to_string(device));
  const bool onDevice = device == kCuda || device == kManaged;
  *out = {t.data ? static_cast<std::byte*>(t.data) + t.byte_offset : nullptr,
          dtype,
          t.ndim,
          t.shape,
          t.strides,
          onDevice ? DTC_DEVICE_CUDA : DTC_DEVICE_CPU,
          0};
  return Ok{};
}

// A managed tensor with what it points to.
template <class Managed> struct Exported {
  Managed managed{};
  std::vector<int64_t> strides;
  std::unique_ptr<dtc_tensor> tensor;
};

template <class Managed> Managed* exported(dtc_tensor* tensor) noexcept {
  using E = Exported<Managed>;
  if (!tensor) return nullptr;
  try {
    auto e = std::make_unique<E>();
    int64_t row = 1;
    e->strides.resize(tensor->shape.size()); // some readers need them
    for (size_t d = tensor->shape.size(); d-- > 0;) {
      e->strides[d] = row;
      row *= tensor->shape[d];
    }
    DLTensor& t = e->managed.dl_tensor;
    t.data = tensor->data;
    t.device = {kHost, 0};
    t.ndim = static_cast<int32_t>(tensor->shape.size());
    t.dtype = kTypes[static_cast<int>(tensor->dtype)];
    t.shape = tensor->shape.data();
    t.strides = e->strides.data();
    e->managed.manager_ctx = e.get();
    e->managed.deleter = [](Managed* self) { delete static_cast<E*>(self->manager_ctx); };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) e->managed.version = {kMajor, kMinor};
    e->tensor.reset(tensor);
    return &e.release()->managed;
  } catch (...) {
    return nullptr;
  }
}

} // namespace
} // namespace dtc

using namespace dtc;

dtc_status dtc_buffer_from_dlpack(const DLManagedTensor* from, dtc_buffer* out, dtc_error** error) {
  return guarded(error, [&]() -> Status {
    if (Status s = checkGiven({{from, "from"}, {out, "out"}}); !s) return s;
    return view(from->dl_tensor, out);
  });
}

dtc_status dtc_buffer_from_dlpack_versioned(const DLManagedTensorVersioned* from, dtc_buffer* out,
                                            dtc_error** error) {
  return guarded(error, [&]() -> Status {
    if (Status s = checkGiven({{from, "from"}, {out, "out"}}); !s) return s;
    if (from->version.major != kMajor)
      return usageError("a DLPack tensor has version " + std::to_string(from->version.major) + "." +
                        std::to_string(from->version.minor) + "; dtc reads 1.x");
    return view(from->dl_tensor, out);
  });
}

DLManagedTensor* dtc_tensor_to_dlpack(dtc_tensor* tensor) { return exported<DLManagedTensor>(tensor); }
DLManagedTensorVersioned* dtc_tensor_to_dlpack_versioned(dtc_tensor* tensor) {
  return exported<DLManagedTensorVersioned>(tensor);
}
