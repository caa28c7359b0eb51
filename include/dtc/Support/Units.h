#pragma once
// Numbers with units, as people read them.
#include <cstdint>
#include <string>

namespace dtc {

// "1.5 KiB", "12.0 MiB", "640 B".
[[nodiscard]] std::string bytesText(int64_t bytes);

} // namespace dtc
