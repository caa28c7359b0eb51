#pragma once
// The per-dim parameters of slice, pad and roll, from their attributes.
#include "record/ShapeParts.h"
#include <algorithm>

namespace dtc {

struct SliceDim {
  bool full = false; // [0, n) with stride 1
  int64_t start = 0, stride = 1, size = 0;
};
[[nodiscard]] bool sliceDims(const OpQuery&, std::vector<SliceDim>&);

// The value of padding: the fill value, or an element of the operand as in the PyTorch modes of the same
// names.
enum class PadMode : uint8_t { Constant, Reflect, Replicate, Circular };
[[nodiscard]] PadMode padMode(const OpQuery&); // of a valid op (padDims)

struct PadDim {
  int64_t low = 0, high = 0, interior = 0, size = 0; // size: of the operand
  [[nodiscard]] bool none() const { return low == 0 && high == 0 && interior == 0; }
  // The operand's element at a coordinate of the result, or -1 for the fill value.
  [[nodiscard]] int64_t source(int64_t at, PadMode mode) const {
    int64_t i = at - low;
    if (none()) return i;
    if (mode == PadMode::Replicate) return std::clamp<int64_t>(i, 0, size - 1);
    if (mode == PadMode::Reflect) return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
    if (mode == PadMode::Circular) return i < 0 ? i + size : i >= size ? i - size : i;
    if (i < 0 || i % (interior + 1) != 0 || i / (interior + 1) >= size) return -1;
    return i / (interior + 1);
  }
};
[[nodiscard]] bool padDims(const OpQuery&, std::vector<PadDim>&);

struct Shift {
  int64_t dim = 0, by = 0;
};
// Dims may be repeated, as in PyTorch: their shifts are added.
[[nodiscard]] bool shiftsOf(const OpQuery&, std::vector<Shift>&);

} // namespace dtc
