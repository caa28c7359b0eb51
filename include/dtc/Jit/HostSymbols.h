#pragma once
#include <string_view>

namespace dtc {

// The address of a libc or libm function that generated code may call (memcpy, memmove, memset, memcmp and
// <math.h>), or null.
[[nodiscard]] const void* hostFunction(std::string_view name);

} // namespace dtc
