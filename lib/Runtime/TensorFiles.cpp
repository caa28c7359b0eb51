#include "dtc/Runtime/TensorFiles.h"

#include "dtc/Support/Checked.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {
namespace {

// A file open for reading, its size known: only regular files have one that can be trusted.
struct InputFile {
  int fd = -1;
  int64_t size = 0;
  std::string path;
  InputFile() = default;
  InputFile(InputFile&& o) noexcept : fd(std::exchange(o.fd, -1)), size(o.size), path(std::move(o.path)) {}
  ~InputFile() {
    if (fd >= 0) close(fd);
  }
};

std::string quoted(const std::string& path) { return "'" + path + "'"; }

Result<InputFile> openInput(const std::string& path) {
  InputFile file;
  file.path = path;
  file.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd < 0) return inputError("cannot read " + quoted(path) + ": " + std::strerror(errno));
  struct stat info;
  if (fstat(file.fd, &info) != 0)
    return machineError("cannot ask for the size of " + quoted(path) + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return inputError("cannot read " + quoted(path) + ": it is not a regular file");
  file.size = info.st_size;
  return file;
}

Status readAt(const InputFile& file, int64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    ssize_t n = pread(file.fd, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return machineError("cannot read " + quoted(file.path) + ": " + std::strerror(errno));
    if (n == 0) return inputError(quoted(file.path) + " became shorter while it was read");
    done += static_cast<size_t>(n);
  }
  return Ok{};
}

void swapBytes(Tensor& t) {
  size_t width = static_cast<size_t>(dtypeBytes(t.dtype()));
  auto* p = reinterpret_cast<char*>(t.bytes().data());
  for (size_t i = 0; i < t.bytes().size(); i += width)
    for (size_t a = 0, b = width - 1; a < b; ++a, --b) std::swap(p[i + a], p[i + b]);
}

// Column-major elements to row-major ones.
Tensor fromFortranOrder(const Tensor& in) {
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

void normaliseBools(Tensor& t) {
  if (t.dtype() != DType::Bool) return;
  for (std::byte& b : t.bytes()) b = std::byte(b != std::byte(0));
}

// What the file's elements are to a program that asks for `want`.
Result<DType> dtypeAs(const NpyHeader& header, std::optional<DType> want, const std::string& path) {
  DType bits = header.dtype;
  if (!want) {
    if (header.raw) return inputError(quoted(path) + " holds raw elements whose type the file does not name");
    return bits;
  }
  bool isBits = (*want == DType::BF16 && bits == DType::U16) ||
                ((*want == DType::F8E4M3 || *want == DType::F8E5M2) && bits == DType::U8);
  if (isBits || (bits == *want && !header.raw)) return *want;
  return inputError(quoted(path) + " holds " + (header.raw ? "raw " : "") + std::string(dtypeName(bits)) +
                    ", the program asks for " + std::string(dtypeName(*want)));
}

Result<Tensor> readData(const InputFile& file, int64_t offset, DType dtype, std::vector<int64_t> shape) {
  Tensor t(dtype, std::move(shape));
  if (Status s = readAt(file, offset, t.bytes()); !s) return s.error();
  return t;
}

Status writeAll(int fd, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return machineError("cannot write " + quoted(path) + ": " + std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return Ok{};
}

Status writeInPlace(const std::string& path, std::string_view bytes) {
  int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return machineError("cannot write " + quoted(path) + ": " + std::strerror(errno));
  Status s = writeAll(fd, bytes, path);
  if (close(fd) != 0 && s) s = machineError("cannot write " + quoted(path) + ": " + std::strerror(errno));
  return s;
}

} // namespace

Result<Tensor> readNpy(const std::string& path, std::optional<DType> want) {
  auto file = openInput(path);
  if (!file) return file.error();
  std::string start(static_cast<size_t>(std::min<int64_t>(file->size, 65536 + 12)), '\0');
  if (Status s = readAt(*file, 0, std::as_writable_bytes(std::span(start))); !s) return s.error();
  auto header = parseNpyHeader(start, quoted(path));
  if (!header) return header.error();
  auto dtype = dtypeAs(*header, want, path);
  if (!dtype) return dtype.error();
  int64_t bytes = *checkedProduct(header->shape) * dtypeBytes(*dtype); // parseNpyHeader checked that it fits
  int64_t held = file->size - static_cast<int64_t>(header->dataOffset);
  if (bytes != held)
    return inputError(quoted(path) + " is damaged: its shape asks for " + std::to_string(bytes) +
                      " bytes of data, it has " + std::to_string(held));
  auto t = readData(*file, static_cast<int64_t>(header->dataOffset), *dtype, header->shape);
  if (!t) return t;
  if (header->bigEndian) swapBytes(*t);
  normaliseBools(*t);
  if (header->fortranOrder && t->rank() > 1) return fromFortranOrder(*t);
  return t;
}

Result<Tensor> readRaw(const std::string& path, DType dtype, std::vector<int64_t> shape) {
  auto file = openInput(path);
  if (!file) return file.error();
  auto count = checkedProduct(shape);
  auto bytes = count ? checkedMul(*count, dtypeBytes(dtype)) : std::nullopt;
  if (!bytes) return inputError("the argument is too large to read from " + quoted(path));
  if (file->size < *bytes)
    return inputError(quoted(path) + " is too short: the argument takes " + std::to_string(*bytes) +
                      " bytes, the file has " + std::to_string(file->size));
  auto t = readData(*file, 0, dtype, std::move(shape));
  if (t) normaliseBools(*t);
  return t;
}

Status writeNpy(const std::string& path, const Tensor& tensor) {
  return writeFileAtomically(path, npyBytes(tensor));
}

Status writeFileAtomically(const std::string& path, std::string_view bytes) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return writeInPlace(path, bytes);
  std::string temporary = path + ".XXXXXX";
  int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return machineError("cannot write " + quoted(path) + ": " + std::strerror(errno));
  mode_t mask = umask(0);
  umask(mask);
  Status s = writeAll(fd, bytes, path);
  if (s && fchmod(fd, 0666 & ~mask) != 0)
    s = machineError("cannot write " + quoted(path) + ": " + std::strerror(errno));
  if (close(fd) != 0 && s) s = machineError("cannot write " + quoted(path) + ": " + std::strerror(errno));
  if (s && rename(temporary.c_str(), path.c_str()) != 0)
    s = machineError("cannot write " + quoted(path) + ": " + std::strerror(errno));
  if (!s) unlink(temporary.c_str());
  return s;
}

} // namespace dtc
