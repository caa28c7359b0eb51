#pragma once
// What `torch.export.save` writes: a zip archive of stored entries with the program as JSON, and the raw storages
// of its parameters, buffers and constants, which are read by range. Pickled entries are never read.
#include "dtc/Files/TensorArchive.h"
#include <map>
#include <optional>

namespace dtc {

// A tensor as a view of a storage.
struct StoredLayout {
  size_t storage = 0; // equal for tensors that share one
  DType dtype = DType::F32;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0; // in elements
};

class Pt2Archive : public TensorArchive {
public:
  // The text of models/model.json. Errors: Input if it is damaged, Machine if memory runs out.
  [[nodiscard]] virtual Result<std::string> program() const = 0;
  // The user's names of symbolic sizes, {"s77": "batch"}: the extra file dtc/sizes.json, which dtc.torch.save
  // writes. Empty without one.
  [[nodiscard]] virtual Result<std::map<std::string, std::string>> sizeNames() const = 0;
  // Empty for a tensor that is not there or cannot be read.
  [[nodiscard]] virtual std::optional<StoredLayout> layout(std::string_view name) const = 0;

protected:
  using TensorArchive::TensorArchive;
};

// Errors (Input) describe what is wrong with the archive. Its tensors have the names of the module: "up.weight".
[[nodiscard]] Result<std::unique_ptr<Pt2Archive>> openPt2(InputFile);
// Whether the first bytes of a file are those of such an archive.
[[nodiscard]] bool looksLikePt2(std::string_view head);
// The dtype of a number of PyTorch's serialized ScalarType; empty if dtc does not have it. And its name.
[[nodiscard]] std::optional<DType> torchDType(int64_t number);
[[nodiscard]] std::string torchDTypeName(int64_t number);

} // namespace dtc
