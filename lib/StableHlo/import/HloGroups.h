#pragma once
// Replica groups of collectives.
#include "import/HloContext.h"

namespace dtc {

// The meaning of the numbers in an op's groups where a text has both replicas and partitions (StableHLO's
// specification, "process grouping"): device numbers with use_global_device_ids, else replicas; with a
// channel, replicas with all their partitions (OfReplicas), or partitions (OfEither).
enum class HloGroupKind : uint8_t { OfReplicas, OfEither };

using HloGroups = std::vector<std::vector<int64_t>>;
// The table of an attribute as device coordinates on the current mesh; nothing after a report.
[[nodiscard]] std::optional<HloGroups> deviceGroups(HloContext&, std::string_view name, HloGroupKind);
// The axes, major to minor, that replica_groups correspond to; nothing after a report. No groups: all
// devices.
[[nodiscard]] std::optional<std::vector<AxisRef>> groupAxes(HloContext&, HloGroupKind);
// The same for a table that has been read.
[[nodiscard]] std::optional<std::vector<AxisRef>> axesOfGroups(HloContext&, const HloGroups&);
inline constexpr std::string_view kReplicaGroups = "replica_groups";

} // namespace dtc
