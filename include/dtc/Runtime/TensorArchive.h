#pragma once
// Files that hold tensors by name: `.npz`, `.safetensors`, and `.safetensors.index.json`, which says in which file of its
// folder each tensor is. All are untrusted: what a header says is checked against the file's size before anything is
// allocated, ranges must tile the data exactly, and a name in a file never leads out of its folder.
#include "dtc/Runtime/TensorSource.h"
#include <optional>
#include <vector>

namespace dtc {

class TensorArchive {
public:
  virtual ~TensorArchive() = default;
  [[nodiscard]] virtual std::vector<std::string> names() const = 0; // in the order of the file
  [[nodiscard]] virtual bool has(std::string_view name) const = 0;
  // A tensor that the archive has. `want`: the dtype that the program asks for, as in readNpy; `shape`: where it is given, what
  // is of another shape is refused before it is read. Errors (Input) name the file and the tensor: another dtype, another
  // shape, damaged data.
  [[nodiscard]] virtual Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                                                    const std::vector<int64_t>* shape = nullptr) = 0;
  [[nodiscard]] const std::string& path() const { return path_; }

protected:
  explicit TensorArchive(std::string path) : path_(std::move(path)) {}
  // "" where `shape` is what is wanted, else what to say.
  [[nodiscard]] std::string shapeProblem(std::string_view name, DType, const std::vector<int64_t>& shape,
                                         const std::vector<int64_t>* want) const;
  std::string path_;
};

// By the path's ending. Errors (Input) say what is wrong with the file.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openTensorArchive(const std::string& path);
// Does a path end as an archive's does?
[[nodiscard]] bool isTensorArchive(std::string_view path);

// The kinds by themselves, for files that are in memory.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openNpz(InputFile);
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openSafetensors(InputFile);
// `folder`: where the files that the index names are.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openSafetensorsIndex(InputFile, std::string folder);

// --- writing: to a temporary and renamed, as writeNpy ---
using NamedTensors = std::vector<std::pair<std::string, const Tensor*>>;
[[nodiscard]] std::string npzBytes(const NamedTensors&);         // entries stored, not deflated
[[nodiscard]] std::string safetensorsBytes(const NamedTensors&); // sorted by alignment, then by name
// By the path's ending. An error (Usage) where it is no archive's.
[[nodiscard]] Status writeTensorArchive(const std::string& path, const NamedTensors&);

} // namespace dtc
