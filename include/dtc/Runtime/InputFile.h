#pragma once
// A file that is read at any place, its size known. Files are untrusted: only a regular one has a size to check against.
#include "dtc/Support/Result.h"
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace dtc {

class InputFile {
public:
  // Errors (Input) name the path: it is not there, may not be read, is no regular file.
  [[nodiscard]] static Result<InputFile> open(const std::string& path);
  // A file that another file, in `folder` ("" is the working one), names. `name` stays below the folder and meets no symbolic
  // link on the way (openat2 with RESOLVE_BENEATH), and the file has one name only (no hard links): else an Input error.
  [[nodiscard]] static Result<InputFile> openBeneath(const std::string& folder, const std::string& name);
  // Bytes that live as long as what is made here, as if they were a file.
  [[nodiscard]] static InputFile inMemory(std::string path, std::string_view bytes);

  InputFile() = default;
  InputFile(InputFile&&) noexcept;
  InputFile& operator=(InputFile&&) noexcept;
  ~InputFile();

  [[nodiscard]] int64_t size() const { return size_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Fills `out` with the bytes from `offset` on. Errors: Machine where reading fails, Input where the file ends before.
  [[nodiscard]] Status read(int64_t offset, std::span<std::byte> out) const;
  // The same as text; the caller has checked the length against size().
  [[nodiscard]] Result<std::string> text(int64_t offset, int64_t length) const;

private:
  [[nodiscard]] static Result<InputFile> opened(int fd, std::string path);
  int fd_ = -1;
  int64_t size_ = 0;
  std::string path_;
  std::string_view memory_;
};

} // namespace dtc
