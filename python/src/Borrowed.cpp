#include "Borrowed.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>

namespace nb = nanobind;

namespace dtc::python {

namespace {

std::string nameOf(const dtc_value_info& about) { return "'" + std::string(about.name) + "'"; }

[[noreturn]] void typeError(const std::string& message) { throw nb::type_error(message.c_str()); }

// The dtype of a format of the buffer protocol (PEP 3118), or -1. Sizes are checked by the item's size.
dtc_dtype dtypeOfFormat(const char* format, Py_ssize_t size) {
  if (!format) return DTC_U8;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  const bool complex = *format == 'Z';
  if (complex) ++format;
  if (!*format || format[1]) return -1;
  if (complex) return *format == 'f' ? DTC_C64 : *format == 'd' ? DTC_C128 : -1;
  const auto sized = [size](dtc_dtype one) {
    return size == 1 ? one : size == 2 ? one + 1 : size == 4 ? one + 2 : size == 8 ? one + 3 : -1;
  };
  switch (*format) {
  case '?': return DTC_BOOL;
  case 'b':
  case 'h':
  case 'i':
  case 'l':
  case 'q': return sized(DTC_I8);
  case 'B':
  case 'H':
  case 'I':
  case 'L':
  case 'Q': return sized(DTC_U8);
  case 'e': return DTC_F16;
  case 'f': return DTC_F32;
  case 'd': return DTC_F64;
  default: return -1;
  }
}

// NumPy's arrays of dtypes that it got from ml_dtypes have no format; they have a view as integers of their bits.
dtc_dtype dtypeOfMlDtypes(PyObject* array) {
  static constexpr std::pair<const char*, dtc_dtype> names[] = {
      {"bfloat16", DTC_BF16}, {"float8_e4m3fn", DTC_F8E4M3}, {"float8_e5m2", DTC_F8E5M2}};
  const nb::object dtype = nb::getattr(nb::handle(array), "dtype", nb::none());
  if (dtype.is_none()) return -1;
  const std::string name = nb::cast<std::string>(nb::str(dtype));
  for (auto [known, value] : names)
    if (name == known) return value;
  return -1;
}

// The first line of a Python exception's message, or its type's name.
std::string textOf(const nb::python_error& error) {
  std::string text = nb::cast<std::string>(nb::str(error.value()));
  if (const size_t end = text.find('\n'); end != std::string::npos) text.resize(end);
  return text.empty() ? nb::cast<std::string>(nb::str(error.type().attr("__name__"))) : text;
}

// The Python exception that a C function of another package has reported. A nb::python_error of no exception would
// end the process.
nb::python_error reported() {
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "the tensor's DLPack export failed");
  return {};
}

// PyTorch's tensors may have a flag that their elements are to be negated or conjugated, which DLPack does not tell.
nb::object resolved(PyObject* object) {
  static PyObject* const names[][2] = {
      {PyUnicode_InternFromString("is_neg"), PyUnicode_InternFromString("resolve_neg")},
      {PyUnicode_InternFromString("is_conj"), PyUnicode_InternFromString("resolve_conj")}};
  nb::object out = nb::borrow(object);
  for (const auto& [flag, resolve] : names) {
    const nb::object set = nb::steal(PyObject_CallMethodNoArgs(out.ptr(), flag));
    if (!set.is_valid()) throw nb::python_error();
    if (set.ptr() != Py_True) continue;
    out = nb::steal(PyObject_CallMethodNoArgs(out.ptr(), resolve));
    if (!out.is_valid()) throw nb::python_error();
  }
  return out;
}

// Whether tensors of a type have such flags.
bool hasFlags(PyTypeObject* type) {
  static auto& known = *new std::unordered_map<PyTypeObject*, bool>();
  const auto [found, fresh] = known.try_emplace(type, false);
  if (fresh) found->second = nb::hasattr(nb::handle(reinterpret_cast<PyObject*>(type)), "resolve_neg");
  return found->second;
}

// The bits of a float with fewer bits, rounded to nearest even.
struct FloatFormat {
  dtc_dtype dtype;
  int exponent, mantissa; // bits
  bool infinity;          // else overflow is NaN, all bits set
};
constexpr FloatFormat kFloats[] = {
    {DTC_F16, 5, 10, true}, {DTC_BF16, 8, 7, true}, {DTC_F8E4M3, 4, 3, false}, {DTC_F8E5M2, 5, 2, true}};

uint16_t bitsOf(double value, const FloatFormat& f) {
  const int bias = (1 << (f.exponent - 1)) - 1;
  const int64_t sign = std::signbit(value) ? int64_t(1) << (f.exponent + f.mantissa) : 0;
  const int64_t allOnes = (int64_t(1) << (f.exponent + f.mantissa)) - 1;
  const int64_t infinity = f.infinity ? allOnes - ((1 << f.mantissa) - 1) : allOnes;
  int64_t bits = f.infinity ? infinity + (1 << (f.mantissa - 1)) : allOnes; // NaN
  if (std::isinf(value)) bits = infinity;
  if (std::isfinite(value)) {
    const double size = std::fabs(value);
    const int exponent =
        size == 0 ? 1 - bias : std::max(std::ilogb(size), 1 - bias); // subnormals have the least
    bits = (int64_t(exponent + bias - 1) << f.mantissa) +
           static_cast<int64_t>(std::nearbyint(std::ldexp(size, f.mantissa - exponent)));
    bits = std::min(bits, infinity);
  }
  return static_cast<uint16_t>(sign | bits);
}

[[noreturn]] void refuse(const dtc_value_info& about, bool writable, const nb::python_error& why) {
  typeError(nameOf(about) + " has no memory that dtc can " + (writable ? "write" : "read") + ": " +
            textOf(why));
}

} // namespace

const ExchangeApi* exchangeApiOf(PyTypeObject* type) {
  // By type, which lives as long as the module that made it; guarded by the interpreter lock.
  static auto& known = *new std::unordered_map<PyTypeObject*, const ExchangeApi*>();
  if (auto found = known.find(type); found != known.end()) return found->second;
  const ExchangeApi* api = nullptr;
  nb::object capsule =
      nb::getattr(nb::handle(reinterpret_cast<PyObject*>(type)), "__dlpack_c_exchange_api__", nb::none());
  if (PyCapsule_CheckExact(capsule.ptr()))
    api = static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (PyErr_Occurred()) PyErr_Clear();
  while (api && api->version.major != 1) api = api->previous;
  known.emplace(type, api);
  return api;
}

Borrowed::~Borrowed() {
  if (held_.obj) PyBuffer_Release(&held_);
  if (managed_ && managed_->deleter) managed_->deleter(managed_);
  if (versioned_ && versioned_->deleter) versioned_->deleter(versioned_);
}

void Borrowed::borrow(PyObject* object, const dtc_value_info& about, bool writable) {
  if (const ExchangeApi* api = exchangeApiOf(Py_TYPE(object))) {
    if (!hasFlags(Py_TYPE(object))) return fromExchange(*api, object, about, writable);
    resolved_ = resolved(object);
    if (writable && resolved_.ptr() != object)
      typeError(nameOf(about) + " cannot be written: its elements are to be negated or conjugated");
    return fromExchange(*api, resolved_.ptr(), about, writable);
  }
  if (PyObject_CheckBuffer(object)) return fromBufferProtocol(object, about, writable);
  if (PyObject_HasAttrString(object, "__dlpack__")) return fromCapsule(object, about);
  if (!writable && about.rank == 0 && (PyFloat_Check(object) || PyLong_Check(object)))
    return fromNumber(object, about); // a bool is an int
  if (object == Py_None) typeError(nameOf(about) + " is None");
  typeError(nameOf(about) + " must be a tensor of NumPy, PyTorch, JAX or any other package with DLPack" +
            (about.rank == 0 ? ", or a number" : "") + ", not " + Py_TYPE(object)->tp_name);
}

// False: the object has no such memory; the Python exception is then `why`.
bool Borrowed::hold(PyObject* object, bool writable, std::optional<nb::python_error>& why) {
  if (PyObject_GetBuffer(object, &held_, PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0)) == 0)
    return true;
  held_.obj = nullptr;
  why.emplace(); // takes the exception: no Python code may run while one is set
  return false;
}

// Of an object that has the buffer protocol, but not for its dtype or not now. DLPack has more dtypes; NumPy's and
// JAX's arrays also have views as integers, which for JAX may be copies, but those cannot be written.
void Borrowed::withoutBuffer(PyObject* object, const dtc_value_info& about, bool writable,
                             const nb::python_error& why) {
  if (!writable && PyObject_HasAttrString(object, "__dlpack__")) {
    try {
      return fromCapsule(object, about);
    } catch (nb::python_error&) { // has no DLPack for it either
    }
  }
  const dtc_dtype dtype = dtypeOfMlDtypes(object);
  if (dtype < 0 || !PyObject_HasAttrString(object, "view")) refuse(about, writable, why);
  std::optional<nb::python_error> again;
  const nb::object bits = nb::handle(object).attr("view")(dtype == DTC_BF16 ? "uint16" : "uint8");
  if (!hold(bits.ptr(), writable, again)) refuse(about, writable, *again);
  fromHeld(dtype, about);
}

void Borrowed::fromBufferProtocol(PyObject* object, const dtc_value_info& about, bool writable) {
  std::optional<nb::python_error> why;
  if (!hold(object, writable, why)) return withoutBuffer(object, about, writable, *why);
  const dtc_dtype dtype = dtypeOfFormat(held_.format, held_.itemsize);
  fromHeld(dtype < 0 ? dtypeOfMlDtypes(object) : dtype, about);
}

void Borrowed::fromHeld(dtc_dtype dtype, const dtc_value_info& about) {
  if (dtype < 0)
    typeError(nameOf(about) + " has elements of a type that dtc does not have (format '" +
              std::string(held_.format ? held_.format : "") + "')");
  if (held_.ndim > kMaxRank) typeError(nameOf(about) + " has too many dims");
  for (int i = 0; i < held_.ndim; ++i) {
    shape_[i] = held_.shape[i];
    if (held_.strides[i] % held_.itemsize) typeError(nameOf(about) + " has strides between its elements");
    strides_[i] = held_.strides[i] / held_.itemsize;
  }
  buffer_ = {held_.buf, dtype, held_.ndim, shape_, strides_, DTC_DEVICE_CPU, 0};
}

void Borrowed::view(const DLTensor& t, const dtc_value_info& about) {
  DLManagedTensor managed = {t, nullptr, nullptr};
  dtc_error* error = nullptr;
  if (dtc_buffer_from_dlpack(&managed, &buffer_, &error) == DTC_OK) return;
  const std::string message = nameOf(about) + ": " + dtc_error_message(error);
  dtc_error_free(error);
  typeError(message);
}

void Borrowed::fromExchange(const ExchangeApi& api, PyObject* object, const dtc_value_info& about,
                            bool writable) {
  DLTensor t = {};
  // The shape and strides belong to the object, which outlives the call.
  if ((api.view ? api.view(object, &t) : api.fromObject(object, &versioned_)) != 0)
    refuse(about, writable, reported());
  view(api.view ? t : versioned_->dl_tensor, about);
}

static nb::object capsuleOf(PyObject* object) {
  try {
    return nb::handle(object).attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 1));
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
    return nb::handle(object).attr("__dlpack__")(); // from before versions
  }
}

void Borrowed::fromCapsule(PyObject* object, const dtc_value_info& about) {
  const nb::object capsule = capsuleOf(object);
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    versioned_ =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    (void)PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    if (versioned_->version.major != 1)
      typeError(nameOf(about) + " uses another major version of DLPack than 1");
    return view(versioned_->dl_tensor, about);
  }
  managed_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed_) throw nb::python_error();
  (void)PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  view(managed_->dl_tensor, about);
}

// A number takes the dtype of the argument, where that holds it.
void Borrowed::fromNumber(PyObject* object, const dtc_value_info& about) {
  const bool integer = about.dtype >= DTC_I8 && about.dtype <= DTC_U64;
  if (about.dtype == DTC_BOOL && PyBool_Check(object)) {
    number_[0] = object == Py_True;
  } else if (integer && PyLong_Check(object) && !PyBool_Check(object)) {
    const bool isSigned = about.dtype < DTC_U8;
    const int64_t v =
        isSigned ? PyLong_AsLongLong(object) : static_cast<int64_t>(PyLong_AsUnsignedLongLong(object));
    const bool tooLarge = PyErr_Occurred() != nullptr;
    PyErr_Clear();
    const size_t bits = 8 * dtc_dtype_size(about.dtype);
    const bool fits =
        !tooLarge &&
        (bits == 64 || (isSigned ? v >= -(int64_t(1) << (bits - 1)) && v < (int64_t(1) << (bits - 1))
                                 : static_cast<uint64_t>(v) < (uint64_t(1) << bits)));
    if (!fits)
      throw nb::value_error(
          (nameOf(about) + " does not hold this number: it is " + dtc_dtype_name(about.dtype)).c_str());
    std::memcpy(number_, &v, 8); // little-endian: the low bytes are the number
  } else if (about.dtype == DTC_F32 || about.dtype == DTC_F64) {
    const double v = PyFloat_AsDouble(object);
    if (v == -1 && PyErr_Occurred()) throw nb::python_error();
    const float single = static_cast<float>(v);
    if (about.dtype == DTC_F32)
      std::memcpy(number_, &single, 4);
    else
      std::memcpy(number_, &v, 8);
  } else if (const auto* small = std::ranges::find(kFloats, about.dtype, &FloatFormat::dtype);
             small != std::end(kFloats)) {
    const double v = PyFloat_AsDouble(object);
    if (v == -1 && PyErr_Occurred()) throw nb::python_error();
    const uint16_t bits = bitsOf(v, *small);
    std::memcpy(number_, &bits, 2); // little-endian: the low byte is an f8
  } else {
    typeError(nameOf(about) + " is " + dtc_dtype_name(about.dtype) +
              "; pass a tensor of that dtype instead of a Python " + Py_TYPE(object)->tp_name);
  }
  buffer_ = {number_, about.dtype, 0, shape_, nullptr, DTC_DEVICE_CPU, 0};
}

} // namespace dtc::python
