// .safetensors files and their indices.
#include "SafetensorsHeader.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/Files/TensorPieces.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace dtc {
namespace {

constexpr int64_t kMaxSafetensorsHeader = 100'000'000; // as the reference implementation
constexpr int64_t kMaxIndex = 100'000'000;

class SafetensorsFile : public TensorArchive {
public:
  SafetensorsFile(InputFile file, std::vector<SafetensorsEntry> entries, int64_t data)
      : TensorArchive(file.path()), file_(std::make_shared<const InputFile>(std::move(file))),
        entries_(std::move(entries)), data_(data) {
    for (size_t i = 0; i < entries_.size(); ++i) byName_.emplace(entries_[i].name, i);
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const SafetensorsEntry& e : entries_) out.push_back(e.name);
    return out;
  }
  bool has(std::string_view name) const override { return byName_.contains(name); }
  Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                              const std::vector<int64_t>* shape) override {
    const SafetensorsEntry& e = entries_[byName_.find(name)->second];
    const std::string where = quotedPath(path_) + " has " + jsonString(e.name) + " as " + e.dtypeName;
    if (!e.dtype) return inputError(where + ", which dtc does not read");
    if (want && *want != *e.dtype)
      return inputError(where + ", but the program expects " + std::string(dtypeName(*want)));
    if (std::string why = validateShape(e.name, *e.dtype, e.shape, shape); !why.empty())
      return inputError(why);
    return TensorSource(file_, data_ + e.begin, *e.dtype, e.shape);
  }

private:
  std::shared_ptr<const InputFile> file_;
  std::vector<SafetensorsEntry> entries_;
  int64_t data_; // offset of the data section
  std::unordered_map<std::string_view, size_t> byName_;
};

// Opens each file when one of its tensors is first read.
class SafetensorsIndex : public TensorArchive {
public:
  SafetensorsIndex(std::string path, std::string folder,
                   std::map<std::string, std::string, std::less<>> files)
      : TensorArchive(std::move(path)), folder_(std::move(folder)), files_(std::move(files)) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const auto& [name, file] : files_) out.push_back(name);
    return out;
  }
  bool has(std::string_view name) const override { return files_.find(name) != files_.end(); }
  Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                              const std::vector<int64_t>* shape) override {
    const std::string& file = files_.find(name)->second;
    DTC_TRY(auto opened, open(file));
    if (!opened->has(name))
      return inputError(quotedPath(path_) + " maps " + jsonString(name) + " to " + quotedPath(file) +
                        ", which does not contain it");
    return opened->tensor(name, want, shape);
  }

private:
  Result<TensorArchive*> open(const std::string& file) {
    if (auto it = open_.find(file); it != open_.end()) return it->second.get();
    if (!file.ends_with(".safetensors"))
      return inputError(quotedPath(path_) + " names " + quotedPath(file) +
                        ", which is not a .safetensors file");
    auto input = InputFile::openBeneath(folder_, file);
    if (!input)
      return Error{input.error().kind, input.error().message + " (" + quotedPath(path_) + " names it)"};
    DTC_TRY(auto archive, openSafetensors(*std::move(input)));
    return open_.emplace(file, std::move(archive)).first->second.get();
  }
  std::string folder_;
  std::map<std::string, std::string, std::less<>> files_; // by tensor
  std::map<std::string, std::unique_ptr<TensorArchive>> open_;
};

} // namespace

Result<std::unique_ptr<TensorArchive>> openSafetensors(InputFile file) {
  auto fail = [&](const std::string& why) {
    return inputError(quotedPath(file.path()) + " is not a valid .safetensors file: " + why);
  };
  if (file.size() < 8) return fail("it has fewer than 8 bytes");
  DTC_TRY(auto start, file.text(0, 8));
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i)
    length |= static_cast<uint64_t>(static_cast<unsigned char>(start[i])) << 8 * i;
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader))
    return fail("its header has " + std::to_string(length) + " bytes, more than 100000000");
  const auto headerBytes = static_cast<int64_t>(length);
  if (headerBytes > file.size() - 8)
    return fail("its header has " + std::to_string(length) + " bytes, but the file has " +
                std::to_string(file.size()));
  DTC_TRY(auto header, file.text(8, headerBytes));
  if (!header.starts_with('{')) return fail("its header does not start with {");
  auto entries = parseSafetensorsHeader(header, file.size() - 8 - headerBytes);
  if (!entries) return fail(entries.error().message);
  return std::unique_ptr<TensorArchive>(
      std::make_unique<SafetensorsFile>(std::move(file), *std::move(entries), 8 + headerBytes));
}

Result<std::unique_ptr<TensorArchive>> openSafetensorsIndex(InputFile file, std::string folder) {
  auto fail = [&](const std::string& why) {
    return inputError(quotedPath(file.path()) + " is not a valid index: " + why);
  };
  if (file.size() > kMaxIndex) return fail("it has more than 100000000 bytes");
  DTC_TRY(auto text, file.text(0, file.size()));
  auto files = parseSafetensorsIndex(text);
  if (!files) return fail(files.error().message);
  return std::unique_ptr<TensorArchive>(
      std::make_unique<SafetensorsIndex>(file.path(), std::move(folder), *std::move(files)));
}

Status writeSafetensors(const NamedTensors& tensors, const ByteSink& sink) {
  std::vector<FileLayout::Entry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor->dtype(), tensor->shape()});
  const FileLayout layout = safetensorsLayout(std::move(entries));
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return layout.tensors[i].begin; });
  if (Status s = sink(layout.header); !s) return s;
  for (const size_t i : order) {
    const auto bytes = tensors[i].second->bytes();
    if (Status s = sink({reinterpret_cast<const char*>(bytes.data()), bytes.size()}); !s) return s;
  }
  return Ok{};
}

std::string safetensorsBytes(const NamedTensors& tensors) {
  std::string out;
  (void)writeSafetensors(tensors, [&](std::string_view bytes) -> Status { // which does not fail
    out += bytes;
    return Ok{};
  });
  return out;
}

} // namespace dtc
