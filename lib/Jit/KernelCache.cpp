#include "dtc/Jit/KernelCache.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Sha256.h"
#include "dtc/Support/Units.h"
#include "dtc/Support/Words.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <new>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dtc {
namespace {

// An entry: kMagic, the digest of key and content, the content. The file's name contains the key's own
// digest.
constexpr std::string_view kMagic = "dtc kernel 1\n";
constexpr size_t kHead = kMagic.size() + 32;
constexpr off_t kLargest = off_t{256} << 20;

constexpr int64_t kUsedPrecision = 3600;     // seconds: an entry's time of last use is not updated more often
constexpr int64_t kOldTemporary = 24 * 3600; // seconds: the process that wrote it has ended

int64_t nowSeconds() { return static_cast<int64_t>(std::time(nullptr)); }

void makeFolders(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

// A folder that others can write to is not used; one that they can read is made private.
int openFolder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat info;
  if (folder >= 0 && fstat(folder, &info) == 0 && info.st_uid == geteuid() && (info.st_mode & 022) == 0 &&
      ((info.st_mode & 077) == 0 || fchmod(folder, 0700) == 0))
    return folder;
  if (folder >= 0) close(folder);
  return -1;
}

// Listing a full cache, of some 50,000 entries, takes longer than compiling a small program. A process does it with a
// probability in proportion to what it has stored: on average once per fiftieth of the limit, however many processes
// there are.
bool isTimeToMeasure(int64_t storedBytes, int64_t maxBytes) {
  if (storedBytes >= maxBytes / 50) return true;
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return true;
  return static_cast<int64_t>(random % static_cast<uint64_t>(maxBytes / 50)) < storedBytes;
}

// A file name that no other thread or process uses, including one that was killed.
std::string temporaryName() {
  std::array<uint8_t, 16> bits{};
  if (getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) return {};
  std::string name = "tmp.";
  for (uint8_t b : bits)
    for (int digit : {b >> 4, b & 15}) name += "0123456789abcdef"[digit];
  return name;
}

std::string entryName(std::string_view key, std::string_view target) {
  std::string name = toHex(Sha256().field(key).finish());
  return target.empty() ? name : name + "." + std::string(target);
}

// True if it is a name made by entryName. Other files of the folder are left alone.
bool isEntryName(std::string_view name) {
  auto isHex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() >= 64 && std::all_of(name.begin(), name.begin() + 64, isHex) &&
         (name.size() == 64 || name[64] == '.');
}

int64_t total(const std::vector<CacheEntry>& entries) {
  int64_t bytes = 0;
  for (const CacheEntry& e : entries) bytes += e.bytes;
  return bytes;
}

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

int64_t cacheMaxBytes() {
  const char* wish = std::getenv(kCacheMaxVariable);
  return (wish ? parseBytes(wish) : std::nullopt).value_or(kDefaultCacheMax);
}

std::string KernelCache::defaultFolder() {
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && xdg[0] == '/') return std::string(xdg) + "/dtc";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/')
    return std::string(home) + "/.cache/dtc";
  return {};
}

KernelCache KernelCache::existing(const std::string& dir) {
  KernelCache cache;
  if (!dir.empty()) cache.folder_ = openFolder(dir);
  return cache;
}

KernelCache::KernelCache(const std::string& dir) {
  const std::string path = dir.empty() ? defaultFolder() : dir;
  if (path.empty()) return;
  folder_ = openFolder(path);
  if (folder_ >= 0 || errno != ENOENT) return;
  makeFolders(path);
  folder_ = openFolder(path);
}

KernelCache::~KernelCache() {
  if (folder_ < 0) return;
  try { // down to nine tenths, so that not every process has to remove entries
    const int64_t maxBytes = cacheMaxBytes();
    if (storedBytes_ > 0 && isTimeToMeasure(storedBytes_, maxBytes) && total(entries()) > maxBytes)
      shrinkTo(maxBytes / 10 * 9);
  } catch (const std::bad_alloc&) {} // another process will do it
  close(folder_);
}

KernelCache::KernelCache(KernelCache&& other) noexcept
    : folder_(std::exchange(other.folder_, -1)), storedBytes_(other.storedBytes_.exchange(0)) {}

KernelCache& KernelCache::operator=(KernelCache&& other) noexcept {
  std::swap(folder_, other.folder_);
  storedBytes_ = other.storedBytes_.exchange(storedBytes_);
  return *this;
}

std::vector<CacheEntry> KernelCache::entries() const {
  std::vector<CacheEntry> found;
  const int again = folder_ < 0 ? -1 : openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* listing = again < 0 ? nullptr : fdopendir(again);
  if (!listing) {
    if (again >= 0) close(again);
    return found;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> closes(listing, &closedir);
  while (const dirent* e = readdir(listing)) {
    const std::string_view name = e->d_name;
    const bool temporary = name.starts_with("tmp.");
    struct stat info;
    if ((!temporary && !isEntryName(name)) || fstatat(folder_, e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode))
      continue;
    const auto used = static_cast<int64_t>(info.st_mtim.tv_sec);
    if (!temporary)
      found.push_back({std::string(name), std::string(name.substr(std::min<size_t>(65, name.size()))),
                       static_cast<int64_t>(info.st_size), used});
    else if (used < nowSeconds() - kOldTemporary)
      unlinkat(folder_, e->d_name, 0);
  }
  std::sort(found.begin(), found.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return a.used != b.used ? a.used > b.used : a.name < b.name;
  });
  return found;
}

bool KernelCache::remove(const CacheEntry& entry) const {
  return folder_ >= 0 && (unlinkat(folder_, entry.name.c_str(), 0) == 0 || errno == ENOENT);
}

std::vector<CacheEntry> KernelCache::shrinkTo(int64_t bytes) const {
  std::vector<CacheEntry> removed;
  int64_t kept = 0;
  for (CacheEntry& e : entries()) {
    kept += e.bytes;
    if (kept > bytes && remove(e)) removed.push_back(std::move(e));
  }
  return removed;
}

std::optional<std::string> KernelCache::load(std::string_view key, std::string_view target) const {
  if (folder_ < 0) return std::nullopt;
  const int file =
      openat(folder_, entryName(key, target).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  std::string bytes;
  struct stat info;
  bool valid = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
               info.st_size >= static_cast<off_t>(kHead) && info.st_size <= kLargest;
  if (valid) {
    bytes.resize(static_cast<size_t>(info.st_size));
    valid = readAll(file, bytes.data(), bytes.size());
    if (info.st_mtim.tv_sec < nowSeconds() - kUsedPrecision) (void)futimens(file, nullptr);
  }
  close(file);
  if (!valid || std::string_view(bytes).substr(0, kMagic.size()) != kMagic) return std::nullopt;
  const auto digest = Sha256().field(key).field(std::string_view(bytes).substr(kHead)).finish();
  if (std::string_view(bytes).substr(kMagic.size(), 32) != bytesOf(digest)) return std::nullopt;
  bytes.erase(0, kHead);
  return bytes;
}

void KernelCache::store(std::string_view key, std::string_view content, std::string_view target) const {
  if (folder_ < 0 || static_cast<int64_t>(kHead + content.size()) > cacheMaxBytes()) return;
  storedBytes_ += static_cast<int64_t>(kHead + content.size());
  const std::string name = entryName(key, target);
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
