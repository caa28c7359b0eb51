#pragma once
// The elements of dense<…> and dense_resource<…>, parsed once their type is known.
#include "dtc/Support/DType.h"
#include "mlir/MlirTree.h"
#include <string>

namespace dtc {

// Elements of one dtype in dtc's byte layout; one element for a splat.
struct HloNumbers {
  DType dtype = DType::F32;
  bool splat = false;
  std::vector<std::byte> bytes;
  [[nodiscard]] size_t count() const;
};

// The dtype of an element type of the text, or nothing: i1 -> bool, ui8 -> u8, f8E4M3FN -> f8e4m3,
// complex<f32> -> c64 …
[[nodiscard]] std::optional<DType> hloDType(std::string_view element);

struct HloSmall;
// Parses a Dense or Resource attribute of `count` elements. Nothing after writing the error to `why`.
// `small`: the elements are of this dtype, which `dtype` stores.
[[nodiscard]] std::optional<HloNumbers> readNumbers(std::string_view source, const MlirTree&, const MlirAttr&,
                                                    DType dtype, int64_t count, std::string& why,
                                                    const HloSmall* small = nullptr);

} // namespace dtc
