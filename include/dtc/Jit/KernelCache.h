#pragma once
// Compiled kernels on disk: one folder, one file per kernel. A failure of the cache is never an error:
// entries that cannot be read are compiled again, entries that cannot be written are dropped. It has a size
// limit, which it may exceed by some per cent: processes that have stored entries evict the least recently used ones
// at their end. Any number of processes may use it concurrently.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

// The maximum total size of the entries: this variable's value, as parseBytes reads it, else the default.
inline constexpr const char* kCacheMaxVariable = "DTC_CACHE_MAX";
inline constexpr int64_t kDefaultCacheMax = int64_t{256} << 20;
[[nodiscard]] int64_t cacheMaxBytes();

struct CacheEntry {
  std::string name, target; // in the file name: "cpu-avx2", "sm_90", "" where it is unknown
  int64_t bytes = 0;
  int64_t used = 0; // seconds since 1970, to within an hour
};

class KernelCache {
public:
  // `dir` as in JitConfig::cacheDir. The folder is created (0700) if it is missing, and used only if it is a
  // folder, not a link, belongs to this user and is writable by nobody else; then it is made 0700 if it is
  // not.
  explicit KernelCache(const std::string& dir);
  KernelCache() = default; // disabled
  ~KernelCache();
  KernelCache(KernelCache&&) noexcept;
  KernelCache& operator=(KernelCache&&) noexcept;
  // The folder used for an empty `dir`; "" where neither $XDG_CACHE_HOME nor $HOME is set.
  [[nodiscard]] static std::string defaultFolder();
  // An existing folder; nothing is created.
  [[nodiscard]] static KernelCache existing(const std::string& dir);

  [[nodiscard]] bool open() const { return folder_ >= 0; }
  // `key` contains everything that the content depends on. A returned entry was stored under exactly this key
  // and is intact: the file contains a SHA-256 over key and content. Updates the entry's time of last use.
  // `target` is part of the entry's file name: letters, digits, '-' and '_'.
  [[nodiscard]] std::optional<std::string> load(std::string_view key, std::string_view target = {}) const;
  // Writes a temporary file and renames it. Silent where that fails.
  void store(std::string_view key, std::string_view content, std::string_view target = {}) const;

  // All entries, the most recently used first. Removes temporary files of processes that were killed.
  [[nodiscard]] std::vector<CacheEntry> entries() const;
  // Removes an entry; a process that is reading it still gets it complete. False where it cannot be removed.
  [[nodiscard]] bool remove(const CacheEntry& entry) const;
  // Evicts the least recently used entries until the others have at most this many bytes; returns the removed
  // ones.
  std::vector<CacheEntry> shrinkTo(int64_t bytes) const;

private:
  int folder_ =
      -1; // descriptor: entries are reached relative to it, so that no later change of the path matters
  mutable std::atomic<int64_t> storedBytes_ = 0;
};

} // namespace dtc
