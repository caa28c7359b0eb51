// .safetensors files and their indices.
#include "SafetensorsHeader.h"
#include "dtc/Runtime/TensorArchive.h"
#include "dtc/Support/Json.h"

#include <algorithm>
#include <unordered_map>

namespace dtc {
namespace {

constexpr int64_t kMaxHeader = 100'000'000; // as the reference implementation
constexpr int64_t kMaxIndex = 100'000'000;

std::string quoted(const std::string& path) { return "'" + path + "'"; }

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
    const std::string where = quoted(path_) + " holds " + jsonString(e.name) + " as " + e.dtypeName;
    if (!e.dtype) return inputError(where + ", which dtc does not read");
    if (want && *want != *e.dtype)
      return inputError(where + ", the program asks for " + std::string(dtypeName(*want)));
    if (std::string why = shapeProblem(e.name, *e.dtype, e.shape, shape); !why.empty())
      return inputError(why);
    return TensorSource(file_, data_ + e.begin, *e.dtype, e.shape);
  }

private:
  std::shared_ptr<const InputFile> file_;
  std::vector<SafetensorsEntry> entries_;
  int64_t data_; // where the data section begins
  std::unordered_map<std::string_view, size_t> byName_;
};

// Opens each file when one of its tensors is asked for.
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
    auto opened = open(file);
    if (!opened) return opened.error();
    if (!(*opened)->has(name))
      return inputError(quoted(path_) + " says that " + jsonString(name) + " is in " + quoted(file) +
                        ", but it is not");
    return (*opened)->tensor(name, want, shape);
  }

private:
  Result<TensorArchive*> open(const std::string& file) {
    if (auto it = open_.find(file); it != open_.end()) return it->second.get();
    if (!file.ends_with(".safetensors"))
      return inputError(quoted(path_) + " names " + quoted(file) + ", which is no .safetensors file");
    auto input = InputFile::openBeneath(folder_, file);
    if (!input) return Error{input.error().kind, input.error().message + " (" + quoted(path_) + " names it)"};
    auto archive = openSafetensors(*std::move(input));
    if (!archive) return archive.error();
    return open_.emplace(file, *std::move(archive)).first->second.get();
  }
  std::string folder_;
  std::map<std::string, std::string, std::less<>> files_; // by tensor
  std::map<std::string, std::unique_ptr<TensorArchive>> open_;
};

} // namespace

Result<std::unique_ptr<TensorArchive>> openSafetensors(InputFile file) {
  auto fail = [&](const std::string& why) {
    return inputError(quoted(file.path()) + " is no .safetensors file that can be read: " + why);
  };
  if (file.size() < 8) return fail("it has fewer than 8 bytes");
  auto start = file.text(0, 8);
  if (!start) return start.error();
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i)
    length |= static_cast<uint64_t>(static_cast<unsigned char>((*start)[i])) << 8 * i;
  if (length > static_cast<uint64_t>(kMaxHeader))
    return fail("its header has " + std::to_string(length) + " bytes, more than 100000000");
  const auto headerBytes = static_cast<int64_t>(length);
  if (headerBytes > file.size() - 8)
    return fail("its header has " + std::to_string(length) + " bytes, but the file has " +
                std::to_string(file.size()));
  auto header = file.text(8, headerBytes);
  if (!header) return header.error();
  if (!header->starts_with('{')) return fail("its header does not begin with {");
  auto entries = parseSafetensorsHeader(*header, file.size() - 8 - headerBytes);
  if (!entries) return fail(entries.error().message);
  return std::unique_ptr<TensorArchive>(
      std::make_unique<SafetensorsFile>(std::move(file), *std::move(entries), 8 + headerBytes));
}

Result<std::unique_ptr<TensorArchive>> openSafetensorsIndex(InputFile file, std::string folder) {
  auto fail = [&](const std::string& why) {
    return inputError(quoted(file.path()) + " is no index that can be read: " + why);
  };
  if (file.size() > kMaxIndex) return fail("it has more than 100000000 bytes");
  auto text = file.text(0, file.size());
  if (!text) return text.error();
  auto files = parseSafetensorsIndex(*text);
  if (!files) return fail(files.error().message);
  return std::unique_ptr<TensorArchive>(
      std::make_unique<SafetensorsIndex>(file.path(), std::move(folder), *std::move(files)));
}

std::string safetensorsBytes(const NamedTensors& tensors) {
  NamedTensors sorted = tensors; // wide elements first, so that all lie aligned
  std::sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) {
    const int x = dtypeBytes(a.second->dtype()), y = dtypeBytes(b.second->dtype());
    return x != y ? x > y : a.first < b.first;
  });
  std::string header = "{", data;
  for (const auto& [name, tensor] : sorted) {
    std::string shape;
    for (int64_t n : tensor->shape()) shape += (shape.empty() ? "" : ",") + std::to_string(n);
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor->bytes().data()), tensor->bytes().size());
    header += (header.size() > 1 ? "," : "") + jsonString(name) + R"(:{"dtype":")" +
              std::string(safetensorsName(tensor->dtype())) + R"(","shape":[)" + shape +
              R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' '); // the data begin at a multiple of 8
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> 8 * i & 255);
  return out + header + data;
}

} // namespace dtc
