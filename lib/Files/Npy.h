#pragma once
// Shared by .npy files and the entries of .npz files.
#include "dtc/Files/TensorFiles.h"

namespace dtc {

inline constexpr int64_t kNpyStart = 65536 + 12; // a header ends within these bytes

// The element dtype for a program that expects `want`, after checking that the header matches the total of
// `size` bytes. Nothing has been allocated before.
[[nodiscard]] Result<DType> planNpy(const NpyHeader&, int64_t size, std::optional<DType> want,
                                    const std::string& what);
// Whether the elements have the same layout in the file as in memory.
[[nodiscard]] bool isPlainNpy(const NpyHeader&);
// Converts from the file's byte order and dim order to ours.
[[nodiscard]] Tensor arrangeNpy(const NpyHeader&, Tensor);
// The header of a file that dtc writes.
[[nodiscard]] std::string npyHeaderBytes(DType, const std::vector<int64_t>& shape);

} // namespace dtc
