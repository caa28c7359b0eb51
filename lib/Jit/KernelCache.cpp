#include "dtc/Jit/KernelCache.h"
#include "Sha256.h"
#include <array>
#include <cstdlib>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {
namespace {

// An entry: kMagic, the digest of key and content, the content. The key is in the file's name as its own digest.
constexpr std::string_view kMagic = "dtc kernel 1\n";
constexpr size_t kHead = kMagic.size() + 32;
constexpr off_t kLargest = off_t{256} << 20;

std::string defaultFolder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && xdg[0] == '/') return std::string(xdg) + "/dtc";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/')
    return std::string(home) + "/.cache/dtc";
  return {};
}

void makeFolders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

// A folder that others can write to is not used, whatever is in it; one that they can read is closed to them.
int openFolder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info;
  if (folder >= 0 && fstat(folder, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 022) == 0 &&
      ((info.st_mode & 077) == 0 || fchmod(folder, 0700) == 0))
    return folder;
  if (folder >= 0) close(folder);
  return -1;
}

// A name that nobody else writes to: neither another thread or process, nor one that was killed at it.
std::string temporaryName() {
  std::array<uint8_t, 16> bits{};
  if (getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) return {};
  std::string name = "tmp.";
  for (uint8_t b : bits)
    for (int digit : {b >> 4, b & 15}) name += "0123456789abcdef"[digit];
  return name;
}

std::string entryName(std::string_view key) { return toHex(Sha256().field(key).finish()); }

std::string_view bytesOf(const std::array<uint8_t, 32>& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

bool readAll(int file, char* to, size_t size) {
  while (size) {
    const ssize_t n = read(file, to, size);
    if (n <= 0) return false;
    to += n, size -= static_cast<size_t>(n);
  }
  return true;
}

bool writeAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(file, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

} // namespace

KernelCache::KernelCache(const std::string& dir) {
  const std::string path = dir.empty() ? defaultFolder() : dir;
  if (path.empty()) return;
  folder_ = openFolder(path);
  if (folder_ >= 0 || errno != ENOENT) return;
  makeFolders(path);
  folder_ = openFolder(path);
}

KernelCache::~KernelCache() {
  if (folder_ >= 0) close(folder_);
}

KernelCache::KernelCache(KernelCache&& other) noexcept : folder_(std::exchange(other.folder_, -1)) {}

KernelCache& KernelCache::operator=(KernelCache&& other) noexcept {
  std::swap(folder_, other.folder_);
  return *this;
}

std::optional<std::string> KernelCache::load(std::string_view key) const {
  if (folder_ < 0) return std::nullopt;
  const int file = openat(folder_, entryName(key).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  std::string bytes;
  struct stat info;
  bool whole = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
               info.st_size >= static_cast<off_t>(kHead) && info.st_size <= kLargest;
  if (whole) {
    bytes.resize(static_cast<size_t>(info.st_size));
    whole = readAll(file, bytes.data(), bytes.size());
  }
  close(file);
  if (!whole || std::string_view(bytes).substr(0, kMagic.size()) != kMagic) return std::nullopt;
  const auto digest = Sha256().field(key).field(std::string_view(bytes).substr(kHead)).finish();
  if (std::string_view(bytes).substr(kMagic.size(), 32) != bytesOf(digest)) return std::nullopt;
  bytes.erase(0, kHead);
  return bytes;
}

void KernelCache::store(std::string_view key, std::string_view content) const {
  if (folder_ < 0) return;
  const std::string name = entryName(key);
  const std::string temporary = temporaryName();
  if (temporary.empty()) return;
  const int file =
      openat(folder_, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  const auto digest = Sha256().field(key).field(content).finish();
  bool written = writeAll(file, kMagic) && writeAll(file, bytesOf(digest)) && writeAll(file, content);
  written = close(file) == 0 && written;
  if (!written || renameat(folder_, temporary.c_str(), folder_, name.c_str()) != 0)
    unlinkat(folder_, temporary.c_str(), 0);
}

} // namespace dtc
