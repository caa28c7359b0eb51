#pragma once
// Where the value of an argument is: a tensor in memory, or a run of a file's bytes of which each device reads its own.
#include "dtc/Runtime/InputFile.h"
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/Tensor.h"
#include <memory>

namespace dtc {

class TensorSource {
public:
  TensorSource() = default;
  explicit TensorSource(Tensor tensor)
      : dtype_(tensor.dtype()), shape_(tensor.shape()), tensor_(std::move(tensor)) {}
  // Little-endian elements, row-major, from byte `offset` of the file on. The caller has checked that they are all there.
  TensorSource(std::shared_ptr<const InputFile> file, int64_t offset, DType dtype, std::vector<int64_t> shape)
      : dtype_(dtype), shape_(std::move(shape)), file_(std::move(file)), offset_(offset) {}

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<int64_t>& shape() const { return shape_; }
  [[nodiscard]] bool inFile() const { return file_ != nullptr; }

  // All of it. Errors: the file's; Machine where memory runs out.
  [[nodiscard]] Result<Tensor> whole() const;
  // What the device at `place` holds; of a file, only the bytes of that are read (and small gaps between them).
  [[nodiscard]] Result<Tensor> piece(const Sharding&, const Mesh&, int64_t place) const;

private:
  DType dtype_ = DType::F32;
  std::vector<int64_t> shape_;
  Tensor tensor_;
  std::shared_ptr<const InputFile> file_;
  int64_t offset_ = 0;
};

} // namespace dtc
