#pragma once
// Element types of ONNX, and the dtypes that hold them. Those that dtc lacks are held in wider ones: integers of
// 2 and 4 bits in 8, the floats that are not f8e4m3 or f8e5m2 in f32.
#include "dtc/Files/OnnxModel.h"
#include "dtc/Support/DType.h"
#include "dtc/Support/Tensor.h"

namespace dtc::onnx {

struct ElementInfo {
  int32_t type = kUndefined; // ElementType
  const char* name = "";     // "float8e4m3fnuz"
  std::optional<DType> held; // empty: not supported
  int bits = 0;              // of one element in raw_data
  bool narrow = false;       // held in a wider dtype
  // --- narrow floats: a sign unless `exponentOnly`, then `exponent` + `mantissa` bits ---
  int exponent = 0, mantissa = 0, bias = 0;
  enum Beyond : uint8_t { Max, NaN } beyond = Max; // the largest pattern: a number, or NaN is -0 (FNUZ)
  bool exponentOnly = false;                       // float8e8m0: powers of two
  [[nodiscard]] double largest() const;            // of a narrow float
  [[nodiscard]] double decode(uint8_t pattern) const;
  // Of an integer of `bits` bits.
  [[nodiscard]] int64_t lowest() const;
  [[nodiscard]] int64_t highest() const;
};

// nullptr for a number that is not an element type.
[[nodiscard]] const ElementInfo* findElement(int32_t type);
// "float", or "element type 77".
[[nodiscard]] std::string elementName(int32_t type);
// The element type of a dtype that is not narrow.
[[nodiscard]] int32_t elementOf(DType);
[[nodiscard]] inline bool isNarrow(int32_t type) {
  const ElementInfo* e = findElement(type);
  return e && e->narrow;
}

// The number of bytes of `count` packed elements.
[[nodiscard]] std::optional<int64_t> packedBytes(const ElementInfo&, int64_t count);
// Elements as raw_data holds them, little-endian and packed: `bytes` has packedBytes(element, t.numElements()).
void unpack(const ElementInfo&, std::string_view bytes, Tensor& out);

} // namespace dtc::onnx
