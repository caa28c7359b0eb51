#pragma once
// Element types of PJRT, of StableHLO, and of dtc.
#include "PjrtApi.h"
#include "dtc/Support/DType.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace dtc {

struct ElementType {
  PJRT_Buffer_Type type;
  std::string_view hlo; // "i1"
  size_t bytes;         // of an element on the host; less than a byte is a byte
  DType held;           // what programs hold it in
};
[[nodiscard]] const ElementType* findElementType(PJRT_Buffer_Type type);
[[nodiscard]] const ElementType* findElementType(std::string_view hlo);

// The number of elements.
[[nodiscard]] inline size_t countOf(std::span<const int64_t> dims) {
  size_t n = 1;
  for (int64_t d : dims) n *= static_cast<size_t>(d);
  return n;
}

} // namespace dtc
