#pragma once
// Zip archives of one kind: what `numpy.savez` and `savez_compressed` write. Stored and deflated entries, no encryption, no
// parts on other disks, at most 4 GiB (PKWARE's APPNOTE.TXT 6.3.9, without zip64).
#include "dtc/Runtime/InputFile.h"
#include <memory>
#include <vector>

namespace dtc {

struct ZipEntry {
  std::string name;
  bool deflated = false;
  uint32_t crc = 0;
  int64_t stored = 0;           // bytes in the archive
  int64_t size = 0;             // bytes of the file that it holds
  int64_t header = 0, data = 0; // where its own header and its data begin
};

// The entries, in the order of the archive's directory. Refused (Input; the error is a sentence's end): a directory that does
// not end the file, entries of one name, overlapping entries, an entry whose own header says otherwise than the directory,
// sizes that the archive cannot hold.
[[nodiscard]] Result<std::vector<ZipEntry>> readZipDirectory(const InputFile&);

// Gives the bytes of one entry in order; at the end the check sum must hold.
class ZipReader {
public:
  ZipReader(const InputFile& file, const ZipEntry& entry);
  ~ZipReader();
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;
  // Fills `out`, which must not pass the entry's size.
  [[nodiscard]] Status read(std::span<std::byte> out);
  // Nothing is left, and the check sum is right.
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

struct ZipContent {
  std::string name, bytes;
};
// An archive of stored entries without times.
[[nodiscard]] std::string zipBytes(const std::vector<ZipContent>&);

} // namespace dtc
