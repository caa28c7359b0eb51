#pragma once
// Per-device texts: collectives, or a device's number, outside of any manual computation.
#include "dtc/IR/Module.h"
#include "mlir/MlirTree.h"
#include <optional>
#include <string_view>
#include <unordered_set>

namespace dtc {

// True if the op of this name is allowed only in per-device code.
[[nodiscard]] bool asksForDevice(std::string_view name);

// The number of devices of such a text: mhlo.num_partitions and mhlo.num_replicas, else the partitions named
// by its groups.
struct PerDeviceText {
  int64_t replicas = 1, partitions = 1;
  const MlirOp* op = nullptr; // the op that states it
};
// Functions with such ops that are called by manual computations and belong to them.
using DeviceFunctions = std::unordered_set<std::string_view>;
[[nodiscard]] DeviceFunctions deviceFunctions(const MlirTree&);
// Nothing where the text, apart from these functions, is a global program.
[[nodiscard]] std::optional<PerDeviceText> perDeviceText(const MlirTree&, const DeviceFunctions&);

// Makes the functions of such a text `spmd` functions on `mesh`. Their arguments and results are local:
// shards of a tensor along its first dim; scalars are replicated.
void makePerDevice(Module&, MeshId mesh);

} // namespace dtc
