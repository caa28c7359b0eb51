#include "dtc/Support/Tensor.h"
#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Result.h"
#include <cstring>

namespace dtc {
namespace {

template <class T> T load(std::span<const std::byte> data, int64_t i) {
  T v;
  std::memcpy(&v, data.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return v;
}
template <class T> void store(std::span<std::byte> data, int64_t i, T v) {
  std::memcpy(data.data() + static_cast<size_t>(i) * sizeof(T), &v, sizeof(T));
}

} // namespace

Tensor::Tensor(DType dtype, std::vector<int64_t> shape) : dtype_(dtype), shape_(std::move(shape)) {
  auto count = elementCount(shape_);
  auto bytes = count ? checkedMul(*count, dtypeBytes(dtype)) : std::nullopt;
  DTC_CHECK(bytes && *bytes >= 0, "the size of a tensor was not checked before it was made");
  count_ = *count;
  data_.assign(static_cast<size_t>(*bytes), std::byte{0});
}

int64_t Tensor::getInt(int64_t i) const {
  std::span<const std::byte> d = data_;
  switch (dtype_) {
  case DType::Bool: return load<uint8_t>(d, i) != 0;
  case DType::I8: return load<int8_t>(d, i);
  case DType::I16: return load<int16_t>(d, i);
  case DType::I32: return load<int32_t>(d, i);
  case DType::U8: return load<uint8_t>(d, i);
  case DType::U16: return load<uint16_t>(d, i);
  case DType::U32: return load<uint32_t>(d, i);
  case DType::I64:
  case DType::U64: return load<int64_t>(d, i);
  default: return floatToInt(DType::I64, getFloat(i));
  }
}

double Tensor::getFloat(int64_t i) const {
  std::span<const std::byte> d = data_;
  switch (dtype_) {
  case DType::F8E4M3: return f8E4M3ToFloat(load<uint8_t>(d, i));
  case DType::F8E5M2: return f8E5M2ToFloat(load<uint8_t>(d, i));
  case DType::BF16: return bf16ToFloat(load<uint16_t>(d, i));
  case DType::F16: return f16ToFloat(load<uint16_t>(d, i));
  case DType::F32: return load<float>(d, i);
  case DType::F64: return load<double>(d, i);
  case DType::U64: return static_cast<double>(load<uint64_t>(d, i));
  case DType::C64:
  case DType::C128: DTC_CHECK(false, "a complex element was read as a real number"); return 0;
  default: return static_cast<double>(getInt(i));
  }
}

void Tensor::setInt(int64_t i, int64_t v) {
  std::span<std::byte> d = data_;
  if (isFloat(dtype_) || isComplex(dtype_)) return setFloat(i, static_cast<double>(v));
  v = wrapToInt(dtype_, v);
  switch (dtypeBytes(dtype_)) {
  case 1: return store(d, i, static_cast<uint8_t>(v));
  case 2: return store(d, i, static_cast<uint16_t>(v));
  case 4: return store(d, i, static_cast<uint32_t>(v));
  default: return store(d, i, v);
  }
}

void Tensor::setFloat(int64_t i, double v) {
  std::span<std::byte> d = data_;
  switch (dtype_) {
  case DType::F8E4M3: return store(d, i, doubleToF8E4M3(v));
  case DType::F8E5M2: return store(d, i, doubleToF8E5M2(v));
  case DType::BF16: return store(d, i, doubleToBf16(v));
  case DType::F16: return store(d, i, doubleToF16(v));
  case DType::F32: return store(d, i, static_cast<float>(v));
  case DType::F64: return store(d, i, v);
  case DType::C64:
  case DType::C128: return setComplex(i, v);
  default: return setInt(i, floatToInt(dtype_, v));
  }
}

std::complex<double> Tensor::getComplex(int64_t i) const {
  if (dtype_ == DType::C64) return load<std::complex<float>>(data_, i);
  if (dtype_ == DType::C128) return load<std::complex<double>>(data_, i);
  return getFloat(i);
}

void Tensor::setComplex(int64_t i, std::complex<double> v) {
  if (dtype_ == DType::C64) return store(std::span(data_), i, std::complex<float>(v));
  if (dtype_ == DType::C128) return store(std::span(data_), i, v);
  DTC_CHECK(v.imag() == 0, "a complex number was written to a real tensor");
  setFloat(i, v.real());
}

Tensor Tensor::parts() const {
  DTC_CHECK(isComplex(dtype_), "only a complex tensor has parts");
  Tensor t = *this;
  t.dtype_ = partType(dtype_);
  t.shape_.push_back(2);
  t.count_ *= 2;
  return t;
}

Tensor Tensor::fromParts(const Tensor& parts) {
  auto dtype = complexType(parts.dtype_);
  DTC_CHECK(dtype && !parts.shape_.empty() && parts.shape_.back() == 2,
            "expected the parts of a complex tensor");
  Tensor t = parts;
  t.dtype_ = *dtype;
  t.shape_.pop_back();
  t.count_ /= 2;
  return t;
}

Tensor Tensor::plane(int part) const {
  DTC_CHECK(isComplex(dtype_), "only a complex tensor has planes");
  Tensor t(partType(dtype_), shape_);
  const auto width = static_cast<size_t>(dtypeBytes(t.dtype_));
  for (size_t i = 0; i < static_cast<size_t>(count_); ++i)
    std::memcpy(t.data_.data() + i * width, data_.data() + (2 * i + static_cast<size_t>(part)) * width,
                width);
  return t;
}

Tensor Tensor::fromPlanes(const Tensor& real, const Tensor& imaginary) {
  DTC_CHECK(real.dtype_ == imaginary.dtype_ && real.shape_ == imaginary.shape_ && complexType(real.dtype_),
            "expected the planes of a complex tensor");
  Tensor t(*complexType(real.dtype_), real.shape_);
  const auto width = static_cast<size_t>(dtypeBytes(real.dtype_));
  for (size_t i = 0; i < static_cast<size_t>(t.count_); ++i) {
    std::memcpy(t.data_.data() + 2 * i * width, real.data_.data() + i * width, width);
    std::memcpy(t.data_.data() + (2 * i + 1) * width, imaginary.data_.data() + i * width, width);
  }
  return t;
}

std::vector<int64_t> Tensor::strides() const {
  std::vector<int64_t> s(shape_.size(), 1);
  for (size_t d = shape_.size(); d-- > 1;) // exceeds 2^63 only if there are no elements
    s[d - 1] = checkedMul(s[d], shape_[d]).value_or(INT64_MAX);
  return s;
}

Tensor Tensor::reshaped(std::vector<int64_t> shape) const {
  DTC_CHECK(elementCount(shape) == count_, "a tensor was reshaped to a different number of elements");
  Tensor t = *this;
  t.shape_ = std::move(shape);
  return t;
}

} // namespace dtc
