#include "dtc/Sharding/CommDType.h"

namespace dtc {

DType defaultCommDType(PendingKind kind, DType dtype) {
  const DType d = partType(dtype);
  switch (kind) {
  case PendingKind::Sum:
  case PendingKind::Avg:
  case PendingKind::Prod: return isNarrowFloat(d) && d != DType::BF16 ? DType::F32 : d;
  case PendingKind::Max:
  case PendingKind::Min: return !isFloat(d) ? d : d == DType::F64 ? DType::I64 : DType::I32;
  case PendingKind::Any:
  case PendingKind::All: return DType::U8;
  case PendingKind::None: break;
  }
  return d;
}

int64_t commBytes(PendingKind kind, DType dtype) {
  return dtypeBytes(defaultCommDType(kind, dtype)) * (isComplex(dtype) ? 2 : 1);
}

bool holdsAll(DType wide, DType narrow) {
  if (wide == narrow) return true;
  auto range = [](DType d) { // exponent bits, which order the ranges except for the two f8
    switch (d) {
    case DType::F8E4M3: return 4;
    case DType::F8E5M2:
    case DType::F16: return 5;
    case DType::BF16:
    case DType::F32: return 8;
    default: return 11;
    }
  };
  return mantissaBits(wide) >= mantissaBits(narrow) && range(wide) >= range(narrow);
}

} // namespace dtc
