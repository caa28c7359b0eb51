#pragma once
// What slice, pad and roll do to each dim, as their attributes say.
#include "ShapeParts.h"
#include <algorithm>

namespace dtc {

struct SliceDim {
  bool whole = false; // [0, n) by 1: the dim is not touched
  int64_t start = 0, stride = 1, size = 0;
};
[[nodiscard]] bool sliceDims(const OpQuery&, std::vector<SliceDim>&);

// What an element outside of the operand is: the filling, or an element of the operand as torch's modes of these names say.
enum class PadMode : uint8_t { Constant, Reflect, Replicate, Circular };
[[nodiscard]] PadMode padMode(const OpQuery&); // of an op that padDims takes

struct PadDim {
  int64_t low = 0, high = 0, interior = 0, size = 0; // size: of the operand
  [[nodiscard]] bool none() const { return low == 0 && high == 0 && interior == 0; }
  // The operand's element at a result coordinate, or -1 where the filling is.
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
// The dims may repeat, as in torch: their shifts add up.
[[nodiscard]] bool shiftsOf(const OpQuery&, std::vector<Shift>&);

} // namespace dtc
