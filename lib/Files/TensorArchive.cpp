#include "dtc/Files/TensorArchive.h"

#include "dtc/Files/Checkpoint.h"
#include "dtc/Files/OnnxWeights.h"
#include "dtc/Files/Package.h"
#include "dtc/Files/Pt2.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Support/ElementCount.h"
#include "dtc/Support/Json.h"

#include <algorithm>

namespace dtc {

static constexpr std::string_view kSafetensors = ".safetensors", kNpz = ".npz";

std::string typeText(DType dtype, const std::vector<int64_t>& shape) {
  std::string text(dtypeName(dtype));
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "[") + std::to_string(shape[i]);
  return text + (shape.empty() ? "[]" : "]");
}

std::string TensorArchive::validateShape(std::string_view name, DType dtype,
                                         const std::vector<int64_t>& shape,
                                         const std::vector<int64_t>* want) const {
  if (!want || *want == shape) return "";
  return "'" + path_ + "' has " + jsonString(name) + " as " + typeText(dtype, shape) +
         ", but the program expects " + typeText(dtype, *want);
}

namespace {

using Opened = Result<std::unique_ptr<TensorArchive>>;
using std::string_view_literals::operator""sv;

constexpr int64_t kHead = 1 << 16; // bytes by which formats are told apart

struct ArchiveFormat {
  std::string_view extension;
  bool program; // its tensors are arguments of the program in the same file
  bool (*detects)(std::string_view head);
  Opened (*open)(InputFile, const std::string& folder);
};

bool isNpz(std::string_view head) {
  return head.starts_with("PK\x05\x06"sv) ||
         (head.starts_with("PK\x03\x04"sv) && head.find(".npy") != std::string_view::npos);
}

// The length of a header in JSON, and its begin.
bool isSafetensors(std::string_view head) {
  return head.size() > 8 && head[8] == '{' && head[6] == 0 && head[7] == 0;
}

bool isSafetensorsIndex(std::string_view head) {
  return head.starts_with('{') && head.find("\"weight_map\"") != std::string_view::npos;
}

Opened openPt2Weights(InputFile file, const std::string&) {
  DTC_TRY(auto archive, openPt2(std::move(file)));
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

// The first that detects a file is its format.
constexpr ArchiveFormat kArchiveFormats[] = {
    {".dtcpkg", true, looksLikePackage,
     [](InputFile f, const std::string&) { return openPackageWeights(std::move(f)); }},
    {".pt2", true, looksLikePt2, openPt2Weights},
    {".onnx", true, onnx::looksLikeOnnx,
     [](InputFile f, const std::string& folder) { return onnx::openOnnxWeights(std::move(f), folder); }},
    {kNpz, false, isNpz, [](InputFile f, const std::string&) { return openNpz(std::move(f)); }},
    {".safetensors.index.json", false, isSafetensorsIndex,
     [](InputFile f, const std::string& folder) { return openSafetensorsIndex(std::move(f), folder); }},
    {kSafetensors, false, isSafetensors,
     [](InputFile f, const std::string&) { return openSafetensors(std::move(f)); }},
};

// By the content; files that are damaged are known by their names. Null: it is none of them.
Result<const ArchiveFormat*> formatOf(const InputFile& file) {
  DTC_TRY(const std::string head, file.text(0, std::min(file.size(), kHead)));
  const auto named = [&](const ArchiveFormat& f) { return file.path().ends_with(f.extension); };
  const auto detected = [&](const ArchiveFormat& f) { return f.detects(head); };
  const auto both = [&](const ArchiveFormat& f) { return named(f) && detected(f); };
  const ArchiveFormat* const end = std::end(kArchiveFormats);
  const ArchiveFormat* found = std::ranges::find_if(kArchiveFormats, both);
  if (found == end) found = std::ranges::find_if(kArchiveFormats, detected);
  if (found == end) found = std::ranges::find_if(kArchiveFormats, named);
  return found == end ? nullptr : found;
}

} // namespace

bool isTensorArchive(std::string_view path) {
  return std::ranges::any_of(kArchiveFormats,
                             [&](const ArchiveFormat& f) { return path.ends_with(f.extension); });
}

bool holdsProgram(const std::string& path) {
  const auto file = path.empty() || path == "-" ? Result<InputFile>(InputFile()) : InputFile::open(path);
  if (!file) return false;
  const auto format = formatOf(*file);
  return format && *format && (*format)->program;
}

Result<std::unique_ptr<TensorArchive>> openTensorArchive(const std::string& path, ReaderShare share) {
  if (path.size() > 1 && path.ends_with('/'))
    return openCheckpointTensors(path.substr(0, path.find_last_not_of('/') + 1), share);
  DTC_TRY(auto file, InputFile::open(path));
  DTC_TRY(const ArchiveFormat* format, formatOf(file));
  if (!format)
    return inputError(quotedPath(path) + " is not a file of named tensors: dtc reads .npz, .safetensors and "
                                         ".safetensors.index.json files, and the weights of .pt2, .onnx and "
                                         ".dtcpkg programs");
  const size_t slash = path.rfind('/');
  return format->open(std::move(file), slash == std::string::npos ? ""
                                       : slash == 0               ? "/"
                                                                  : path.substr(0, slash));
}

Status checkTensorArchive(const std::string& path, std::span<const FileLayout::Entry> tensors) {
  if (path.ends_with(kSafetensors)) {
    for (const FileLayout::Entry& t : tensors)
      if (isComplex(t.dtype))
        return usageError("'" + path + "' cannot store " + jsonString(t.name) +
                          ": .safetensors does not support complex dtypes; write a .npz file");
    return Ok{};
  }
  if (!path.ends_with(kNpz)) return usageError("'" + path + "' is neither a .npz nor a .safetensors file");
  constexpr int64_t kMaxBytes = 0xfffffffe, kMaxTensors = 65534;
  int64_t bytes = 0;
  for (const FileLayout::Entry& t : tensors)
    bytes += std::min(elementCount(t.shape).value_or(kMaxBytes), kMaxBytes) * dtypeBytes(t.dtype) +
             static_cast<int64_t>(2 * t.name.size()) + 512;
  if (bytes > kMaxBytes || std::ssize(tensors) > kMaxTensors)
    return usageError("the results exceed the limit of a .npz file (4 GiB): write '" + path +
                      "' as .safetensors");
  return Ok{};
}

Status writeTensorArchive(const std::string& path, const NamedTensors& tensors) {
  std::vector<FileLayout::Entry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor->dtype(), tensor->shape()});
  if (Status s = checkTensorArchive(path, entries); !s) return s;
  if (path.ends_with(kNpz)) return writeFileAtomically(path, npzBytes(tensors));
  return writeFileAtomically(path, [&](const ByteSink& sink) { return writeSafetensors(tensors, sink); });
}

} // namespace dtc
