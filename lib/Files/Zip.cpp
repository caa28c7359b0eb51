#include "Zip.h"

#include "dtc/Support/Json.h"

#include <algorithm>
#include <unordered_set>
#include <zlib.h>

namespace dtc {
namespace {

constexpr int64_t kEndBytes = 22, kDirectoryBytes = 46, kLocalBytes = 30, kMaxComment = 65535;
constexpr int64_t kLongEndBytes = 56, kLocatorBytes = 20; // of zip64
constexpr uint32_t kEndSignature = 0x06054b50, kDirectorySignature = 0x02014b50, kLocalSignature = 0x04034b50,
                   kLongEndSignature = 0x06064b50, kLocatorSignature = 0x07064b50;
constexpr uint64_t kUnknown = 0xffffffff, kUnknownEntries = 0xffff; // the number is in a zip64 field
constexpr int64_t kMaxDeflateRatio = 1032;                          // of deflate: 258 bytes for two bits

// Little-endian numbers of a text that is long enough.
uint32_t number(std::string_view bytes, size_t at, size_t width) {
  uint32_t n = 0;
  for (size_t i = 0; i < width; ++i)
    n |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << 8 * i;
  return n;
}
uint32_t u16(std::string_view b, size_t at) { return number(b, at, 2); }
uint32_t u32(std::string_view b, size_t at) { return number(b, at, 4); }
// Numbers past 2^63-1, which no file has, as that one.
int64_t u64(std::string_view b, size_t at) {
  const uint64_t n = static_cast<uint64_t>(u32(b, at + 4)) << 32 | u32(b, at);
  return static_cast<int64_t>(std::min<uint64_t>(n, INT64_MAX));
}

struct Directory {
  int64_t offset = 0, bytes = 0, entries = 0;
};

// The end record of zip64, if its locator precedes the end record at `position`. Its numbers replace those of
// `d`, which are the same or -1.
Status readLongEnd(const InputFile& file, int64_t position, Directory& d, int64_t& end) {
  if (position < kLocatorBytes + kLongEndBytes) return Ok{};
  DTC_TRY(const std::string_view locator, file.text(position - kLocatorBytes, kLocatorBytes));
  if (u32(locator, 0) != kLocatorSignature) return Ok{};
  const int64_t at = u64(locator, 8);
  if (u32(locator, 4) != 0 || u32(locator, 16) > 1) return inputError("it is part of a multi-part archive");
  if (at > position - kLocatorBytes - kLongEndBytes) return inputError("its zip64 end record is damaged");
  DTC_TRY(const std::string_view r, file.text(at, kLongEndBytes));
  if (u32(r, 0) != kLongEndSignature || u64(r, 4) != position - kLocatorBytes - at - 12 || u32(r, 16) != 0 ||
      u32(r, 20) != 0 || u64(r, 24) != u64(r, 32))
    return inputError("its zip64 end record is damaged");
  const Directory longer{u64(r, 48), u64(r, 40), u64(r, 32)};
  const auto agrees = [](int64_t own, int64_t other, int64_t unknown) {
    return own == other || own == unknown;
  };
  if (!agrees(d.offset, longer.offset, 0xffffffff) || !agrees(d.bytes, longer.bytes, 0xffffffff) ||
      !agrees(d.entries, longer.entries, 0xffff))
    return inputError("its two end records differ");
  d = longer, end = at;
  return Ok{};
}

// The end record, which ends where the file ends, including its comment.
Result<Directory> findEnd(const InputFile& file) {
  if (file.size() < kEndBytes) return inputError("it has fewer than 22 bytes");
  const int64_t tail = std::min(file.size(), kEndBytes + kMaxComment);
  DTC_TRY(const std::string_view text, file.text(file.size() - tail, tail));
  for (size_t at = static_cast<size_t>(tail - kEndBytes) + 1; at-- > 0;) {
    if (u32(text, at) != kEndSignature || at + kEndBytes + u16(text, at + 20) != text.size()) continue;
    const int64_t position = file.size() - tail + static_cast<int64_t>(at);
    Directory d{u32(text, at + 16), u32(text, at + 12), u16(text, at + 10)};
    if (u16(text, at + 4) != 0 || u16(text, at + 6) != 0 || u16(text, at + 8) != d.entries)
      return inputError("it is part of a multi-part archive");
    int64_t end = position;
    if (Status s = readLongEnd(file, position, d, end); !s) return s.error();
    if (d.bytes > end || d.offset != end - d.bytes)
      return inputError("its directory does not end at the end record");
    return d;
  }
  return inputError("it has no zip end record");
}

// The zip64 numbers among extra fields.
std::string_view longSizes(std::string_view extra) {
  while (extra.size() >= 4) {
    const size_t bytes = u16(extra, 2);
    if (bytes > extra.size() - 4) return {};
    if (u16(extra, 0) == 1) return extra.substr(4, bytes);
    extra.remove_prefix(4 + bytes);
  }
  return {};
}

// Replaces the numbers of a directory record that do not fit into it: those of the extra field, in this order.
bool readLongSizes(std::string_view extra, ZipEntry& e) {
  std::string_view longer = longSizes(extra);
  for (int64_t* n : {&e.size, &e.stored, &e.header}) {
    if (*n != 0xffffffff) continue;
    if (longer.size() < 8) return false;
    *n = u64(longer, 0);
    longer.remove_prefix(8);
  }
  return true;
}

// Compares the entry's local header with the directory. numpy writes the sizes there as zip64.
std::string validateLocalHeader(std::string_view local, std::string_view extra, const ZipEntry& e,
                                uint32_t flags, uint32_t method) {
  if (u32(local, 0) != kLocalSignature) return "has no local header";
  if (u16(local, 6) != flags || u16(local, 8) != method)
    return "has a local header that differs from the directory";
  const uint32_t crc = u32(local, 14), stored = u32(local, 18), size = u32(local, 22);
  if ((flags & 8) && crc == 0 && stored == 0 && size == 0) return ""; // they follow the data
  if (crc != e.crc) return "has a different checksum in its local header";
  if (stored == 0xffffffff && size == 0xffffffff) {
    const std::string_view longer = longSizes(extra);
    const bool same = longer.size() >= 16 && u64(longer, 0) == e.size && u64(longer, 8) == e.stored;
    return same ? "" : "has different sizes in its local header";
  }
  return stored == e.stored && size == e.size ? "" : "has different sizes in its local header";
}

// Reads the entry's local header and locates its data.
Status locate(const InputFile& file, ZipEntry& e, uint32_t flags, uint32_t method, int64_t directory) {
  auto fail = [&](const std::string& why) {
    return Status(inputError("its entry " + jsonString(e.name) + " " + why));
  };
  if (e.header > directory - kLocalBytes) return fail("starts outside the file");
  DTC_TRY(auto local, file.text(e.header, kLocalBytes));
  const int64_t nameBytes = u16(local, 26), extraBytes = u16(local, 28);
  e.data = e.header + kLocalBytes + nameBytes + extraBytes;
  if (e.data > directory || e.stored > directory - e.data) return fail("is longer than the file");
  DTC_TRY(const std::string_view text, file.text(e.header + kLocalBytes, nameBytes + extraBytes));
  if (text.substr(0, static_cast<size_t>(nameBytes)) != e.name)
    return fail("has a different name in its local header");
  const std::string why =
      validateLocalHeader(local, text.substr(static_cast<size_t>(nameBytes)), e, flags, method);
  return why.empty() ? Status(Ok{}) : fail(why);
}

// One record of the directory; moves `at` past it.
Status readRecord(const InputFile& file, std::string_view text, size_t& at, const Directory& d, ZipEntry& e) {
  if (text.size() - at < kDirectoryBytes || u32(text, at) != kDirectorySignature)
    return inputError("its directory is damaged");
  const std::string_view r = text.substr(at);
  const uint32_t flags = u16(r, 8), method = u16(r, 10);
  const size_t nameBytes = u16(r, 28), rest = nameBytes + u16(r, 30) + u16(r, 32);
  if (r.size() - kDirectoryBytes < rest) return inputError("its directory is damaged");
  e.name = r.substr(kDirectoryBytes, nameBytes);
  e.deflated = method == 8;
  e.crc = u32(r, 16);
  e.stored = u32(r, 20), e.size = u32(r, 24), e.header = u32(r, 42);
  at += kDirectoryBytes + rest;
  auto fail = [&](const std::string& why) {
    return Status(inputError("its entry " + jsonString(e.name) + " " + why));
  };
  if (flags & ~(8u | 0x800u | 6u)) return fail("is encrypted, or of an unsupported kind");
  if (method != 0 && method != 8) return fail("is neither stored nor deflated");
  if (!readLongSizes(r.substr(kDirectoryBytes + nameBytes, u16(r, 30)), e))
    return fail("is of 4 GiB or more, but has no zip64 sizes");
  if (u16(r, 34) != 0) return fail("is on a different disk");
  if (!e.deflated && e.stored != e.size) return fail("is stored, but has two different sizes");
  if (e.deflated && e.size / kMaxDeflateRatio > e.stored)
    return fail("is larger than its deflated data allows");
  return locate(file, e, flags, method, d.offset);
}

std::string overlap(const std::vector<ZipEntry>& entries) {
  std::vector<const ZipEntry*> sorted;
  for (const ZipEntry& e : entries) sorted.push_back(&e);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->header < b->header; });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->header < sorted[i - 1]->data + sorted[i - 1]->stored)
      return "its entries " + jsonString(sorted[i - 1]->name) + " and " + jsonString(sorted[i]->name) +
             " overlap";
  return "";
}

void append(std::string& out, uint64_t n, size_t width) {
  for (size_t i = 0; i < width; ++i) out += static_cast<char>(n >> 8 * i & 255);
}

uint32_t crcOf(uint32_t before, std::span<const std::byte> bytes) {
  while (!bytes.empty()) { // zlib counts in 32 bits
    const size_t n = std::min<size_t>(bytes.size(), 1u << 30);
    before = static_cast<uint32_t>(
        crc32(before, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(n)));
    bytes = bytes.subspan(n);
  }
  return before;
}

} // namespace

Result<std::vector<ZipEntry>> readZipDirectory(const InputFile& file) {
  DTC_TRY(auto end, findEnd(file));
  if (end.entries > end.bytes / kDirectoryBytes) return inputError("its directory is damaged");
  DTC_TRY(auto text, file.text(end.offset, end.bytes));
  std::vector<ZipEntry> entries;
  std::unordered_set<std::string> names;
  size_t at = 0;
  for (int64_t i = 0; i < end.entries; ++i) {
    ZipEntry e;
    if (Status s = readRecord(file, text, at, end, e); !s) return s.error();
    if (!names.insert(e.name).second) return inputError("it has two entries " + jsonString(e.name));
    entries.push_back(std::move(e));
  }
  if (at != text.size()) return inputError("its directory is damaged");
  if (std::string why = overlap(entries); !why.empty()) return inputError(why);
  return entries;
}

struct ZipReader::Inflater {
  z_stream stream{};
  bool begun = false, ended = false;
  std::vector<std::byte> input;
  ~Inflater() {
    if (begun) inflateEnd(&stream);
  }
};

ZipReader::ZipReader(const InputFile& file, const ZipEntry& entry) : file_(file), entry_(entry) {
  if (!entry.deflated) return;
  inflater_ = std::make_unique<Inflater>();
  inflater_->begun = inflateInit2(&inflater_->stream, -MAX_WBITS) == Z_OK; // without a zlib header
  inflater_->input.resize(64 * 1024);
}

ZipReader::~ZipReader() = default;

Status ZipReader::refill() {
  z_stream& z = inflater_->stream;
  const auto n = static_cast<size_t>(
      std::min<int64_t>(static_cast<int64_t>(inflater_->input.size()), entry_.stored - taken_));
  if (n == 0) return inputError("its entry " + jsonString(entry_.name) + " is truncated");
  const auto bytes = std::span(inflater_->input).first(n);
  if (Status s = file_.read(entry_.data + taken_, bytes); !s) return s;
  taken_ += static_cast<int64_t>(n);
  z.next_in = reinterpret_cast<Bytef*>(bytes.data());
  z.avail_in = static_cast<uInt>(n);
  return Ok{};
}

Status ZipReader::read(std::span<std::byte> out) {
  const std::span<std::byte> all = out;
  if (!inflater_) {
    if (Status s = file_.read(entry_.data + taken_, out); !s) return s;
    taken_ += static_cast<int64_t>(out.size());
  } else if (!inflater_->begun) {
    return machineError("not enough memory to inflate");
  }
  while (inflater_ && !out.empty()) {
    z_stream& z = inflater_->stream;
    if (inflater_->ended) return inputError("its entry " + jsonString(entry_.name) + " is truncated");
    if (z.avail_in == 0)
      if (Status s = refill(); !s) return s;
    const size_t n = std::min<size_t>(out.size(), 1u << 30);
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(n);
    const int done = inflate(&z, Z_NO_FLUSH);
    if (done == Z_MEM_ERROR) return machineError("not enough memory to inflate");
    if (done != Z_OK && done != Z_STREAM_END && done != Z_BUF_ERROR)
      return inputError("its entry " + jsonString(entry_.name) + " is not deflated data");
    inflater_->ended = done == Z_STREAM_END;
    out = out.subspan(n - z.avail_out);
  }
  given_ += static_cast<int64_t>(all.size());
  crc_ = crcOf(crc_, all);
  return Ok{};
}

Status ZipReader::finish() {
  auto fail = [&](const std::string& why) {
    return Status(inputError("its entry " + jsonString(entry_.name) + " " + why));
  };
  if (inflater_ && inflater_->begun && !inflater_->ended) { // the end mark, and no further byte
    std::byte one{};
    z_stream& z = inflater_->stream;
    z.next_out = reinterpret_cast<Bytef*>(&one);
    z.avail_out = 1;
    int done = Z_OK;
    while (done == Z_OK && z.avail_out == 1) {
      if (z.avail_in == 0)
        if (Status s = refill(); !s) return s;
      done = inflate(&z, Z_NO_FLUSH);
    }
    if (done != Z_STREAM_END || z.avail_out == 0) return fail("is longer than its declared size");
  }
  if (inflater_ && (taken_ != entry_.stored || inflater_->stream.avail_in != 0))
    return fail("has extra bytes at its end");
  if (given_ != entry_.size) return fail("is shorter than its declared size");
  if (crc_ != entry_.crc) return fail("is damaged: its checksum is wrong");
  return Ok{};
}

Status ZipWriter::put(std::string_view bytes) {
  at_ += bytes.size();
  return sink_(bytes);
}

// An extra field that fills up to the alignment of the data, as Android's zipalign writes it: its id, its length,
// the alignment, zeros.
static std::string paddingTo(uint64_t data, uint32_t alignment) {
  constexpr uint32_t kId = 0xd935, kLeast = 6;
  if (data % alignment == 0) return "";
  const uint64_t bytes = kLeast + (alignment - (data + kLeast) % alignment) % alignment;
  std::string extra;
  append(extra, kId, 2);
  append(extra, bytes - 4, 2);
  append(extra, alignment, 2);
  extra.resize(bytes);
  return extra;
}

Status ZipWriter::add(std::string_view name, std::string_view bytes, uint32_t alignment) {
  const uint32_t crc = crcOf(0, std::as_bytes(std::span(bytes)));
  const bool longSize = bytes.size() >= kUnknown, longOffset = at_ >= kUnknown;
  std::string sizes, extra; // of zip64
  if (longSize) append(sizes, bytes.size(), 8), append(sizes, bytes.size(), 8);
  const auto asExtra = [](const std::string& numbers) {
    std::string field;
    if (numbers.empty()) return field;
    append(field, 1, 2);
    append(field, numbers.size(), 2);
    return field + numbers;
  };
  std::string common; // of both headers, from the version on, to the length of the name
  append(common, longSize || longOffset ? 45 : 20, 2);
  append(common, 0x800, 2); // names are UTF-8
  append(common, 0, 2);
  append(common, 0x00210000, 4); // the first of January 1980, so that output is reproducible
  append(common, crc, 4);
  for (int i = 0; i < 2; ++i) append(common, longSize ? kUnknown : bytes.size(), 4);
  append(common, name.size(), 2);

  const uint64_t header = at_;
  extra = asExtra(sizes);
  extra += paddingTo(at_ + kLocalBytes + name.size() + extra.size(), alignment);
  std::string local;
  append(local, kLocalSignature, 4);
  local += common;
  append(local, extra.size(), 2);
  local += std::string(name) + extra;
  if (Status s = put(local); !s) return s;
  if (Status s = put(bytes); !s) return s;

  if (longOffset) append(sizes, header, 8);
  extra = asExtra(sizes);
  append(directory_, kDirectorySignature, 4);
  append(directory_, 20, 2);
  directory_ += common;
  append(directory_, extra.size(), 2);
  append(directory_, 0, 6); // no comment, disk 0, internal attributes
  append(directory_, 0, 4); // external ones
  append(directory_, longOffset ? kUnknown : header, 4);
  directory_ += std::string(name) + extra;
  ++entries_;
  return Ok{};
}

Status ZipWriter::finish() {
  const uint64_t begin = at_, size = directory_.size();
  if (Status s = put(directory_); !s) return s;
  const bool longer = begin >= kUnknown || size >= kUnknown || entries_ >= kUnknownEntries;
  std::string end;
  if (longer) {
    append(end, kLongEndSignature, 4);
    append(end, kLongEndBytes - 12, 8);
    append(end, 45, 2);
    append(end, 45, 2);
    append(end, 0, 8); // disks
    append(end, entries_, 8);
    append(end, entries_, 8);
    append(end, size, 8);
    append(end, begin, 8);
    append(end, kLocatorSignature, 4);
    append(end, 0, 4);
    append(end, at_, 8);
    append(end, 1, 4);
  }
  append(end, kEndSignature, 4);
  append(end, 0, 4);
  for (int i = 0; i < 2; ++i) append(end, longer ? kUnknownEntries : entries_, 2);
  append(end, longer ? kUnknown : size, 4);
  append(end, longer ? kUnknown : begin, 4);
  append(end, 0, 2);
  return put(end);
}

std::string zipBytes(const std::vector<ZipContent>& contents) {
  std::string out;
  ZipWriter writer([&](std::string_view bytes) -> Status {
    out += bytes;
    return Ok{};
  });
  for (const ZipContent& c : contents) (void)writer.add(c.name, c.bytes); // the sink does not fail
  (void)writer.finish();
  return out;
}

} // namespace dtc
