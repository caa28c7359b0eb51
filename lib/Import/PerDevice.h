#pragma once
// Texts that say what each device does: collectives, or a device's number, outside of any manual computation. Private to lib/Import.
#include "MlirTree.h"
#include "dtc/IR/Module.h"
#include <optional>
#include <string_view>
#include <unordered_set>

namespace dtc {

// Is the op of this name one that only one device's code can have?
[[nodiscard]] bool asksForDevice(std::string_view name);

// How many devices such a text is for: mhlo.num_partitions and mhlo.num_replicas, else as many partitions as its groups name.
struct PerDeviceText {
  int64_t replicas = 1, partitions = 1;
  const MlirOp* op = nullptr; // that says so
};
// Functions with such ops that manual computations call: they are part of those.
using DeviceFunctions = std::unordered_set<std::string_view>;
[[nodiscard]] DeviceFunctions deviceFunctions(const MlirTree&);
// Nothing where the text, but for these functions, is a program for all devices together.
[[nodiscard]] std::optional<PerDeviceText> perDeviceText(const MlirTree&, const DeviceFunctions&);

// Makes the functions of such a text `spmd` ones on `mesh`. What goes in and out of them is each device's own: pieces of a tensor
// along its first dim; scalars are the same on all.
void makePerDevice(Module&, MeshId mesh);

} // namespace dtc
