// A checkpoint of a run as an archive of tensors: the weights of a program that only reads them.
#include "dtc/Files/Checkpoint.h"
#include "dtc/Support/Json.h"

#include <algorithm>

namespace dtc {
namespace {

class CheckpointArchive : public TensorArchive {
public:
  explicit CheckpointArchive(Checkpoint checkpoint)
      : TensorArchive(checkpoint.folder()), checkpoint_(std::move(checkpoint)) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> out;
    for (const CheckpointManifest::Entry& e : checkpoint_.manifest().tensors) out.push_back(e.name);
    return out;
  }
  bool has(std::string_view name) const override { return find(name) != nullptr; }
  Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                              const std::vector<int64_t>* shape) override {
    const CheckpointManifest::Entry& e = *find(name);
    if (want && *want != e.dtype)
      return inputError(quotedPath(path_) + " has " + jsonString(e.name) + " as " +
                        std::string(dtypeName(e.dtype)) + ", but the program expects " +
                        std::string(dtypeName(*want)));
    if (std::string why = validateShape(e.name, e.dtype, e.shape, shape); !why.empty())
      return inputError(why);
    return checkpoint_.source(e);
  }

private:
  const CheckpointManifest::Entry* find(std::string_view name) const {
    const auto& tensors = checkpoint_.manifest().tensors;
    const auto found = std::ranges::find(tensors, name, &CheckpointManifest::Entry::name);
    return found == tensors.end() ? nullptr : &*found;
  }
  Checkpoint checkpoint_;
};

} // namespace

Result<std::unique_ptr<TensorArchive>> openCheckpointTensors(const std::string& folder, ReaderShare share) {
  DTC_TRY(auto checkpoint, chosenCheckpoint(folder));
  if (Status s = checkpoint.verify(share); !s) return s.error();
  return std::unique_ptr<TensorArchive>(std::make_unique<CheckpointArchive>(std::move(checkpoint)));
}

} // namespace dtc
