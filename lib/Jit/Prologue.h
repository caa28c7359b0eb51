#pragma once
// The device headers (lib/Jit/Device/*.h), embedded at build time: what generated source may use.
#include <span>
#include <string>
#include <string_view>

namespace dtc {

struct DeviceFile {
  std::string_view name; // "cpu.h"
  std::string_view text;
};
[[nodiscard]] std::span<const DeviceFile> deviceFiles(); // generated

// What is put before a unit for each compiler: the shared part, then its own.
[[nodiscard]] std::string cpuPrologue();
[[nodiscard]] std::string cudaPrologue();
[[nodiscard]] std::string emuPrologue();

} // namespace dtc
