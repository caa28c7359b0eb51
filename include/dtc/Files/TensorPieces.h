#pragma once
// Tensors in pieces, in the memory of one or several processes, and the files that those write together: each writes
// its own pieces at their places.
#include "dtc/Files/TensorBox.h"
#include "dtc/Support/NonCopyable.h"
#include "dtc/Support/Result.h"
#include <span>
#include <string>
#include <vector>

namespace dtc {

struct TensorPiece {
  TensorBox box;
  int writer = 0;    // the process that writes it
  Tensor value = {}; // there; elsewhere empty
};

// A tensor with its value in pieces that tile it.
struct PiecedTensor {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<TensorPiece> pieces;
};

// The processes that write files together. By default, this one alone.
class WriterGroup : NonCopyable {
public:
  WriterGroup() = default;
  virtual ~WriterGroup() = default;
  [[nodiscard]] virtual int rank() const { return 0; }
  [[nodiscard]] virtual int size() const { return 1; }
  // All come here: their texts, by rank, or the error of the first that has one.
  [[nodiscard]] virtual Result<std::vector<std::string>> round(const Result<std::string>& mine);
};

// Where tensors are in a file.
struct FileLayout {
  struct Entry {
    std::string name;
    DType dtype = DType::F32;
    std::vector<int64_t> shape;
    int64_t begin = 0; // in the file
    [[nodiscard]] int64_t bytes() const;
  };
  std::string header;
  std::vector<Entry> tensors; // in the order in which they were given
  int64_t bytes = 0;          // of the file
};
// `tensors` without `begin`. Complex tensors are those of their parts, with a last dim of 2.
[[nodiscard]] FileLayout safetensorsLayout(std::vector<FileLayout::Entry> tensors);
[[nodiscard]] FileLayout npyLayout(FileLayout::Entry tensor);

// Creates a file of the layout's size, with its header.
[[nodiscard]] Status createLaidOut(const std::string& path, const FileLayout&);
// Writes a file together: to a temporary file in the same folder, which is renamed after all have flushed their pieces.
// `path` names a regular file or does not exist. Error (Machine): it is as before.
[[nodiscard]] Status writeTogether(const std::string& path, const FileLayout&,
                                   std::span<const PiecedTensor> tensors, WriterGroup& group);
// Writes the pieces of process `rank` to that file, and flushes it to the disk. `tensors` are those of the layout.
[[nodiscard]] Status writePieces(const std::string& path, const FileLayout&,
                                 std::span<const PiecedTensor> tensors, int rank);

} // namespace dtc
