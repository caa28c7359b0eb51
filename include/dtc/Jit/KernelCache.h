#pragma once
// Compiled kernels on disk: one folder, one file per kernel. Nothing that is wrong with it is ever an error: what cannot
// be read is compiled again, what cannot be written is not kept.
#include <optional>
#include <string>
#include <string_view>

namespace dtc {

class KernelCache {
public:
  // `dir` as JitConfig::cacheDir. The folder is made (0700) if it is missing, and used only if it is a folder, not a link,
  // belongs to this user and is writable by nobody else; then it is made 0700 if it is not.
  explicit KernelCache(const std::string& dir);
  KernelCache() = default; // keeps nothing
  ~KernelCache();
  KernelCache(KernelCache&&) noexcept;
  KernelCache& operator=(KernelCache&&) noexcept;

  [[nodiscard]] bool open() const { return folder_ >= 0; }
  // `key` says everything that the content depends on. What comes back was stored under exactly this key and is whole:
  // a SHA-256 over key and content stands in the file.
  [[nodiscard]] std::optional<std::string> load(std::string_view key) const;
  // Writes a temporary file and renames it. Silent where that fails.
  void store(std::string_view key, std::string_view content) const;

private:
  int folder_ =
      -1; // descriptor: entries are reached relative to it, so that no later change of the path matters
};

} // namespace dtc
