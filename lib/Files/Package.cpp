#include "dtc/Files/Package.h"

#include "PackageManifest.h"
#include "Zip.h"
#include "dtc/Support/Json.h"

#include <algorithm>
#include <set>

namespace dtc {
namespace {

using std::string_view_literals::operator""sv;

constexpr const char *kManifest = "manifest.json", *kProgram = "program.dt";
constexpr std::string_view kKernels = "kernels/", kWeights = "weights/";
constexpr std::string_view kObject = ".o", kCubin = ".cubin", kText = ".txt";
// Entries but weights are in memory as a whole. They are stored, so that they have the size of the file.
constexpr int64_t kMaxManifest = int64_t{16} << 20, kMaxProgram = int64_t{256} << 20,
                  kMaxKernel = int64_t{256} << 20;
constexpr uint32_t kWeightAlignment = 64;

Status mustBeStored(const ZipEntry& e) {
  if (e.deflated)
    return inputError("its entry " + jsonString(e.name) + " is compressed; expected a stored one");
  return Ok{};
}

Result<std::string> contentOf(const InputFile& file, const ZipEntry& e, int64_t max) {
  if (e.size > max)
    return inputError("its entry " + jsonString(e.name) + " has " + std::to_string(e.size) +
                      " bytes, more than " + std::to_string(max));
  if (Status s = mustBeStored(e); !s) return s.error();
  std::string bytes(static_cast<size_t>(e.size), '\0');
  ZipReader reader(file, e);
  if (Status s = reader.read(std::as_writable_bytes(std::span(bytes))); !s) return s.error();
  if (Status s = reader.finish(); !s) return s.error();
  return bytes;
}

// ELF objects of the CPU, cubins, which are ELF files, too, and text: the image of a kernel's key, and what was reported
// when it was compiled.
std::string kernelEntry(const std::string& key, std::string_view content, const std::string& target) {
  const std::string_view suffix = !content.starts_with("\x7f"
                                                       "ELF"sv)
                                      ? kText
                                  : target == "cpu" ? kObject
                                                    : kCubin;
  return std::string(kKernels) + key + std::string(suffix);
}

// The digest of what a kernel was compiled from, or of an image; "" if the entry is not named by one.
std::string keyOf(std::string_view entry) {
  constexpr size_t kDigits = 64;
  entry.remove_prefix(kKernels.size());
  const std::string_view key = entry.substr(0, kDigits), suffix = entry.substr(key.size());
  const bool known = suffix == kObject || suffix == kCubin || suffix == kText;
  return known && key.size() == kDigits && key.find_first_not_of("0123456789abcdef") == key.npos
             ? std::string(key)
             : "";
}

// The value of a weight that the manifest lists: its entry must have the bytes of its dtype and shape.
Result<PackageWeight> weightOf(const std::shared_ptr<const InputFile>& file, const ListedWeight& listed,
                               const std::vector<ZipEntry>& entries) {
  const auto e = std::ranges::find(entries, listed.entry, &ZipEntry::name);
  const std::string where = "its weight of the argument " + jsonString(listed.argument);
  if (!listed.entry.starts_with(kWeights) || e == entries.end())
    return inputError(where + " is in " + jsonString(listed.entry) + ", which the package does not have");
  if (Status s = mustBeStored(*e); !s) return s.error();
  if (e->size != listed.bytes)
    return inputError(where + ", " + typeText(listed.dtype, listed.shape) + ", needs " +
                      std::to_string(listed.bytes) + " bytes, but its entry has " + std::to_string(e->size));
  return PackageWeight{listed.argument, listed.entry,
                       TensorSource(file, e->data, listed.dtype, listed.shape)};
}

Status readWeights(const std::shared_ptr<const InputFile>& file, const std::vector<ZipEntry>& entries,
                   Package& p) {
  DTC_TRY(const auto listed, listedWeights(p.manifest));
  std::set<std::string_view> arguments, used;
  for (const ListedWeight& one : listed) {
    if (!arguments.insert(one.argument).second)
      return inputError("its manifest lists two weights of the argument " + jsonString(one.argument));
    DTC_TRY(auto weight, weightOf(file, one, entries));
    p.weights.push_back(std::move(weight));
    used.insert(one.entry);
  }
  for (const ZipEntry& e : entries)
    if (e.name.starts_with(kWeights) && !used.contains(e.name))
      return inputError("its entry " + jsonString(e.name) + " is not listed in the manifest");
  return Ok{};
}

// `other`: why this dtc does not read the package; nothing but the manifest has been read then.
Result<Package> read(const std::shared_ptr<const InputFile>& file, std::string& other) {
  DTC_TRY(const auto entries, readZipDirectory(*file));
  Package p;
  const auto manifest = std::ranges::find(entries, kManifest, &ZipEntry::name);
  if (manifest == entries.end()) return inputError(std::string("it has no entry ") + kManifest);
  DTC_TRY(p.manifest, contentOf(*file, *manifest, kMaxManifest));
  DTC_TRY(p.needs, neededBy(p.manifest));
  if (other = ofOtherDtc(p.needs); !other.empty()) return inputError(other);
  bool program = false;
  for (const ZipEntry& e : entries) {
    const std::string_view name = e.name;
    if (name == kProgram) {
      DTC_TRY(p.program, contentOf(*file, e, kMaxProgram));
      program = true;
    } else if (name.starts_with(kKernels)) {
      const std::string key = keyOf(name);
      if (key.empty()) return inputError("its entry " + jsonString(name) + " is not named by a digest");
      if (p.kernels.contains(key)) return inputError("it has two entries of the kernel " + key);
      DTC_TRY(p.kernels[key], contentOf(*file, e, kMaxKernel));
    } else if (name != kManifest && !name.starts_with(kWeights)) {
      return inputError("it has an unexpected entry " + jsonString(name));
    }
  }
  if (!program) return inputError(std::string("it has no entry ") + kProgram);
  if (Status s = readWeights(file, entries, p); !s) return s.error();
  return p;
}

class PackageArchive final : public TensorArchive {
public:
  PackageArchive(std::string path, std::vector<PackageWeight> weights)
      : TensorArchive(std::move(path)), weights_(std::move(weights)) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const PackageWeight& w : weights_) out.push_back(w.argument);
    return out;
  }
  bool has(std::string_view name) const override { return find(name) != weights_.end(); }
  Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                              const std::vector<int64_t>* shape) override {
    const TensorSource& value = find(name)->value;
    if (want && *want != value.dtype())
      return inputError(quotedPath(path_) + " has " + jsonString(name) + " as " +
                        std::string(dtypeName(value.dtype())) + ", but the program expects " +
                        std::string(dtypeName(*want)));
    if (std::string why = validateShape(name, value.dtype(), value.shape(), shape); !why.empty())
      return inputError(why);
    return value;
  }

private:
  std::vector<PackageWeight>::const_iterator find(std::string_view name) const {
    return std::ranges::find(weights_, name, &PackageWeight::argument);
  }
  std::vector<PackageWeight> weights_;
};

} // namespace

bool looksLikePackage(std::string_view content) {
  constexpr size_t kNameOffset = 30; // in the first local header
  return content.starts_with("PK\x03\x04"sv) && content.size() > kNameOffset &&
         content.substr(kNameOffset).starts_with(kManifest);
}

bool isPackageFile(const std::string& path) {
  constexpr int64_t kHead = 64;
  const auto file = InputFile::open(path);
  if (!file || file->size() < kHead) return false;
  const auto head = file->text(0, kHead);
  return head && looksLikePackage(*head);
}

Result<Package> readPackage(std::shared_ptr<const InputFile> file) {
  std::string other;
  auto package = read(file, other);
  if (package || package.error().kind != Error::Input) return package;
  if (!other.empty()) return inputError(quotedPath(file->path()) + " " + other);
  return inputError(quotedPath(file->path()) + " is not a valid package: " + package.error().message);
}

Status writePackage(const Package& package, const ByteSink& sink) {
  ZipWriter zip(sink);
  if (Status s = zip.add(kManifest, package.manifest); !s) return s;
  if (Status s = zip.add(kProgram, package.program); !s) return s;
  for (const auto& [key, object] : package.kernels)
    if (Status s = zip.add(kernelEntry(key, object, package.needs.target), object); !s) return s;
  std::set<std::string_view> written;
  for (const PackageWeight& w : package.weights) {
    if (!written.insert(w.entry).second) continue;
    DTC_TRY(const auto value, w.value.tensor()); // one at a time
    const auto bytes = value.bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (Status s = zip.add(w.entry, text, kWeightAlignment); !s) return s;
  }
  return zip.finish();
}

Result<std::unique_ptr<TensorArchive>> openPackageWeights(InputFile file) {
  const std::string path = file.path();
  DTC_TRY(auto package, readPackage(std::make_shared<const InputFile>(std::move(file))));
  return std::unique_ptr<TensorArchive>(std::make_unique<PackageArchive>(path, std::move(package.weights)));
}

} // namespace dtc
