#pragma once
// Tensor files: NumPy's `.npy` and raw bytes, always of global tensors. Files are untrusted: a header is
// checked against the file's size before it is used and before anything is allocated.
#include "dtc/Files/TensorSource.h"
#include "dtc/Support/Result.h"
#include "dtc/Support/Tensor.h"
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace dtc {

// dtypes that NumPy lacks are stored as unsigned integers of their bits: bf16 as '<u2', f8e4m3 and f8e5m2 as
// '|u1'. When read, such a file (or one with '|V2', '|V1', as written by ml_dtypes) is bf16 or f8 iff the
// reader requests that dtype.
struct NpyHeader {
  DType dtype = DType::F32;
  bool raw = false; // '|V1', '|V2': bits of a dtype that the file does not specify
  bool bigEndian = false;
  bool fortranOrder = false;
  std::vector<int64_t> shape;
  size_t dataOffset = 0;
};

[[nodiscard]] std::string typeText(DType, const std::vector<int64_t>& shape); // "f32[2, 3]", for messages

// Parses magic, version (1-3) and header of `bytes`, the start of a file; `what` names it in errors. At most
// the first 64 KiB + 12 bytes of a file are needed: longer headers, and object and structured dtypes
// (pickles), are rejected.
[[nodiscard]] Result<NpyHeader> parseNpyHeader(std::string_view bytes, std::string_view what);

// A .npy file, of which each device may read its own shard. `want`: the dtype that the program expects;
// another dtype is an error, except for the bits of bf16 and f8. Errors (Input): not a regular file, not
// `.npy`, or data that do not fill the file exactly.
[[nodiscard]] Result<TensorSource> openNpy(InputFile, std::optional<DType> want = {});
// The same, read completely.
[[nodiscard]] Result<Tensor> readNpy(const std::string& path, std::optional<DType> want = {});

// The first bytes of a file as a tensor; the file must be long enough.
[[nodiscard]] Result<TensorSource> openRaw(InputFile, DType dtype, std::vector<int64_t> shape);

// Version 1 (or 2 if the header is long), little-endian, C order. Written to a temporary file in the same
// folder and renamed, so that `path` is never incomplete.
[[nodiscard]] Status writeNpy(const std::string& path, const Tensor& tensor);
// The same bytes in memory.
[[nodiscard]] std::string npyBytes(const Tensor& tensor);

// Writes a complete file, by a temporary file in the same folder and a rename; an existing path that is not a
// regular file (/dev/stdout) is written directly. Errors (Machine) name the path.
[[nodiscard]] Status writeFileAtomically(const std::string& path, std::string_view bytes);
// The same for a file that is not in memory as a whole: `write` passes its bytes on in order.
using ByteSink = std::function<Status(std::string_view)>;
[[nodiscard]] Status writeFileAtomically(const std::string& path,
                                         const std::function<Status(const ByteSink&)>& write);

} // namespace dtc
