#pragma once
// What .npy files and the entries of .npz files share.
#include "dtc/Runtime/TensorFiles.h"

namespace dtc {

inline constexpr int64_t kNpyStart = 65536 + 12; // a header ends within these bytes

// The dtype that the elements are to a program that asks for `want`, where the header fits `size` bytes in all. Nothing has
// been allocated until then.
[[nodiscard]] Result<DType> planNpy(const NpyHeader&, int64_t size, std::optional<DType> want,
                                    const std::string& what);
// Are the elements in the file as they are in memory?
[[nodiscard]] bool isPlainNpy(const NpyHeader&);
// From the file's byte order and order of dims to ours.
[[nodiscard]] Tensor arrangeNpy(const NpyHeader&, Tensor);

} // namespace dtc
