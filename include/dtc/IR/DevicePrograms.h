#pragma once
// Programs whose devices differ (ir.md, "Devices that differ"): a set of local functions, each with the
// devices that run it. One function for all devices is the usual case.
#include "dtc/IR/Module.h"
#include "dtc/Sharding/Sharding.h"

namespace dtc {

// The program of each device.
struct DevicePrograms {
  std::vector<FuncId> functions; // the entry first
  std::vector<uint32_t> of;      // by device coordinate: an index into `functions`
  [[nodiscard]] FuncId at(int64_t coordinate) const { return functions[of[static_cast<size_t>(coordinate)]]; }
  [[nodiscard]] std::vector<int64_t> coordinatesOf(size_t function) const; // device coordinates, ascending
  [[nodiscard]] bool differ() const { return functions.size() > 1; }
};

// The functions that are one program with `entry`, which is not marked {program = …} itself. Requires a
// verified module.
[[nodiscard]] DevicePrograms programsOf(const Module&, FuncId entry);
// The functions of that set; `entry` alone if it has no {devices = […]}.
[[nodiscard]] std::vector<FuncId> functionsOfProgram(const Module&, FuncId entry);
// The entry of the set that a function belongs to: the one that {program = @f} names, or the function itself.
[[nodiscard]] FuncId entryOfProgram(const Module&, FuncId);
// {devices = […]} of a function, as written; empty if it runs on all devices.
[[nodiscard]] std::vector<int64_t> devicesOf(const Module&, FuncId);
// The same for reports: "devices [0, 1]"; empty if it runs on all devices.
[[nodiscard]] std::string devicesText(const Module&, FuncId);

} // namespace dtc
