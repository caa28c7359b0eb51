#include "dtc/Files/TensorFiles.h"

#include "Npy.h"
#include "dtc/Support/ElementCount.h"
#include "dtc/Support/OutOfMemory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {
static void swapBytes(Tensor& t) {
  size_t width = static_cast<size_t>(dtypeBytes(partType(t.dtype())));
  auto* p = reinterpret_cast<char*>(t.bytes().data());
  for (size_t i = 0; i < t.bytes().size(); i += width)
    for (size_t a = 0, b = width - 1; a < b; ++a, --b) std::swap(p[i + a], p[i + b]);
}

// Converts column-major elements to row-major.
static Tensor fromFortranOrder(const Tensor& in) {
  Tensor out(in.dtype(), in.shape());
  size_t width = static_cast<size_t>(dtypeBytes(in.dtype())), rank = in.rank();
  std::vector<int64_t> index(rank), stride(rank);
  int64_t step = 1;
  for (size_t d = 0; d < rank; ++d) stride[d] = step, step *= in.shape()[d];
  const std::byte* src = in.bytes().data();
  std::byte* dst = out.bytes().data();
  int64_t from = 0;
  for (int64_t i = 0; i < in.numElements(); ++i) {
    std::memcpy(dst + static_cast<size_t>(i) * width, src + static_cast<size_t>(from) * width, width);
    for (size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < in.shape()[d]) break;
      from -= stride[d] * in.shape()[d];
      index[d] = 0;
    }
  }
  return out;
}

static Status writeAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return machineError("cannot write " + quotedPath(path) + ": " + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Ok{};
}

using Writing = std::function<Status(const ByteSink&)>;

static Status writeTo(int fd, const std::string& path, const Writing& write) {
  Status s = write([&](std::string_view bytes) { return writeAll(fd, bytes, path); });
  if (close(fd) != 0 && s) s = machineError("cannot write " + quotedPath(path) + ": " + std::strerror(errno));
  return s;
}

static Status writeInPlace(const std::string& path, const Writing& write) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return machineError("cannot write " + quotedPath(path) + ": " + std::strerror(errno));
  return writeTo(fd, path, write);
}

Result<DType> planNpy(const NpyHeader& header, int64_t size, std::optional<DType> want,
                      const std::string& what) {
  const DType bits = header.dtype;
  if (!want && header.raw) return inputError(what + " has raw elements whose type the file does not specify");
  const bool isBits =
      want && ((*want == DType::BF16 && bits == DType::U16) || (isF8(*want) && bits == DType::U8));
  if (want && !isBits && (bits != *want || header.raw))
    return inputError(what + " has " + (header.raw ? "raw " : "") + std::string(dtypeName(bits)) +
                      ", but the program expects " + std::string(dtypeName(*want)));
  const int64_t bytes = *elementCount(header.shape) * dtypeBytes(bits); // parseNpyHeader checked that it fits
  const int64_t held = size - static_cast<int64_t>(header.dataOffset);
  if (bytes != held)
    return inputError(what + " is damaged: its shape needs " + std::to_string(bytes) +
                      " bytes of data, but it has " + std::to_string(held));
  return want.value_or(bits);
}

bool isPlainNpy(const NpyHeader& header) {
  return !header.bigEndian && (!header.fortranOrder || header.shape.size() < 2);
}

Tensor arrangeNpy(const NpyHeader& header, Tensor t) {
  if (header.bigEndian) swapBytes(t);
  if (t.dtype() == DType::Bool)
    for (std::byte& b : t.bytes()) b = std::byte(b != std::byte(0));
  return header.fortranOrder && t.rank() > 1 ? fromFortranOrder(t) : t;
}

Result<TensorSource> openNpy(InputFile file, std::optional<DType> want) {
  DTC_TRY(auto start, file.text(0, std::min(file.size(), kNpyStart)));
  DTC_TRY(auto header, parseNpyHeader(start, quotedPath(file.path())));
  DTC_TRY(auto dtype, planNpy(header, file.size(), want, quotedPath(file.path())));
  TensorSource source(std::make_shared<const InputFile>(std::move(file)),
                      static_cast<int64_t>(header.dataOffset), dtype, header.shape);
  if (isPlainNpy(header)) return source;
  DTC_TRY(auto t, source.tensor());
  return TensorSource(arrangeNpy(header, std::move(t)));
}

Result<TensorSource> openRaw(InputFile file, DType dtype, std::vector<int64_t> shape) {
  auto count = elementCount(shape);
  auto bytes = count ? checkedMul(*count, dtypeBytes(dtype)) : std::nullopt;
  if (!bytes) return inputError("the argument is too large to read from " + quotedPath(file.path()));
  if (file.size() < *bytes)
    return inputError(quotedPath(file.path()) + " is too short: the argument needs " +
                      std::to_string(*bytes) + " bytes, the file has " + std::to_string(file.size()));
  return TensorSource(std::make_shared<const InputFile>(std::move(file)), 0, dtype, std::move(shape));
}

Result<Tensor> readNpy(const std::string& path, std::optional<DType> want) {
  DTC_TRY(auto file, InputFile::open(path));
  DTC_TRY(auto source, openNpy(std::move(file), want));
  return source.tensor();
}

Status writeNpy(const std::string& path, const Tensor& tensor) {
  return writeFileAtomically(path, npyBytes(tensor));
}

Status writeFileAtomically(const std::string& path, std::string_view bytes) {
  return writeFileAtomically(path, [&](const ByteSink& sink) { return sink(bytes); });
}

Status writeFileAtomically(const std::string& path, const Writing& write) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return writeInPlace(path, write);
  std::string temporary = path + ".XXXXXX";
  int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return machineError("cannot write " + quotedPath(path) + ": " + std::strerror(errno));
  PendingFile pending(temporary);
  mode_t mask = umask(0);
  umask(mask);
  Status s = writeTo(fd, path, [&](const ByteSink& sink) -> Status {
    if (Status done = write(sink); !done) return done;
    if (fchmod(fd, 0666 & ~mask) == 0) return Ok{};
    return machineError("cannot write " + quotedPath(path) + ": " + std::strerror(errno));
  });
  if (s && rename(temporary.c_str(), path.c_str()) != 0)
    s = machineError("cannot write " + quotedPath(path) + ": " + std::strerror(errno));
  if (s) pending.keep();
  return s;
}

} // namespace dtc
