#pragma once
// Compiled kernels on disk: one folder, one file per kernel. Nothing that is wrong with it is ever an error: what cannot
// be read is compiled again, what cannot be written is not kept. It has a largest size: a process that has stored something
// removes, at its end, what has not been used for the longest time. Any number of processes may do all of that at once.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtc {

// "100MiB", "2GiB", "1048576": bytes; nothing if it is not such a number.
[[nodiscard]] std::optional<int64_t> parseBytes(std::string_view text);

// The most bytes that the entries have together: this variable's value, as parseBytes reads it, else the default.
inline constexpr const char* kCacheMaxVariable = "DTC_CACHE_MAX";
inline constexpr int64_t kDefaultCacheMax = int64_t{256} << 20;
[[nodiscard]] int64_t cacheMaxBytes();

struct CacheEntry {
  std::string name, target; // file name; "cpu-avx2", "sm_90", "" where it is not known
  int64_t bytes = 0;
  int64_t used = 0; // seconds since 1970, to within an hour
};

class KernelCache {
public:
  // `dir` as JitConfig::cacheDir. The folder is made (0700) if it is missing, and used only if it is a folder, not a link,
  // belongs to this user and is writable by nobody else; then it is made 0700 if it is not.
  explicit KernelCache(const std::string& dir);
  KernelCache() = default; // keeps nothing
  ~KernelCache();
  KernelCache(KernelCache&&) noexcept;
  KernelCache& operator=(KernelCache&&) noexcept;
  // The folder that an empty `dir` means; "" where neither $XDG_CACHE_HOME nor $HOME says.
  [[nodiscard]] static std::string defaultFolder();
  // A folder that is there already; nothing is made.
  [[nodiscard]] static KernelCache existing(const std::string& dir);

  [[nodiscard]] bool open() const { return folder_ >= 0; }
  // `key` says everything that the content depends on. What comes back was stored under exactly this key and is whole:
  // a SHA-256 over key and content stands in the file. The entry is marked as used now. `target` is part of the entry's
  // file name: letters, digits, '-' and '_'.
  [[nodiscard]] std::optional<std::string> load(std::string_view key, std::string_view target = {}) const;
  // Writes a temporary file and renames it. Silent where that fails.
  void store(std::string_view key, std::string_view content, std::string_view target = {}) const;

  // All entries, the one that was used last first. Temporary files of processes that were killed are removed on the way.
  [[nodiscard]] std::vector<CacheEntry> entries() const;
  // Removes an entry; a process that reads it meanwhile has it whole. False where it cannot be removed.
  [[nodiscard]] bool remove(const CacheEntry& entry) const;
  // Removes those used least recently until the others have at most so many bytes; returns the removed ones.
  std::vector<CacheEntry> shrinkTo(int64_t bytes) const;

private:
  int folder_ =
      -1; // descriptor: entries are reached relative to it, so that no later change of the path matters
  mutable std::atomic<bool> stored_ = false;
};

} // namespace dtc
