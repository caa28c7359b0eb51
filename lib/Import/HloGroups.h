#pragma once
// Which devices take part in a collective together. Private to lib/Import.
#include "HloContext.h"
#include "dtc/Sharding/Sharding.h"

namespace dtc {

// What the numbers of an op's groups name where a text has replicas and partitions at once (StableHLO's specification,
// "process grouping"): a device's number with use_global_device_ids, else replicas; with a channel, replicas with all their
// partitions (OfReplicas), or partitions (OfEither).
enum class HloGroupKind : uint8_t { OfReplicas, OfEither };

using HloGroups = std::vector<std::vector<int64_t>>;
// The table of an attribute as places on the mesh at hand; nothing after a report.
[[nodiscard]] std::optional<HloGroups> deviceGroups(HloContext&, std::string_view name, HloGroupKind);
// The axes, major to minor, along which replica_groups run; nothing after a report. No groups: all devices.
[[nodiscard]] std::optional<std::vector<AxisRef>> groupAxes(HloContext&, HloGroupKind);
// The same of a table that was read.
[[nodiscard]] std::optional<std::vector<AxisRef>> axesOfGroups(HloContext&, const HloGroups&);
inline constexpr std::string_view kReplicaGroups = "replica_groups";

} // namespace dtc
