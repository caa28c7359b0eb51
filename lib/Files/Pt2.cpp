#include "dtc/Files/Pt2.h"

#include "Zip.h"
#include "dtc/Support/Checked.h"
#include "dtc/Support/Json.h"
#include "dtc/Support/Words.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <unordered_map>

namespace dtc {
namespace {

using nlohmann::json;

constexpr int64_t kMaxJson = 1 << 30;
constexpr size_t kMaxTorchRank = 64;

struct TorchDType {
  int64_t number;
  const char* name;
  std::optional<DType> dtype;
};
constexpr TorchDType kTorchDTypes[] = {
    {1, "uint8", DType::U8},
    {2, "int8", DType::I8},
    {3, "int16", DType::I16},
    {4, "int32", DType::I32},
    {5, "int64", DType::I64},
    {6, "float16", DType::F16},
    {7, "float32", DType::F32},
    {8, "float64", DType::F64},
    {9, "complex32", std::nullopt},
    {10, "complex64", DType::C64},
    {11, "complex128", DType::C128},
    {12, "bool", DType::Bool},
    {13, "bfloat16", DType::BF16},
    {28, "uint16", DType::U16},
    {29, "float8_e4m3fn", DType::F8E4M3},
    {30, "float8_e5m2", DType::F8E5M2},
    {31, "float8_e4m3fnuz", std::nullopt},
    {32, "float8_e5m2fnuz", std::nullopt},
    {33, "float8_e8m0fnu", std::nullopt},
    {34, "uint32", DType::U32},
    {35, "uint64", DType::U64},
};

const TorchDType* torchDTypeOf(int64_t number) {
  const auto* found = std::ranges::find(kTorchDTypes, number, &TorchDType::number);
  return found == std::end(kTorchDTypes) ? nullptr : found;
}

// A tensor as a view of a storage.
struct StoredTensor {
  size_t entry = 0; // of the archive
  int64_t dtype = 0;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;      // in elements
  std::string unsupported; // why it cannot be read
};

bool isContiguous(const StoredTensor& t) {
  if (std::ranges::find(t.sizes, 0) != t.sizes.end()) return false; // without a place
  int64_t expected = 1;
  for (size_t i = t.sizes.size(); i-- > 0;) {
    if (t.sizes[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.sizes[i]; // fits: the storage has the elements
  }
  return true;
}

// The number of elements from the storage's begin to the last that the tensor has; empty on overflow.
std::optional<int64_t> storageElements(const StoredTensor& t) {
  int64_t last = t.offset;
  for (size_t i = 0; i < t.sizes.size(); ++i) {
    if (t.sizes[i] == 0) return 0;
    const auto step = checkedMul(t.sizes[i] - 1, t.strides[i]);
    const auto sum = step ? checkedAdd(last, *step) : std::nullopt;
    if (!sum) return std::nullopt;
    last = *sum;
  }
  return checkedAdd(last, 1);
}

class Pt2File : public Pt2Archive {
public:
  Pt2File(std::shared_ptr<const InputFile> file, std::vector<ZipEntry> entries)
      : Pt2Archive(file->path()), file_(std::move(file)), entries_(std::move(entries)) {}

  Status open();
  Result<std::string> program() const override;
  Result<std::map<std::string, std::string>> sizeNames() const override;
  std::vector<std::string> names() const override { return names_; }
  bool has(std::string_view name) const override { return tensors_.contains(std::string(name)); }
  Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                              const std::vector<int64_t>* shape) override;
  std::optional<StoredLayout> layout(std::string_view name) const override;

private:
  Error invalid(const std::string& why) const {
    return inputError(quotedPath(path_) + " is not a valid .pt2 file: " + why);
  }
  const ZipEntry* entry(const std::string& name) const {
    const auto found = byName_.find(root_ + name);
    return found == byName_.end() ? nullptr : &entries_[found->second];
  }
  Result<std::string> text(const ZipEntry&) const;
  Result<json> parsed(const ZipEntry&) const;
  Status readConfig(const std::string& folder, const std::string& config);
  Status readTensor(const std::string& folder, const std::string& name, const json& payload);
  Result<TensorSource> gathered(const StoredTensor&, DType, const ZipEntry&) const;

  std::shared_ptr<const InputFile> file_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, size_t> byName_;
  std::string root_; // "model/": the folder of all entries
  std::vector<std::string> names_;
  std::unordered_map<std::string, StoredTensor> tensors_;
};

Status Pt2File::open() {
  const bool pickled = std::ranges::any_of(
      entries_, [](const ZipEntry& e) { return e.name == "data.pkl" || e.name.ends_with("/data.pkl"); });
  const bool exported =
      std::ranges::any_of(entries_, [](const ZipEntry& e) { return e.name.ends_with("archive_format"); });
  if (pickled && !exported)
    return invalid("it was written by torch.save or torch.jit.save, whose pickles dtc never opens: save the "
                   "program with torch.export.save");
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].deflated) return invalid("its entry " + jsonString(entries_[i].name) + " is compressed");
    byName_.emplace(entries_[i].name, i);
    if (root_.empty() && entries_[i].name.ends_with("/archive_format"))
      root_ = entries_[i].name.substr(0, entries_[i].name.size() - 14);
  }
  const ZipEntry* format = entry("archive_format");
  if (!format) return invalid("it has no entry archive_format");
  DTC_TRY(const std::string name, text(*format));
  if (name != "pt2") return invalid("its archive_format is " + jsonString(name.substr(0, 40)));
  if (const ZipEntry* order = entry("byteorder")) {
    DTC_TRY(const std::string written, text(*order));
    if (trimmed(written, " \n") != "little")
      return invalid("its byteorder is " + jsonString(written.substr(0, 40)) + ", but dtc reads little only");
  }
  if (!entry("models/model.json"))
    return invalid("it has no entry models/model.json: save the program with torch.export.save");
  if (Status s = readConfig("data/weights/", "model_weights_config.json"); !s) return s.error();
  return readConfig("data/constants/", "model_constants_config.json");
}

Result<std::string> Pt2File::text(const ZipEntry& e) const {
  if (e.size > kMaxJson) return invalid("its entry " + jsonString(e.name) + " has more than 1 GiB");
  try {
    std::string out(static_cast<size_t>(e.size), '\0');
    ZipReader reader(*file_, e);
    Status s = reader.read(std::as_writable_bytes(std::span(out)));
    if (s) s = reader.finish();
    if (!s) return Error{s.error().kind, quotedPath(path_) + ": " + s.error().message};
    return out;
  } catch (const std::bad_alloc&) {
    return machineError("not enough memory to read " + quotedPath(path_));
  }
}

Result<json> Pt2File::parsed(const ZipEntry& e) const {
  DTC_TRY(const std::string written, text(e));
  try {
    json out = json::parse(written, nullptr, false);
    if (out.is_discarded()) return invalid("its entry " + jsonString(e.name) + " is not JSON");
    return out;
  } catch (const std::bad_alloc&) {
    return machineError("not enough memory to read " + quotedPath(path_));
  }
}

Result<std::string> Pt2File::program() const { return text(*entry("models/model.json")); }

// A name that the program may have as a symbol of its own would stand for two sizes.
static bool isSizeName(std::string_view name) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  const bool symbol = name.size() > 1 && std::all_of(name.begin() + 1, name.end(),
                                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  return !name.empty() && name.size() < 40 && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, letter) && !(symbol && (name[0] == 's' || name[0] == 'u'));
}

Result<std::map<std::string, std::string>> Pt2File::sizeNames() const {
  std::map<std::string, std::string> out;
  const ZipEntry* e = entry("extra/dtc/sizes.json");
  if (!e) return out;
  DTC_TRY(const json document, parsed(*e));
  if (!document.is_object()) return invalid("its entry " + jsonString(e->name) + " is not an object");
  std::set<std::string> taken;
  for (const auto& [symbol, name] : document.items()) {
    if (!name.is_string() || !isSizeName(name.get_ref<const std::string&>()))
      return invalid("its entry " + jsonString(e->name) + " has no name for " +
                     jsonString(symbol.substr(0, 40)) +
                     ": a name has letters, digits and _, and is not of the form s0");
    if (!taken.insert(name.get<std::string>()).second)
      return invalid("its entry " + jsonString(e->name) + " gives two sizes the name " +
                     jsonString(name.get<std::string>()));
    out.emplace(symbol, name.get<std::string>());
  }
  return out;
}

Status Pt2File::readConfig(const std::string& folder, const std::string& config) {
  const ZipEntry* e = entry(folder + config);
  if (!e) return Ok{};
  DTC_TRY(const json document, parsed(*e));
  const auto list = document.find("config");
  if (list == document.end() || !list->is_object())
    return invalid("its entry " + jsonString(e->name) + " has no \"config\"");
  for (const auto& [name, payload] : list->items())
    if (Status s = readTensor(folder, name, payload); !s) return s.error();
  return Ok{};
}

// A size of the metadata: {"as_int": 4}.
std::optional<int64_t> sizeOf(const json& j) {
  const auto found = j.is_object() ? j.find("as_int") : j.end();
  if (!j.is_object() || found == j.end() || !found->is_number_integer()) return std::nullopt;
  const auto n = found->get<int64_t>();
  return n < 0 ? std::nullopt : std::optional(n);
}

std::optional<std::vector<int64_t>> sizesOf(const json& meta, const char* key) {
  const auto list = meta.find(key);
  if (list == meta.end() || !list->is_array() || list->size() > kMaxTorchRank) return std::nullopt;
  std::vector<int64_t> out;
  for (const json& j : *list) {
    const auto n = sizeOf(j);
    if (!n) return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

Status Pt2File::readTensor(const std::string& folder, const std::string& name, const json& payload) {
  const auto bad = [&](const std::string& why) {
    return Status(invalid("its tensor " + jsonString(name) + " " + why));
  };
  if (!payload.is_object()) return bad("is not an object");
  StoredTensor t;
  if (const auto pickled = payload.find("use_pickle"); pickled == payload.end() || *pickled != false)
    t.unsupported = "is pickled, which dtc does not read: save it as a plain tensor";
  const auto path = payload.find("path_name"), meta = payload.find("tensor_meta");
  if (path == payload.end() || !path->is_string()) return bad("has no path_name");
  if (t.unsupported.empty()) {
    if (meta == payload.end() || !meta->is_object()) return bad("has no tensor_meta");
    const auto dtype = meta->find("dtype"), layout = meta->find("layout"),
               offset = meta->find("storage_offset");
    auto sizes = sizesOf(*meta, "sizes"), strides = sizesOf(*meta, "strides");
    const auto begin = offset == meta->end() ? std::nullopt : sizeOf(*offset);
    if (dtype == meta->end() || !dtype->is_number_integer() || !sizes || !strides || !begin ||
        sizes->size() != strides->size())
      return bad("has invalid metadata");
    t.dtype = dtype->get<int64_t>(), t.sizes = *std::move(sizes), t.strides = *std::move(strides);
    t.offset = *begin;
    if (layout == meta->end() || *layout != 7)
      t.unsupported = "is not strided, but sparse or of another layout";
    if (!torchDType(t.dtype))
      t.unsupported = "has the dtype " + torchDTypeName(t.dtype) + ", which dtc lacks";
  }
  const ZipEntry* e = entry(folder + path->get<std::string>());
  if (!e) return bad("is in " + jsonString(path->get<std::string>()) + ", which the archive does not have");
  t.entry = static_cast<size_t>(e - entries_.data());
  if (t.unsupported.empty()) {
    const auto elements = storageElements(t);
    const auto bytes = elements ? checkedMul(*elements, dtypeBytes(*torchDType(t.dtype))) : std::nullopt;
    if (!bytes || *bytes > e->size) return bad("is larger than its storage");
  }
  if (!tensors_.emplace(name, std::move(t)).second) return bad("is there twice");
  names_.push_back(name);
  return Ok{};
}

Result<TensorSource> Pt2File::tensor(std::string_view name, std::optional<DType> want,
                                     const std::vector<int64_t>* shape) {
  const StoredTensor& t = tensors_.find(std::string(name))->second;
  const std::string where = quotedPath(path_) + " has " + jsonString(std::string(name));
  if (!t.unsupported.empty()) return inputError(where + ", but it " + t.unsupported);
  const DType dtype = *torchDType(t.dtype);
  if (want && *want != dtype)
    return inputError(where + " as " + std::string(dtypeName(dtype)) + ", but the program expects " +
                      std::string(dtypeName(*want)));
  if (std::string why = validateShape(name, dtype, t.sizes, shape); !why.empty()) return inputError(why);
  const ZipEntry& e = entries_[t.entry];
  if (isContiguous(t)) return TensorSource(file_, e.data + t.offset * dtypeBytes(dtype), dtype, t.sizes);
  try {
    return gathered(t, dtype, e);
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {}
  return machineError("not enough memory to read " + jsonString(std::string(name)) + " of " +
                      quotedPath(path_));
}

std::optional<StoredLayout> Pt2File::layout(std::string_view name) const {
  const auto found = tensors_.find(std::string(name));
  if (found == tensors_.end() || !found->second.unsupported.empty()) return std::nullopt;
  const StoredTensor& t = found->second;
  return StoredLayout{t.entry, *torchDType(t.dtype), t.sizes, t.strides, t.offset};
}

Result<TensorSource> Pt2File::gathered(const StoredTensor& t, DType dtype, const ZipEntry& e) const {
  const auto count = checkedProduct(t.sizes);
  if (!count || !checkedMul(*count, dtypeBytes(dtype))) throw std::length_error("");
  Tensor out(dtype, t.sizes);
  if (*count == 0) return TensorSource(std::move(out));
  DTC_TRY(const std::string storage, file_->text(e.data, e.size));
  const auto width = static_cast<size_t>(dtypeBytes(dtype));
  std::vector<int64_t> at(t.sizes.size(), 0);
  int64_t source = t.offset;
  for (int64_t i = 0; i < *count; ++i) {
    std::memcpy(out.bytes().data() + static_cast<size_t>(i) * width,
                storage.data() + static_cast<size_t>(source) * width, width);
    for (size_t d = at.size(); d-- > 0;) {
      source += t.strides[d];
      if (++at[d] < t.sizes[d]) break;
      source -= t.strides[d] * t.sizes[d];
      at[d] = 0;
    }
  }
  return TensorSource(std::move(out));
}

} // namespace

std::optional<DType> torchDType(int64_t number) {
  const TorchDType* found = torchDTypeOf(number);
  return found ? found->dtype : std::nullopt;
}

std::string torchDTypeName(int64_t number) {
  const TorchDType* found = torchDTypeOf(number);
  return found ? found->name : "number " + std::to_string(number);
}

// An archive begins with an entry of a folder; the names of its entries are between their bytes.
bool looksLikePt2(std::string_view head) {
  return head.starts_with("PK\x03\x04") && (head.find("/data/weights/") != std::string_view::npos ||
                                            head.find("/models/model.json") != std::string_view::npos ||
                                            head.find("/archive_format") != std::string_view::npos);
}

Result<std::unique_ptr<Pt2Archive>> openPt2(InputFile file) {
  const std::string path = file.path();
  if (const auto head = file.text(0, std::min<int64_t>(file.size(), 2)); head && isPickle(*head))
    return inputError(quotedPath(path) + " is a Python pickle, which dtc never opens: save the program with "
                                         "torch.export.save");
  auto entries = readZipDirectory(file);
  if (!entries) {
    if (entries.error().kind != Error::Input) return entries.error();
    return inputError(quotedPath(path) + " is not a valid .pt2 file: " + entries.error().message);
  }
  auto out =
      std::make_unique<Pt2File>(std::make_shared<const InputFile>(std::move(file)), *std::move(entries));
  if (Status s = out->open(); !s) return s.error();
  return std::unique_ptr<Pt2Archive>(std::move(out));
}

} // namespace dtc
