#pragma once
// The source of an argument's value: a tensor in memory, or bytes of files, of which each device reads its own shard.
#include "dtc/Files/InputFile.h"
#include "dtc/Files/TensorBox.h"
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/Tensor.h"
#include <functional>
#include <memory>

namespace dtc {

class TensorSource {
public:
  // Fills `out` with the row-major bytes from `begin` on.
  using Reader = std::function<Status(int64_t begin, std::span<std::byte> out)>;

  TensorSource() = default;
  explicit TensorSource(Tensor tensor)
      : dtype_(tensor.dtype()), shape_(tensor.shape()), tensor_(std::move(tensor)) {}
  // Little-endian elements, row-major, from byte `offset` of the file on. The caller has checked that the
  // range is in the file.
  TensorSource(std::shared_ptr<const InputFile> file, int64_t offset, DType dtype, std::vector<int64_t> shape)
      : dtype_(dtype), shape_(std::move(shape)), file_(std::move(file)), offset_(offset) {}
  // Bytes that are in several places, or are converted.
  TensorSource(DType dtype, std::vector<int64_t> shape, Reader reader)
      : dtype_(dtype), shape_(std::move(shape)), reader_(std::move(reader)) {}

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  [[nodiscard]] bool inFile() const { return file_ || reader_; }      // not in memory
  [[nodiscard]] int64_t offset() const { return offset_; }            // in the file
  [[nodiscard]] const InputFile* file() const { return file_.get(); } // null: in memory, or converted
  // Whether both are the same range of a file.
  [[nodiscard]] bool sharesBytes(const TensorSource& other) const {
    return file_ && file_ == other.file_ && offset_ == other.offset_ && dtype_ == other.dtype_ &&
           shape_ == other.shape_;
  }

  // The row-major bytes from `begin` on, which the caller has checked against the shape.
  [[nodiscard]] Status read(int64_t begin, std::span<std::byte> out) const;
  // All of it. Errors: the file's; Machine if memory runs out.
  [[nodiscard]] Result<Tensor> tensor() const;
  // The same bytes as another type of equal size.
  [[nodiscard]] TensorSource as(DType dtype, std::vector<int64_t> shape) const;
  // A box of it; reads as shard() does.
  [[nodiscard]] Result<Tensor> box(const TensorBox&) const;
  // The shard of the device at `coordinate`; only the bytes of the shard are read from a file (and small gaps
  // between them).
  [[nodiscard]] Result<Tensor> shard(const Sharding&, const Mesh&, int64_t coordinate) const;

private:
  void withReader(const std::function<void(const Reader&)>& use) const;

  DType dtype_ = DType::F32;
  std::vector<int64_t> shape_;
  Tensor tensor_;
  std::shared_ptr<const InputFile> file_;
  int64_t offset_ = 0;
  Reader reader_;
};

} // namespace dtc
