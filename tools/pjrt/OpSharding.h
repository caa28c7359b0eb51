#pragma once
// Shardings as XLA's OpSharding protocol buffer, and the messages of device assignments.
#include "dtc/Sharding/Sharding.h"
#include "dtc/Support/Result.h"

#include <string>
#include <vector>

namespace dtc {

[[nodiscard]] std::string replicatedOpSharding();
[[nodiscard]] std::string opSharding(const Sharding& sharding, const Mesh& mesh);

// DeviceAssignmentProto of one replica: a device for each partition.
[[nodiscard]] std::string deviceAssignment(const std::vector<int64_t>& deviceIds);

// What the plugin reads of a CompileOptionsProto.
struct PjrtOptions {
  int64_t numReplicas = 1, numPartitions = 1;
  std::vector<int64_t> deviceIds; // by partition; empty: not given
};
[[nodiscard]] Result<PjrtOptions> pjrtOptions(std::string_view proto);

} // namespace dtc
