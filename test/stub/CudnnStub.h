#pragma once
// What the two halves of the tests' libcudnn.so.9 share.
#include "Streams.h"

#include "dtc/Support/DType.h"
#include <cstring>

namespace stub {

struct CudnnHandle {
  Device* device = nullptr;
  Stream* stream = nullptr;
};

inline double loadNumber(dtc::DType d, const void* base, int64_t i) {
  const char* p = static_cast<const char*>(base) + i * dtypeBytes(d);
  uint16_t narrow;
  float single;
  double wide;
  switch (d) {
  case dtc::DType::F16: return std::memcpy(&narrow, p, 2), dtc::f16ToFloat(narrow);
  case dtc::DType::BF16: return std::memcpy(&narrow, p, 2), dtc::bf16ToFloat(narrow);
  case dtc::DType::F32: return std::memcpy(&single, p, 4), single;
  default: return std::memcpy(&wide, p, 8), wide;
  }
}

inline void storeNumber(dtc::DType d, void* base, int64_t i, double v) {
  char* p = static_cast<char*>(base) + i * dtypeBytes(d);
  const uint16_t narrow = d == dtc::DType::F16 ? dtc::doubleToF16(v) : dtc::doubleToBf16(v);
  const auto single = static_cast<float>(v);
  if (d == dtc::DType::F32)
    std::memcpy(p, &single, 4);
  else if (d == dtc::DType::F64)
    std::memcpy(p, &v, 8);
  else
    std::memcpy(p, &narrow, 2);
}

} // namespace stub
