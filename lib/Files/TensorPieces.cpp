#include "dtc/Files/TensorPieces.h"

#include "Npy.h"
#include "SafetensorsHeader.h"
#include "dtc/Files/InputFile.h"
#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <numeric>
#include <sys/stat.h>
#include <unistd.h>

namespace dtc {

Result<std::vector<std::string>> WriterGroup::round(const Result<std::string>& mine) {
  if (!mine) return mine.error();
  return std::vector<std::string>{*mine};
}

int64_t FileLayout::Entry::bytes() const { return *elementCount(shape) * dtypeBytes(dtype); }

FileLayout safetensorsLayout(std::vector<FileLayout::Entry> tensors) {
  std::vector<size_t> order(tensors.size()); // wide elements first, so that all are aligned
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const int x = dtypeBytes(partType(tensors[a].dtype)), y = dtypeBytes(partType(tensors[b].dtype));
    return x != y ? x > y : tensors[a].name < tensors[b].name;
  });
  FileLayout layout;
  std::string header = "{";
  int64_t end = 0;
  for (const size_t i : order) {
    FileLayout::Entry& t = tensors[i];
    std::vector<int64_t> shape = t.shape;
    if (isComplex(t.dtype)) shape.push_back(2);
    t.begin = end;
    end += t.bytes();
    header += (header.size() > 1 ? "," : "") + jsonString(t.name) + R"(:{"dtype":")" +
              std::string(safetensorsName(partType(t.dtype))) + R"(","shape":[)" + joined(shape, ",") +
              R"(],"data_offsets":[)" + std::to_string(t.begin) + "," + std::to_string(end) + "]}";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' '); // the data starts at a multiple of 8
  for (size_t i = 0; i < 8; ++i) layout.header += static_cast<char>(header.size() >> 8 * i & 255);
  layout.header += header;
  const auto data = static_cast<int64_t>(layout.header.size());
  for (FileLayout::Entry& t : tensors) t.begin += data;
  layout.tensors = std::move(tensors);
  layout.bytes = data + end;
  return layout;
}

FileLayout npyLayout(FileLayout::Entry tensor) {
  FileLayout layout{npyHeaderBytes(tensor.dtype, tensor.shape), {}, 0};
  tensor.begin = static_cast<int64_t>(layout.header.size());
  layout.bytes = tensor.begin + tensor.bytes();
  layout.tensors.push_back(std::move(tensor));
  return layout;
}

namespace {

Error cannotWrite(const std::string& path) {
  return machineError("cannot write " + quotedPath(path) + ": " + std::strerror(errno));
}

// A file that is being written at several places.
class PlacedFile : NonCopyable {
public:
  PlacedFile(std::string path, int flags)
      : path_(std::move(path)), fd_(open(path_.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666)) {
    if (fd_ < 0) status_ = cannotWrite(path_);
  }
  ~PlacedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  void write(int64_t at, std::string_view bytes) {
    while (status_ && !bytes.empty()) {
      const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        status_ = cannotWrite(path_);
        return;
      }
      bytes.remove_prefix(static_cast<size_t>(n));
      at += n;
    }
  }
  void resize(int64_t bytes) {
    if (status_ && ftruncate(fd_, bytes) != 0) status_ = cannotWrite(path_);
  }
  void flush() {
    if (status_ && fsync(fd_) != 0) status_ = cannotWrite(path_);
  }
  [[nodiscard]] Status close() {
    const int fd = fd_;
    fd_ = -1;
    if (fd >= 0 && ::close(fd) != 0 && status_) status_ = cannotWrite(path_);
    return status_;
  }

private:
  std::string path_;
  int fd_;
  Status status_ = Ok{};
};

} // namespace

static Status layOut(const std::string& path, const FileLayout& layout, int flags) {
  PlacedFile file(path, flags);
  file.resize(layout.bytes);
  file.write(0, layout.header);
  return file.close();
}

Status createLaidOut(const std::string& path, const FileLayout& layout) {
  return layOut(path, layout, O_CREAT | O_EXCL);
}

namespace {

// A run of elements of a file.
struct FileRun {
  int64_t begin;
  std::string_view bytes;
};

// The runs of the pieces of a process within some rows of dim `d`, before which all dims are 1.
std::vector<FileRun> runsWithin(const FileLayout::Entry& entry, const PiecedTensor& t, int rank, size_t d,
                                int64_t begin, int64_t end) {
  const int64_t width = dtypeBytes(t.dtype);
  std::vector<FileRun> runs;
  for (const TensorPiece& p : t.pieces) {
    if (p.writer != rank) continue;
    TensorBox box = p.box;
    int64_t skipped = 0; // elements of the piece
    if (d < box.shape.size()) {
      box.offset[d] = std::max(begin, p.box.offset[d]);
      box.shape[d] = std::min(end, p.box.offset[d] + p.box.shape[d]) - box.offset[d];
      if (box.shape[d] <= 0) continue;
      skipped = *elementCount(p.box.shape) / p.box.shape[d] * (box.offset[d] - p.box.offset[d]);
    }
    const auto* data = reinterpret_cast<const char*>(p.value.bytes().data()) + skipped * width;
    forEachBoxRun(t.shape, box, [&](int64_t to, int64_t from, int64_t n) {
      runs.push_back({entry.begin + to * width, {data + from * width, static_cast<size_t>(n * width)}});
    });
  }
  std::ranges::sort(runs, {}, &FileRun::begin);
  return runs;
}

// Runs that follow each other are written together.
void writeRuns(PlacedFile& file, const std::vector<FileRun>& runs) {
  std::string joined;
  for (size_t i = 0; i < runs.size();) {
    size_t end = i + 1;
    const auto after = [](const FileRun& r) { return r.begin + static_cast<int64_t>(r.bytes.size()); };
    while (end < runs.size() && runs[end].begin == after(runs[end - 1])) ++end;
    joined.clear();
    for (size_t k = i; k < end && end > i + 1; ++k) joined += runs[k].bytes;
    file.write(runs[i].begin, end > i + 1 ? std::string_view(joined) : runs[i].bytes);
    i = end;
  }
}

} // namespace

Status writePieces(const std::string& path, const FileLayout& layout, std::span<const PiecedTensor> tensors,
                   int rank) {
  constexpr int64_t kRows = int64_t{4} << 20; // bytes of the rows that are collected
  PlacedFile file(path, 0);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<int64_t>& shape = tensors[i].shape;
    if (elementCount(shape) == 0) continue;
    const auto longer = std::ranges::find_if(shape, [](int64_t n) { return n > 1; });
    const auto d = static_cast<size_t>(longer - shape.begin());
    const int64_t count = longer == shape.end() ? 1 : *longer;
    const int64_t rows = std::max<int64_t>(1, kRows / (layout.tensors[i].bytes() / count));
    for (int64_t at = 0; at < count; at += rows)
      writeRuns(file, runsWithin(layout.tensors[i], tensors[i], rank, d, at, std::min(count, at + rows)));
  }
  file.flush();
  return file.close();
}

// An error names the file by the name that its user knows.
static Status withName(Status s, const std::string& temporary, const std::string& path) {
  if (s) return s;
  Error e = s.error();
  if (const size_t at = e.message.find(quotedPath(temporary)); at != std::string::npos)
    e.message.replace(at, quotedPath(temporary).size(), quotedPath(path));
  return e;
}

// The name of a new file of the layout, which gets the name `path` later.
static Result<std::string> createTemporary(const std::string& path, const FileLayout& layout) {
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return cannotWrite(path);
  const mode_t mask = umask(0);
  umask(mask);
  const bool set = fchmod(fd, 0666 & ~mask) == 0;
  Status s = set ? Status(Ok{}) : cannotWrite(path);
  close(fd);
  if (s) s = withName(layOut(temporary, layout, 0), temporary, path);
  if (s) return temporary;
  unlink(temporary.c_str());
  return s.error();
}

Status writeTogether(const std::string& path, const FileLayout& layout, std::span<const PiecedTensor> tensors,
                     WriterGroup& group) {
  const bool leads = group.rank() == 0;
  const auto named = group.round(leads ? createTemporary(path, layout) : Result<std::string>(""));
  if (!named) return named.error();
  const std::string& temporary = (*named)[0];
  const auto text = [](const Status& s) { return s ? Result<std::string>("") : s.error(); };
  auto done =
      group.round(text(withName(writePieces(temporary, layout, tensors, group.rank()), temporary, path)));
  Status s = done ? Status(Ok{}) : done.error();
  if (s && leads && rename(temporary.c_str(), path.c_str()) != 0) s = cannotWrite(path);
  if (!s) unlink(temporary.c_str()); // by all: the one that leads may have died
  if (done) done = group.round(text(s));
  return s && !done ? done.error() : s;
}

} // namespace dtc
