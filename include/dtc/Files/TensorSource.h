#pragma once
// The source of an argument's value: a tensor in memory, or a range of a file, of which each device reads its
// own shard.
#include "dtc/Files/InputFile.h"
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/Tensor.h"
#include <memory>

namespace dtc {

class TensorSource {
public:
  TensorSource() = default;
  explicit TensorSource(Tensor tensor)
      : dtype_(tensor.dtype()), shape_(tensor.shape()), tensor_(std::move(tensor)) {}
  // Little-endian elements, row-major, from byte `offset` of the file on. The caller has checked that the
  // range is in the file.
  TensorSource(std::shared_ptr<const InputFile> file, int64_t offset, DType dtype, std::vector<int64_t> shape)
      : dtype_(dtype), shape_(std::move(shape)), file_(std::move(file)), offset_(offset) {}

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  [[nodiscard]] bool inFile() const { return file_ != nullptr; }
  [[nodiscard]] int64_t offset() const { return offset_; } // in the file
  // Whether both are the same range of a file.
  [[nodiscard]] bool sharesBytes(const TensorSource& other) const {
    return file_ && file_ == other.file_ && offset_ == other.offset_ && dtype_ == other.dtype_ &&
           shape_ == other.shape_;
  }

  // The row-major bytes from `begin` on, which the caller has checked against the shape.
  [[nodiscard]] Status read(int64_t begin, std::span<std::byte> out) const;
  // All of it. Errors: the file's; Machine if memory runs out.
  [[nodiscard]] Result<Tensor> tensor() const;
  // The shard of the device at `coordinate`; only the bytes of the shard are read from a file (and small gaps
  // between them).
  [[nodiscard]] Result<Tensor> shard(const Sharding&, const Mesh&, int64_t coordinate) const;

private:
  DType dtype_ = DType::F32;
  std::vector<int64_t> shape_;
  Tensor tensor_;
  std::shared_ptr<const InputFile> file_;
  int64_t offset_ = 0;
};

} // namespace dtc
