#pragma once
// Tensors in files: NumPy's `.npy` and raw bytes, always of global tensors. Files are untrusted: a header is believed
// only after it was checked against the file's size, and nothing is allocated before.
#include "dtc/Runtime/TensorSource.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <optional>
#include <string>
#include <string_view>

namespace dtc {

// dtypes that NumPy has no name for are stored as the unsigned integers of their bits: bf16 as '<u2', f8e4m3 and f8e5m2
// as '|u1'. Read back, such a file (or one with '|V2', '|V1', as ml_dtypes writes them) is bf16 or f8 exactly where the
// reader asks for that dtype.
struct NpyHeader {
  DType dtype = DType::F32;
  bool raw = false; // '|V1', '|V2': bits of a dtype that the file does not name
  bool bigEndian = false;
  bool fortranOrder = false;
  std::vector<int64_t> shape;
  size_t dataOffset = 0;
};

// Parses magic, version (1-3) and header of `bytes`, the start of a file; `what` names it in errors. At most the first
// 64 KiB + 12 bytes of a file are needed: a longer header is refused, and so are object and structured dtypes (pickles).
[[nodiscard]] Result<NpyHeader> parseNpyHeader(std::string_view bytes, std::string_view what);

// A .npy file, of which each device may read its own part. `want`: the dtype that the program asks for; a file of another is an error, but for the bits of
// bf16 and f8. Errors (Input): not a regular file, not `.npy`, data that do not fill the file exactly.
[[nodiscard]] Result<TensorSource> openNpy(InputFile, std::optional<DType> want = {});
// The same, read as a whole.
[[nodiscard]] Result<Tensor> readNpy(const std::string& path, std::optional<DType> want = {});

// The first bytes of a file as a tensor; the file must be long enough.
[[nodiscard]] Result<TensorSource> openRaw(InputFile, DType dtype, std::vector<int64_t> shape);
[[nodiscard]] Result<Tensor> readRaw(const std::string& path, DType dtype, std::vector<int64_t> shape);

// Version 1 (or 2 where the header is long), little-endian, C order. Written to a temporary beside it and renamed, so
// that `path` is never a part of a file.
[[nodiscard]] Status writeNpy(const std::string& path, const Tensor& tensor);
// The same bytes in memory.
[[nodiscard]] std::string npyBytes(const Tensor& tensor);

// Writes a whole file by way of a temporary in the same folder and a rename; a path that is there and no regular file
// (/dev/stdout) is written as it stands. Errors (Machine) name the path.
[[nodiscard]] Status writeFileAtomically(const std::string& path, std::string_view bytes);

} // namespace dtc
