#pragma once
// What the stub of NCCL computes.
#include "dtc/Support/DType.h"

#include <cstring>
#include <string>
#include <vector>

namespace stub {
using namespace dtc;

inline DType typeOf(int number) {
  const DType types[] = {DType::I8,  DType::U8,  DType::I32, DType::U32,  DType::I64,    DType::U64,
                         DType::F16, DType::F32, DType::F64, DType::BF16, DType::F8E4M3, DType::F8E5M2};
  return types[number];
}

template <class T> T combined(int op, T a, T b) {
  switch (op) {
  case 1: return static_cast<T>(a * b);
  case 2: return b > a || a != a ? b : a; // NaN is dropped where the other is a number
  case 3: return b < a || a != a ? b : a;
  default: return static_cast<T>(a + b);
  }
}

template <class T> void reduceInts(int op, const std::vector<const char*>& from, char* to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T acc, next;
    std::memcpy(&acc, from[0] + i * sizeof(T), sizeof acc);
    for (size_t r = 1; r < from.size(); ++r) {
      std::memcpy(&next, from[r] + i * sizeof(T), sizeof next);
      acc = combined(op, acc, next);
    }
    std::memcpy(to + i * sizeof(T), &acc, sizeof acc);
  }
}

inline double loadFloat(DType d, const char* p) {
  uint8_t tiny;
  uint16_t half;
  float single;
  double wide;
  switch (d) {
  case DType::F8E4M3: return std::memcpy(&tiny, p, 1), f8E4M3ToFloat(tiny);
  case DType::F8E5M2: return std::memcpy(&tiny, p, 1), f8E5M2ToFloat(tiny);
  case DType::F16: return std::memcpy(&half, p, 2), f16ToFloat(half);
  case DType::BF16: return std::memcpy(&half, p, 2), bf16ToFloat(half);
  case DType::F32: return std::memcpy(&single, p, 4), single;
  default: return std::memcpy(&wide, p, 8), wide;
  }
}

inline void storeFloat(DType d, char* p, double v) {
  const uint8_t tiny = d == DType::F8E4M3 ? doubleToF8E4M3(v) : doubleToF8E5M2(v);
  const uint16_t half = d == DType::F16 ? doubleToF16(v) : doubleToBf16(v);
  const auto single = static_cast<float>(v);
  const void* from = &v;
  if (dtypeBytes(d) == 1) from = &tiny;
  if (dtypeBytes(d) == 2) from = &half;
  if (d == DType::F32) from = &single;
  std::memcpy(p, from, static_cast<size_t>(dtypeBytes(d)));
}

// Rank after rank, rounded each time, as a ring does it; the ranks' order begins elsewhere for each element.
inline void reduceFloats(DType d, int op, const std::vector<const char*>& from, char* to, size_t count) {
  const auto width = static_cast<size_t>(dtypeBytes(d));
  for (size_t i = 0; i < count; ++i) {
    double acc = loadFloat(d, from[i % from.size()] + i * width);
    for (size_t r = 1; r < from.size(); ++r)
      acc = roundToFloat(d, combined(op, acc, loadFloat(d, from[(i + r) % from.size()] + i * width)));
    storeFloat(d, to + i * width, acc);
  }
}

inline void reduce(DType d, int op, const std::vector<const char*>& from, char* to, size_t count) {
  switch (d) {
  case DType::I8: return reduceInts<int8_t>(op, from, to, count);
  case DType::U8: return reduceInts<uint8_t>(op, from, to, count);
  case DType::I32: return reduceInts<int32_t>(op, from, to, count);
  case DType::U32: return reduceInts<uint32_t>(op, from, to, count);
  case DType::I64: return reduceInts<int64_t>(op, from, to, count);
  case DType::U64: return reduceInts<uint64_t>(op, from, to, count);
  default: return reduceFloats(d, op, from, to, count);
  }
}

} // namespace stub
