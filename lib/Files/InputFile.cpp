#include "dtc/Files/InputFile.h"

#include "dtc/Support/OutOfMemory.h"
#include "dtc/Support/Sha256.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dtc {
static Error cannotRead(const std::string& path, const std::string& why) {
  return inputError("cannot read " + quotedPath(path) + ": " + why);
}

static Error cannotRead(const std::string& path, int number) {
  return {isMachineErrno(number) ? Error::Machine : Error::Input,
          "cannot read " + quotedPath(path) + ": " + std::strerror(number)};
}

// O_NONBLOCK: opening a pipe must not block.
constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;

static int openBelow(int folder, const std::string& name) {
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  auto fd = static_cast<int>(syscall(SYS_openat2, folder, name.c_str(), &how, sizeof how));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
  // A kernel without openat2, or a sandbox that forbids it: only plain names are accepted.
  if (name.find('/') != std::string::npos || name == "..") {
    errno = EXDEV;
    return -1;
  }
  return openat(folder, name.c_str(), kFlags | O_NOFOLLOW);
}

InputFile::InputFile(InputFile&& o) noexcept { *this = std::move(o); }

InputFile& InputFile::operator=(InputFile&& o) noexcept {
  std::swap(fd_, o.fd_);
  std::swap(size_, o.size_);
  std::swap(path_, o.path_);
  std::swap(held_, o.held_);
  std::swap(memory_, o.memory_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

Result<InputFile> InputFile::opened(int fd, std::string path) {
  InputFile file;
  file.fd_ = fd;
  file.path_ = std::move(path);
  struct stat info;
  if (fstat(fd, &info) != 0)
    return machineError("cannot get the size of " + quotedPath(file.path_) + ": " + std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return cannotRead(file.path_, "it is not a regular file");
  file.size_ = info.st_size;
  return file;
}

Result<InputFile> InputFile::open(const std::string& path) {
  int fd = ::open(path.c_str(), kFlags);
  if (fd < 0) return cannotRead(path, errno);
  return opened(fd, path);
}

Result<InputFile> InputFile::openBeneath(const std::string& folder, const std::string& name) {
  const std::string path = folder.empty() ? name : folder + "/" + name;
  if (name.empty() || name.find('\0') != std::string::npos)
    return cannotRead(path, "it is not a valid file name");
  int at = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (at < 0) return cannotRead(folder, errno);
  int fd = openBelow(at, name);
  const int failure = errno;
  close(at);
  if (fd < 0 && (failure == EXDEV || failure == ELOOP))
    return cannotRead(path, failure == EXDEV ? "it is outside the folder of the file that names it"
                                             : "it is a symbolic link, or in a folder that is one");
  if (fd < 0) return cannotRead(path, failure);
  auto file = opened(fd, path);
  struct stat info;
  if (file && fstat(fd, &info) == 0 && info.st_nlink > 1)
    return cannotRead(path, "it has other hard links, and may belong to another user");
  return file;
}

InputFile InputFile::inMemory(std::string path, std::string_view bytes) {
  InputFile file;
  file.path_ = std::move(path);
  file.size_ = static_cast<int64_t>(bytes.size());
  file.memory_ = bytes;
  return file;
}

InputFile InputFile::holding(std::string path, std::string bytes) {
  auto held = std::make_shared<const std::string>(std::move(bytes));
  InputFile file = inMemory(std::move(path), *held);
  file.held_ = std::move(held);
  return file;
}

Status InputFile::read(int64_t offset, std::span<std::byte> out) const {
  if (offset < 0 || offset > size_ || static_cast<int64_t>(out.size()) > size_ - offset)
    return inputError(quotedPath(path_) + " ends before its byte " +
                      std::to_string(static_cast<uint64_t>(offset) + out.size()));
  if (fd_ < 0) {
    if (!out.empty()) std::memcpy(out.data(), memory_.data() + offset, out.size());
    return Ok{};
  }
  size_t done = 0;
  while (done < out.size()) {
    ssize_t n = pread(fd_, out.data() + done, out.size() - done, offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return machineError("cannot read " + quotedPath(path_) + ": " + std::strerror(errno));
    if (n == 0) return inputError(quotedPath(path_) + " was truncated while it was read");
    done += static_cast<size_t>(n);
  }
  return Ok{};
}

Result<std::string> InputFile::text(int64_t offset, int64_t length) const {
  std::string bytes(static_cast<size_t>(length), '\0');
  if (Status s = read(offset, std::as_writable_bytes(std::span(bytes))); !s) return s.error();
  return bytes;
}

Result<std::string> InputFile::digest() const {
  constexpr int64_t kWhole = int64_t{1} << 20, kBlock = 4096, kBlocks = 64;
  const bool whole = size_ <= kWhole;
  const int64_t blocks = whole ? 1 : kBlocks, length = whole ? size_ : kBlock;
  Sha256 hash;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t last = size_ - length, each = blocks > 1 ? last / (blocks - 1) : 0;
    DTC_TRY(const std::string bytes, text(i + 1 == blocks ? last : i * each, length));
    hash.add(bytes);
  }
  return std::to_string(size_) + " bytes, SHA-256 " + toHex(hash.finish()).substr(0, 16);
}

FileMapping::~FileMapping() { (void)munmap(const_cast<std::byte*>(data_), bytes_); }

std::shared_ptr<const FileMapping> InputFile::map() const {
  if (fd_ < 0 || size_ == 0) return nullptr;
  const auto bytes = static_cast<size_t>(size_);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (data == MAP_FAILED) return nullptr;
  return std::make_shared<const FileMapping>(static_cast<const std::byte*>(data), bytes);
}

} // namespace dtc
