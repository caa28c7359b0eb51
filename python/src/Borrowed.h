#pragma once
// Tensors of other Python packages as memory that a run reads or writes, without copies.
#include "dtc/dlpack.h"
#include "dtc/dtc.h"
#include <nanobind/nanobind.h>
#include <optional>

namespace dtc::python {

// --- DLPack's exchange of tensors by C functions of the type, without a capsule (DLPack 1.3, `DLPackExchangeAPI`) ---
struct ExchangeApi {
  DLPackVersion version;
  ExchangeApi* previous;
  int (*allocate)(DLTensor*, DLManagedTensorVersioned**, void*, void (*)(void*, const char*, const char*));
  int (*fromObject)(void* object, DLManagedTensorVersioned**);
  int (*toObject)(DLManagedTensorVersioned*, void** object); // takes the tensor
  int (*view)(void* object, DLTensor*);                      // valid as long as the object; may be null
  int (*currentStream)(int32_t deviceType, int32_t deviceId, void** stream);
};
// Of a type, or null: its attribute __dlpack_c_exchange_api__.
[[nodiscard]] const ExchangeApi* exchangeApiOf(PyTypeObject*);

// The memory of one object: a NumPy array or anything with the buffer protocol, anything with DLPack, or a Python
// number for a scalar argument. Not movable.
class Borrowed {
public:
  Borrowed() = default;
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed();

  // `about`: the argument or result. Throws a Python exception for an object that has no memory that dtc can use.
  void borrow(PyObject* object, const dtc_value_info& about, bool writable);
  [[nodiscard]] const dtc_buffer& buffer() const { return buffer_; }

private:
  void fromBufferProtocol(PyObject*, const dtc_value_info&, bool writable);
  void withoutBuffer(PyObject*, const dtc_value_info&, bool writable, const nanobind::python_error& why);
  bool hold(PyObject*, bool writable, std::optional<nanobind::python_error>& why);
  void fromHeld(dtc_dtype, const dtc_value_info&);
  void fromExchange(const ExchangeApi&, PyObject*, const dtc_value_info&, bool writable);
  void fromCapsule(PyObject*, const dtc_value_info&);
  void fromNumber(PyObject*, const dtc_value_info&);
  void view(const DLTensor&, const dtc_value_info&);

  static constexpr int kMaxRank = 32;
  dtc_buffer buffer_ = {};
  Py_buffer held_ = {};       // with an object: the buffer protocol's
  nanobind::object resolved_; // whose memory is used instead of the object's
  DLManagedTensor* managed_ = nullptr;
  DLManagedTensorVersioned* versioned_ = nullptr;
  int64_t shape_[kMaxRank], strides_[kMaxRank];
  alignas(16) unsigned char number_[16];
};

} // namespace dtc::python
