#pragma once
#include <string>

namespace dtc {

// Partitions a StableHLO program for its mesh and writes what one device runs, as StableHLO without Shardy.
// Empty if that has no such form.
[[nodiscard]] std::string partitionText(const std::string& text, const std::string& name,
                                        int64_t numPartitions);

} // namespace dtc
