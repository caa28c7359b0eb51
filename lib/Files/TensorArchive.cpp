#include "dtc/Files/TensorArchive.h"

#include "dtc/Files/OnnxWeights.h"
#include "dtc/Files/Package.h"
#include "dtc/Files/Pt2.h"
#include "dtc/Files/TensorFiles.h"
#include "dtc/Support/Json.h"

namespace dtc {

static constexpr std::string_view kIndex = ".safetensors.index.json", kSafetensors = ".safetensors",
                                  kNpz = ".npz", kPt2 = ".pt2", kOnnx = ".onnx", kPackage = ".dtcpkg";

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

bool isTensorArchive(std::string_view path) {
  return path.ends_with(kNpz) || path.ends_with(kSafetensors) || path.ends_with(kIndex) ||
         path.ends_with(kPt2) || path.ends_with(kOnnx) || path.ends_with(kPackage);
}

Result<std::unique_ptr<TensorArchive>> openTensorArchive(const std::string& path) {
  DTC_TRY(auto file, InputFile::open(path));
  if (path.ends_with(kPt2)) {
    DTC_TRY(auto archive, openPt2(std::move(file)));
    return std::unique_ptr<TensorArchive>(std::move(archive));
  }
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : slash == 0 ? "/" : path.substr(0, slash);
  if (path.ends_with(kNpz)) return openNpz(std::move(file));
  if (path.ends_with(kOnnx)) return onnx::openOnnxWeights(std::move(file), folder);
  if (path.ends_with(kPackage) || isPackageFile(path)) return openPackageWeights(std::move(file));
  if (path.ends_with(kIndex)) return openSafetensorsIndex(std::move(file), folder);
  return openSafetensors(std::move(file));
}

Status writeTensorArchive(const std::string& path, const NamedTensors& tensors) {
  if (path.ends_with(kSafetensors))
    for (const auto& [name, tensor] : tensors)
      if (isComplex(tensor->dtype()))
        return inputError("'" + path + "' cannot store " + jsonString(name) +
                          ": .safetensors does not support complex dtypes; write a .npz file");
  if (path.ends_with(kSafetensors)) return writeFileAtomically(path, safetensorsBytes(tensors));
  if (!path.ends_with(kNpz)) return usageError("'" + path + "' is neither a .npz nor a .safetensors file");
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors)
    bytes += static_cast<int64_t>(tensor->bytes().size() + 2 * name.size()) + 512;
  if (bytes > INT64_C(0xfffffffe) || tensors.size() > 65534)
    return inputError("the results exceed the limit of a .npz file (4 GiB): write '" + path +
                      "' as .safetensors");
  return writeFileAtomically(path, npzBytes(tensors));
}

} // namespace dtc
