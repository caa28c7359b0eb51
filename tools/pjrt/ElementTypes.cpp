#include "ElementTypes.h"

#include <algorithm>

namespace dtc {

static constexpr ElementType kTypes[] = {
    {PJRT_Buffer_Type_PRED, "i1", 1, DType::Bool},
    {PJRT_Buffer_Type_S8, "i8", 1, DType::I8},
    {PJRT_Buffer_Type_S16, "i16", 2, DType::I16},
    {PJRT_Buffer_Type_S32, "i32", 4, DType::I32},
    {PJRT_Buffer_Type_S64, "i64", 8, DType::I64},
    {PJRT_Buffer_Type_U8, "ui8", 1, DType::U8},
    {PJRT_Buffer_Type_U16, "ui16", 2, DType::U16},
    {PJRT_Buffer_Type_U32, "ui32", 4, DType::U32},
    {PJRT_Buffer_Type_U64, "ui64", 8, DType::U64},
    {PJRT_Buffer_Type_F16, "f16", 2, DType::F16},
    {PJRT_Buffer_Type_F32, "f32", 4, DType::F32},
    {PJRT_Buffer_Type_F64, "f64", 8, DType::F64},
    {PJRT_Buffer_Type_BF16, "bf16", 2, DType::BF16},
    {PJRT_Buffer_Type_C64, "complex<f32>", 8, DType::C64},
    {PJRT_Buffer_Type_C128, "complex<f64>", 16, DType::C128},
    {PJRT_Buffer_Type_F8E5M2, "f8E5M2", 1, DType::F8E5M2},
    {PJRT_Buffer_Type_F8E4M3FN, "f8E4M3FN", 1, DType::F8E4M3},
    {PJRT_Buffer_Type_F8E4M3B11FNUZ, "f8E4M3B11FNUZ", 1, DType::F32},
    {PJRT_Buffer_Type_F8E5M2FNUZ, "f8E5M2FNUZ", 1, DType::F32},
    {PJRT_Buffer_Type_F8E4M3FNUZ, "f8E4M3FNUZ", 1, DType::F32},
    {PJRT_Buffer_Type_S4, "i4", 1, DType::I8},
    {PJRT_Buffer_Type_U4, "ui4", 1, DType::U8},
    {PJRT_Buffer_Type_S2, "i2", 1, DType::I8},
    {PJRT_Buffer_Type_U2, "ui2", 1, DType::U8},
    {PJRT_Buffer_Type_F8E4M3, "f8E4M3", 1, DType::F32},
    {PJRT_Buffer_Type_F8E3M4, "f8E3M4", 1, DType::F32},
    {PJRT_Buffer_Type_F8E8M0FNU, "f8E8M0FNU", 1, DType::F32},
    {PJRT_Buffer_Type_F4E2M1FN, "f4E2M1FN", 1, DType::F32},
};

const ElementType* findElementType(PJRT_Buffer_Type type) {
  const auto* found = std::ranges::find(kTypes, type, &ElementType::type);
  return found == std::end(kTypes) ? nullptr : found;
}

const ElementType* findElementType(std::string_view hlo) {
  const auto* found = std::ranges::find(kTypes, hlo, &ElementType::hlo);
  return found == std::end(kTypes) ? nullptr : found;
}

} // namespace dtc
