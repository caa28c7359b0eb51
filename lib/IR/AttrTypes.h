#pragma once
// What the value of an attribute must be, by its AttrType.
#include "dtc/IR/OpRecord.h"

namespace dtc {

[[nodiscard]] bool attrFits(const Module&, AttrId value, AttrType);
[[nodiscard]] const char* attrTypeWords(AttrType); // "a list of dims such as [0, 1]"

} // namespace dtc
