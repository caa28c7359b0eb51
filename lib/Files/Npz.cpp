// .npz files: zip archives of .npy files.
#include "Npy.h"
#include "Zip.h"
#include "dtc/Files/TensorArchive.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Json.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <unordered_map>

namespace dtc {
namespace {

class NpzFile : public TensorArchive {
public:
  NpzFile(InputFile file, std::vector<ZipEntry> entries)
      : TensorArchive(file.path()), file_(std::move(file)), entries_(std::move(entries)) {
    for (size_t i = 0; i < entries_.size(); ++i) byName_.emplace(nameOf(entries_[i]), i);
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const ZipEntry& e : entries_) out.emplace_back(nameOf(e));
    return out;
  }
  bool has(std::string_view name) const override { return byName_.contains(name); }
  Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                              const std::vector<int64_t>* shape) override {
    const ZipEntry& e = entries_[byName_.find(name)->second];
    try {
      auto t = read(e, want, shape);
      if (t) return TensorSource(*std::move(t));
      return t.error();
    } catch (const std::bad_alloc&) {
    } catch (const std::length_error&) {}
    return machineError("not enough memory to read " + jsonString(name) + " of " + quotedPath(path_));
  }

private:
  static std::string_view nameOf(const ZipEntry& e) {
    std::string_view name = e.name;
    if (name.ends_with(".npy")) name.remove_suffix(4);
    return name;
  }

  Result<Tensor> read(const ZipEntry& e, std::optional<DType> want, const std::vector<int64_t>* shape) {
    const std::string what = quotedPath(path_) + ", entry " + jsonString(e.name) + ",";
    ZipReader reader(file_, e);
    std::string start(static_cast<size_t>(std::min(e.size, kNpyStart)), '\0');
    if (Status s = reader.read(std::as_writable_bytes(std::span(start))); !s) return inArchive(s.error());
    DTC_TRY(auto header, parseNpyHeader(start, what));
    DTC_TRY(auto plan, planNpy(header, e.size, want, what));
    if (std::string why = validateShape(nameOf(e), plan, header.shape, shape); !why.empty())
      return inputError(why);
    Tensor t(plan, header.shape);
    const auto begun = std::as_bytes(std::span(start)).subspan(header.dataOffset);
    std::copy(begun.begin(), begun.end(), t.bytes().begin());
    if (Status s = reader.read(t.bytes().subspan(begun.size())); !s) return inArchive(s.error());
    if (Status s = reader.finish(); !s) return inArchive(s.error());
    return arrangeNpy(header, std::move(t));
  }

  Error inArchive(const Error& e) const { return {e.kind, quotedPath(path_) + ": " + e.message}; }

  InputFile file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string_view, size_t> byName_;
};

} // namespace

Result<std::unique_ptr<TensorArchive>> openNpz(InputFile file) {
  auto entries = readZipDirectory(file);
  if (!entries) {
    if (entries.error().kind != Error::Input) return entries.error();
    return inputError(quotedPath(file.path()) + " is not a valid .npz file: " + entries.error().message);
  }
  return std::unique_ptr<TensorArchive>(std::make_unique<NpzFile>(std::move(file), *std::move(entries)));
}

std::string npzBytes(const NamedTensors& tensors) {
  std::vector<ZipContent> contents;
  for (const auto& [name, tensor] : tensors) contents.push_back({name + ".npy", npyBytes(*tensor)});
  return zipBytes(contents);
}

} // namespace dtc
