#pragma once
// The zip archives of `numpy.savez`, `savez_compressed` and `torch.export.save`: stored and deflated entries, no
// encryption, not multi-part (PKWARE's APPNOTE.TXT 6.3.9, with zip64).
#include "dtc/Files/InputFile.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Support/NonCopyable.h"
#include <memory>
#include <vector>

namespace dtc {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  int64_t stored = 0;           // bytes in the archive
  int64_t size = 0;             // uncompressed size
  int64_t header = 0, data = 0; // offsets of its local header and its data
};

// The entries, in directory order. Rejected (Input; the error completes a sentence): a directory that does
// not end the file, duplicate names, overlapping entries, a local header that differs from the directory,
// impossible sizes.
[[nodiscard]] Result<std::vector<ZipEntry>> readZipDirectory(const InputFile&);

// Reads the bytes of one entry in order, and verifies the checksum at the end.
class ZipReader : NonCopyable {
public:
  ZipReader(const InputFile& file, const ZipEntry& entry);
  ~ZipReader();
  // Fills `out`, which must not exceed the entry's size.
  [[nodiscard]] Status read(std::span<std::byte> out);
  // Checks that nothing is left, and that the checksum is right.
  [[nodiscard]] Status finish();

private:
  struct Inflater;
  [[nodiscard]] Status refill();
  const InputFile& file_;
  const ZipEntry& entry_;
  std::unique_ptr<Inflater> inflater_;
  int64_t taken_ = 0; // of the stored bytes
  int64_t given_ = 0;
  uint32_t crc_ = 0;
};

// Writes an archive of stored entries without timestamps, of any size (zip64 where it is needed).
class ZipWriter {
public:
  explicit ZipWriter(ByteSink sink) : sink_(std::move(sink)) {}
  // `alignment`: of the entry's data in the file, a power of two of at most 4096.
  [[nodiscard]] Status add(std::string_view name, std::string_view bytes, uint32_t alignment = 1);
  [[nodiscard]] Status finish();

private:
  [[nodiscard]] Status put(std::string_view bytes);
  ByteSink sink_;
  std::string directory_;
  uint64_t at_ = 0, entries_ = 0;
};

struct ZipContent {
  std::string name, bytes;
};
[[nodiscard]] std::string zipBytes(const std::vector<ZipContent>&);

} // namespace dtc
