#pragma once
// A dense, row-major tensor in host memory, used by the evaluator, files and checks; kernels use raw buffers.
#include "dtc/Support/DType.h"
#include <complex>
#include <cstddef>
#include <span>
#include <vector>

namespace dtc {

class Tensor {
public:
  Tensor() = default;
  Tensor(DType dtype, std::vector<int64_t> shape); // zeros; the caller has checked the size

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  [[nodiscard]] size_t rank() const { return shape_.size(); }
  [[nodiscard]] int64_t numElements() const { return count_; }
  [[nodiscard]] std::span<std::byte> bytes() { return data_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return data_; }
  template <class T> [[nodiscard]] T* as() { return reinterpret_cast<T*>(data_.data()); }
  template <class T> [[nodiscard]] const T* as() const { return reinterpret_cast<const T*>(data_.data()); }

  // Element `i` in row-major order, widened: floats to double (exact), bool and integers to int64 (u64 as the
  // same bits).
  [[nodiscard]] double getFloat(int64_t i) const; // of any dtype except complex; u64 as its real value
  [[nodiscard]] int64_t getInt(int64_t i) const;  // of bool and integers
  // Rounds once / wraps to the dtype.
  void setFloat(int64_t i, double v);
  void setInt(int64_t i, int64_t v);
  // The same for any dtype as a complex number; a real tensor has imaginary part 0, and accepts no other.
  [[nodiscard]] std::complex<double> getComplex(int64_t i) const;
  void setComplex(int64_t i, std::complex<double> v);

  // Row-major strides in elements.
  [[nodiscard]] std::vector<int64_t> strides() const;
  // The same elements with a new shape of equal size.
  [[nodiscard]] Tensor reshaped(std::vector<int64_t> shape) const;
  // The real (part 0) or imaginary (part 1) plane of a complex tensor.
  [[nodiscard]] Tensor plane(int part) const;
  // A complex tensor as its parts with a last dim of 2 (real, imaginary), and the inverse: the same bytes.
  [[nodiscard]] Tensor parts() const;
  [[nodiscard]] static Tensor fromParts(const Tensor& parts);
  [[nodiscard]] static Tensor fromPlanes(const Tensor& real, const Tensor& imaginary);
  friend bool operator==(const Tensor&, const Tensor&) = default; // bitwise

private:
  DType dtype_ = DType::F32;
  std::vector<int64_t> shape_;
  int64_t count_ = 1;
  std::vector<std::byte> data_ = std::vector<std::byte>(4);
};

} // namespace dtc
