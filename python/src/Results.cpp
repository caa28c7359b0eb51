#include "Results.h"

#include "Borrowed.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

namespace nb = nanobind;

namespace dtc::python {

namespace {

nb::dlpack::dtype dlpackType(dtc_dtype d) {
  using Code = nb::dlpack::dtype_code;
  const auto bits = static_cast<uint8_t>(8 * dtc_dtype_size(d));
  const auto of = [bits](Code code) { return nb::dlpack::dtype{static_cast<uint8_t>(code), bits, 1}; };
  if (d == DTC_BOOL) return of(Code::Bool);
  if (d <= DTC_I64) return of(Code::Int);
  if (d <= DTC_U64) return of(Code::UInt);
  if (d == DTC_BF16) return of(Code::Bfloat);
  if (d == DTC_C64 || d == DTC_C128) return of(Code::Complex);
  return of(Code::Float);
}

// NumPy has no dtypes for these; ml_dtypes adds them.
const char* mlDtype(dtc_dtype d) {
  return d == DTC_BF16     ? "bfloat16"
         : d == DTC_F8E4M3 ? "float8_e4m3fn"
         : d == DTC_F8E5M2 ? "float8_e5m2"
                           : nullptr;
}

nb::object toNumpy(dtc_tensor* tensor) {
  nb::capsule owner(tensor, [](void* t) noexcept { dtc_tensor_free(static_cast<dtc_tensor*>(t)); });
  dtc_buffer b;
  dtc_tensor_buffer(tensor, &b);
  const char* special = mlDtype(b.dtype);
  const nb::dlpack::dtype type = dlpackType(!special ? b.dtype : b.dtype == DTC_BF16 ? DTC_U16 : DTC_U8);
  size_t shape[32];
  for (int i = 0; i < b.rank; ++i) shape[i] = static_cast<size_t>(b.shape[i]);
  nb::ndarray<nb::numpy> array(b.data, static_cast<size_t>(b.rank), shape, owner, nullptr, type);
  nb::object out = nb::cast(array);
  if (!special) return out;
  try {
    return out.attr("view")(nb::module_::import_("ml_dtypes").attr(special));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_ImportError)) throw;
    throw nb::type_error((std::string("a result is ") + dtc_dtype_name(b.dtype) +
                          ", which NumPy has only with the package ml_dtypes; install it, or ask for other "
                          "tensors with results=")
                             .c_str());
  }
}

} // namespace

nb::object copiedToNumpy(const dtc_buffer& b, const char* name) {
  if (b.device_type != DTC_DEVICE_CPU)
    throw nb::type_error(
        ("'" + std::string(name) + "' is in the memory of a GPU; reports read tensors of the host").c_str());
  const size_t item = dtc_dtype_size(b.dtype);
  size_t shape[32], count = 1;
  for (int d = 0; d < b.rank; ++d) count *= shape[d] = static_cast<size_t>(b.shape[d]);
  auto data = std::make_unique<std::byte[]>(std::max<size_t>(count * item, 1));
  for (size_t i = 0; i < count; ++i) {
    int64_t from = 0;
    size_t rest = i;
    for (int d = b.rank; b.strides && d-- > 0; rest /= shape[d])
      from += static_cast<int64_t>(rest % shape[d]) * b.strides[d];
    if (!b.strides) from = static_cast<int64_t>(i);
    std::memcpy(data.get() + i * item,
                static_cast<const std::byte*>(b.data) + from * static_cast<int64_t>(item), item);
  }
  nb::capsule owner(data.get(), [](void* p) noexcept { delete[] static_cast<std::byte*>(p); });
  const nb::dlpack::dtype type = dlpackType(!mlDtype(b.dtype)     ? b.dtype
                                            : b.dtype == DTC_BF16 ? DTC_U16
                                                                  : DTC_U8);
  return nb::cast(
      nb::ndarray<nb::numpy>(data.release(), static_cast<size_t>(b.rank), shape, owner, nullptr, type));
}

nb::object toPython(dtc_tensor* tensor, nb::handle like) {
  if (like.is_none()) return toNumpy(tensor);
  if (PyType_Check(like.ptr())) {
    const ExchangeApi* api = exchangeApiOf(reinterpret_cast<PyTypeObject*>(like.ptr()));
    DLManagedTensorVersioned* managed = api ? dtc_tensor_to_dlpack_versioned(tensor) : nullptr;
    void* object = nullptr;
    if (managed && api->toObject(managed, &object) == 0) return nb::steal(static_cast<PyObject*>(object));
    if (managed) throw nb::python_error();
    dtc_tensor_free(tensor);
    throw nb::type_error("results= must be a tensor type, 'numpy', 'torch' or 'jax'");
  }
  DLManagedTensor* managed = dtc_tensor_to_dlpack(tensor);
  if (!managed) {
    dtc_tensor_free(tensor);
    throw std::bad_alloc();
  }
  struct Exporter { // an object with __dlpack__, for packages that take one
    static void release(PyObject* capsule) {
      if (!PyCapsule_IsValid(capsule, "dltensor")) return; // taken
      auto* t = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
      if (t) t->deleter(t);
    }
  };
  nb::object capsule = nb::steal(PyCapsule_New(managed, "dltensor", &Exporter::release));
  return nb::handle(like)(capsule);
}

} // namespace dtc::python
