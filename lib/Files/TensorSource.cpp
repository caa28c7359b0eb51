#include "dtc/Files/TensorSource.h"

#include "dtc/Eval/Eval.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

namespace dtc {
namespace {

constexpr int64_t kSmallGap = 4096;     // a page: reading it is as cheap as skipping it
constexpr int64_t kWindow = 256 * 1024; // the size of a combined read, if runs are small and close

// Reads the data of one tensor in ascending runs. Runs that are close share one read.
class RunReader {
public:
  RunReader(const InputFile& file, int64_t offset, int64_t bytes)
      : file_(file), offset_(offset), bytes_(bytes) {}

  Status read(int64_t begin, std::span<std::byte> out) {
    const auto length = static_cast<int64_t>(out.size());
    const int64_t gap = begin - last_;
    last_ = begin + length;
    if (begin >= windowBegin_ && begin + length <= windowBegin_ + windowSize()) return copy(begin, out);
    const bool near = gap > 0 && gap <= kSmallGap && length <= kSmallGap;
    if (!near) return file_.read(offset_ + begin, out);
    window_.resize(static_cast<size_t>(std::min(kWindow, bytes_ - begin)));
    windowBegin_ = begin;
    if (Status s = file_.read(offset_ + begin, window_); !s) return s;
    return copy(begin, out);
  }

private:
  int64_t windowSize() const { return static_cast<int64_t>(window_.size()); }
  Status copy(int64_t begin, std::span<std::byte> out) {
    std::memcpy(out.data(), window_.data() + (begin - windowBegin_), out.size());
    return Ok{};
  }

  const InputFile& file_;
  int64_t offset_, bytes_, last_ = INT64_MIN / 2, windowBegin_ = 0;
  std::vector<std::byte> window_;
};

// Any bit pattern but 0 is true.
void normalizeBools(DType dtype, std::span<std::byte> bytes) {
  if (dtype != DType::Bool) return;
  for (std::byte& b : bytes) b = std::byte(b != std::byte(0));
}

} // namespace

Status TensorSource::read(int64_t begin, std::span<std::byte> out) const {
  if (reader_) return reader_(begin, out);
  if (!file_) {
    std::memcpy(out.data(), tensor_.bytes().data() + begin, out.size());
    return Ok{};
  }
  if (Status s = file_->read(offset_ + begin, out); !s) return s;
  normalizeBools(dtype_, out);
  return Ok{};
}

Result<Tensor> TensorSource::tensor() const {
  if (!inFile()) return tensor_;
  try {
    Tensor t(dtype_, shape_);
    if (Status s = read(0, t.bytes()); !s) return s.error();
    return t;
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {}
  return machineError("not enough memory to read a tensor" +
                      (file_ ? " of '" + file_->path() + "'" : std::string()));
}

TensorSource TensorSource::as(DType dtype, std::vector<int64_t> shape) const {
  TensorSource out = *this;
  out.dtype_ = dtype;
  out.shape_ = std::move(shape);
  return out;
}

Result<Tensor> TensorSource::box(const TensorBox& box) const {
  if (!inFile()) return boxOf(tensor_, box);
  const int64_t width = dtypeBytes(dtype_);
  Tensor out(dtype_, box.shape);
  Status done = Ok{};
  const auto each = [&](const Reader& read) {
    forEachBoxRun(shape_, box, [&](int64_t from, int64_t to, int64_t n) {
      if (!done) return;
      done = read(from * width,
                  out.bytes().subspan(static_cast<size_t>(to * width), static_cast<size_t>(n * width)));
    });
  };
  withReader(each);
  if (!done) return done.error();
  return out;
}

Result<Tensor> TensorSource::shard(const Sharding& sharding, const Mesh& mesh, int64_t coordinate) const {
  if (!inFile()) return takeShard(tensor_, sharding, mesh, coordinate);
  Result<Tensor> out = Tensor();
  withReader([&](const Reader& read) { out = takeShard(dtype_, shape_, sharding, mesh, coordinate, read); });
  return out;
}

// Runs of a file that are close share one read.
void TensorSource::withReader(const std::function<void(const Reader&)>& use) const {
  if (reader_) return use(reader_);
  int64_t bytes = dtypeBytes(dtype_);
  for (int64_t n : shape_) bytes *= n;
  RunReader reader(*file_, offset_, bytes);
  use([&](int64_t begin, std::span<std::byte> out) {
    Status s = reader.read(begin, out);
    normalizeBools(dtype_, out);
    return s;
  });
}

} // namespace dtc
