#pragma once
// A random-access input file of known size. Files are untrusted: only regular files, whose size can be
// checked, are accepted.
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Result.h"
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace dtc {

// A path as messages show it: 'weights.npz'.
[[nodiscard]] inline std::string quotedPath(const std::string& path) { return "'" + path + "'"; }

// Whether a file begins as Python's pickles of protocol 2 and later.
[[nodiscard]] inline bool isPickle(std::string_view head) {
  return head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

// A file in memory, read-only, whose pages are read when they are used. Whoever truncates the file meanwhile makes
// later uses fault.
class FileMapping : NonCopyable {
public:
  FileMapping(const std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~FileMapping();
  [[nodiscard]] const std::byte* data() const { return data_; }

private:
  const std::byte* data_;
  size_t bytes_;
};

class InputFile {
public:
  // Errors (Input) name the path: it does not exist, is not readable, or is not a regular file.
  [[nodiscard]] static Result<InputFile> open(const std::string& path);
  // A file named by another file in `folder` ("" is the working directory). `name` must stay below the folder
  // without symbolic links (openat2 with RESOLVE_BENEATH), and the file must have no other hard links:
  // otherwise an Input error.
  [[nodiscard]] static Result<InputFile> openBeneath(const std::string& folder, const std::string& name);
  // In-memory bytes that act as a file. `bytes` outlive it; holding() keeps its own.
  [[nodiscard]] static InputFile inMemory(std::string path, std::string_view bytes);
  [[nodiscard]] static InputFile holding(std::string path, std::string bytes);

  InputFile() = default;
  InputFile(InputFile&&) noexcept;
  InputFile& operator=(InputFile&&) noexcept;
  ~InputFile();

  [[nodiscard]] int64_t size() const { return size_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Fills `out` with the bytes from `offset` on. Errors: Machine if reading fails, Input if the file ends
  // before.
  [[nodiscard]] Status read(int64_t offset, std::span<std::byte> out) const;
  // The same as text; the caller has checked the length against size().
  [[nodiscard]] Result<std::string> text(int64_t offset, int64_t length) const;
  // What tells it from a file of other content: its size, and a SHA-256 of all of it if it has at most 1 MiB, else of its
  // first and last 4 KiB and 62 blocks between, at equal distances. Errors: those of read().
  [[nodiscard]] Result<std::string> digest() const;
  // All of it. Null: it is empty, in memory, or on a file system that cannot map it.
  [[nodiscard]] std::shared_ptr<const FileMapping> map() const;

private:
  [[nodiscard]] static Result<InputFile> opened(int fd, std::string path);
  int fd_ = -1;
  int64_t size_ = 0;
  std::string path_;
  std::shared_ptr<const std::string> held_;
  std::string_view memory_;
};

} // namespace dtc
