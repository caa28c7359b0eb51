#pragma once
// The filters of resize.
#include "record/Families.h"

#include "dtc/Support/SpacedPositions.h"

namespace dtc {

enum class ResizeMode : uint8_t { Nearest, Linear, Cubic };
enum class ResizeRounding : uint8_t { Floor, Ceil, HalfDown, HalfUp };

struct ResizeDim {
  int64_t dim = 0, size = 0, result = 0;
  double scale = 1, offset = 0; // element o of the result is at scale * o + offset
  ResizeMode mode = ResizeMode::Linear;
  ResizeRounding rounding = ResizeRounding::HalfDown;
  double cubic = -0.75;
  bool antialias = false, exclude = false;
};
[[nodiscard]] bool readResize(const OpQuery&, std::vector<ResizeDim>&);

// The elements of x that an element of the result, at a position in x, is a sum of; the weights sum to 1.
struct ResizeTap {
  int64_t index = 0;
  double weight = 1;
};
[[nodiscard]] std::vector<ResizeTap> tapsOf(const ResizeDim&, long double position);

void addResizeOps(OpRegistry&);
void addGridSampleOps(OpRegistry&);

} // namespace dtc
