#pragma once
// Files with named tensors: `.npz`, `.safetensors`, `.safetensors.index.json`, which maps each tensor to
// a file of its folder, `.pt2` (Pt2.h), the weights of an ONNX model (OnnxWeights.h) and of a package (Package.h). All are
// untrusted: a header is checked against the file's size before anything is
// allocated, ranges must tile the data exactly, and a name in a file never refers outside of its folder.
#include "dtc/Files/TensorPieces.h"
#include "dtc/Files/TensorSource.h"
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace dtc {

// One of several processes that read the same files, and share work that one of them can do for all.
struct ReaderShare {
  int rank = 0, size = 1;
};

class TensorArchive {
public:
  virtual ~TensorArchive() = default;
  [[nodiscard]] virtual std::vector<std::string> names() const = 0; // in file order
  [[nodiscard]] virtual bool has(std::string_view name) const = 0;
  // Reads a tensor of the archive. `want`: the dtype that the program expects, as in readNpy; `shape`: if
  // given, a tensor of another shape is rejected before it is read. Errors (Input) name the file and the
  // tensor: wrong dtype, wrong shape, damaged data.
  [[nodiscard]] virtual Result<TensorSource> tensor(std::string_view name, std::optional<DType> want,
                                                    const std::vector<int64_t>* shape = nullptr) = 0;
  [[nodiscard]] const std::string& path() const { return path_; }

protected:
  explicit TensorArchive(std::string path) : path_(std::move(path)) {}
  // "" if `shape` is as expected, else the message.
  [[nodiscard]] std::string validateShape(std::string_view name, DType, const std::vector<int64_t>& shape,
                                          const std::vector<int64_t>* want) const;
  std::string path_;
};

// A path that ends with / is that of a checkpoint, or of a run's checkpoints, of which the newest is opened. Others:
// by the content; a file whose content is that of no format, such as a damaged one, by the path's extension. Errors
// (Input) describe what is wrong with the file.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openTensorArchive(const std::string& path,
                                                                       ReaderShare share = {});
// Whether a file has a program, and its tensors are arguments of that: .pt2, .onnx, a package. False for "-".
[[nodiscard]] bool holdsProgram(const std::string& path);
// Whether a path has the extension of an archive.
[[nodiscard]] bool isTensorArchive(std::string_view path);

// The individual formats, for files in memory.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openNpz(InputFile);
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openSafetensors(InputFile);
// `folder`: the folder of the files that the index names.
[[nodiscard]] Result<std::unique_ptr<TensorArchive>> openSafetensorsIndex(InputFile, std::string folder);

// --- writing: to a temporary file that is renamed, as in writeNpy ---
using NamedTensors = std::vector<std::pair<std::string, const Tensor*>>;
[[nodiscard]] std::string npzBytes(const NamedTensors&);         // entries stored, not deflated
[[nodiscard]] std::string safetensorsBytes(const NamedTensors&); // sorted by alignment, then by name
using ByteSink = std::function<Status(std::string_view)>;
// The same, passed on in order. Errors: the sink's.
[[nodiscard]] Status writeSafetensors(const NamedTensors&, const ByteSink&);
// Error (Usage): the path has not the extension of an archive, or one that cannot hold such tensors. `begin` of the
// entries is not read.
[[nodiscard]] Status checkTensorArchive(const std::string& path, std::span<const FileLayout::Entry>);
// By the path's extension. Errors: those of the check, and of the system.
[[nodiscard]] Status writeTensorArchive(const std::string& path, const NamedTensors&);

} // namespace dtc
